"""Callbacks, collectors, threads, fork."""

import gc
import os
import sys
import threading
import time
import weakref

import hurray
import numpy as np
import pytest

# ---- Callbacks ------------------------------------------------------------------------------------------------------


class Recorder:
    """Events, and a way to wait for the n-th."""

    def __init__(self):
        self.events = []
        self.changed = threading.Condition()

    def __call__(self, event):
        with self.changed:
            self.events.append(event)
            self.changed.notify_all()

    def wait(self, count):
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.events) >= count, 60), self.events
            return self.events


def test_on_release_is_called_once_a_lease(client, program):
    released, opened = Recorder(), Recorder()
    publication = client.publish("told", np.zeros(3), copy=True, on_release=released, on_open=opened)
    consumer = program("tensor = client.attach('told'); print('has', flush=True); input(); tensor.close(); input()")
    consumer.read_line()
    (event,) = opened.wait(1)
    assert (event.kind, event.remaining, event.capsule) == ("opened", 1, publication.capsule)
    assert released.events == []
    consumer.process.stdin.write("\n")
    consumer.process.stdin.flush()
    (event,) = released.wait(1)
    assert (event.kind, event.remaining, event.capsule) == ("released", 0, publication.capsule)
    assert consumer.finish("\n")[0] == 0
    assert not publication.ended
    publication.withdraw()
    assert publication.wait_ended(60) and publication.ended
    assert len(released.events) == len(opened.events) == 1


def test_a_consumer_that_dies_is_told_as_lost(client, program):
    released = Recorder()
    client.publish("lost", np.zeros(3), copy=True, on_release=released)
    consumer = program("tensor = client.attach('lost'); print('has', flush=True); input()")
    consumer.read_line()
    consumer.process.kill()
    (event,) = released.wait(1)
    assert (event.kind, event.remaining) == ("lost", 0)


def test_a_publication_ends_when_the_last_consumer_has_let_go(client, other):
    first = client.publish("replaced", np.zeros(3), copy=True)
    tensor = other.attach("replaced")
    client.publish("replaced", np.zeros(3), copy=True)
    assert not first.wait_ended(0) and not first.wait_ended(0.01)
    tensor.close()
    assert first.wait_ended(60)


def test_on_release_works_without_the_publication(client, other):
    released = Recorder()
    client.publish("dropped", np.zeros(3), copy=True, on_release=released)
    gc.collect()
    other.attach("dropped").close()
    assert released.wait(1)[0].kind == "released"


def test_exceptions_in_callbacks_go_to_the_hook(client, other, monkeypatch):
    seen = Recorder()
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: seen(unraisable.exc_value))

    def fails(event):
        raise RuntimeError("from the callback")

    client.publish("fails", np.zeros(3), copy=True, on_release=fails)
    other.attach("fails").close()
    (error,) = seen.wait(1)
    assert isinstance(error, RuntimeError)
    del error
    seen.events.clear()
    other.attach("fails").close()  # the client goes on
    seen.wait(1)


def test_a_callback_may_close_the_client():
    done = threading.Event()
    client = hurray.connect()

    def callback(event):
        client.close()
        done.set()

    client.watch("anything", callback)
    assert done.wait(60) and client.closed


def test_a_client_in_a_cycle_with_its_callback_is_collected(monkeypatch):
    """Events may come while the collector takes the cycle apart: no callback runs with half of what it refers to."""
    errors = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: errors.append(str(unraisable.exc_value)))

    def make_cycle():
        client = hurray.connect()
        callback = lambda event: client.closed
        client.publish("cycle", np.zeros(1), copy=True, on_release=callback)
        client.watch("cycle", callback)
        return weakref.ref(client)

    for _ in range(20):
        gone = make_cycle()
        deadline = time.monotonic() + 60
        while gone() is not None:  # at once, unless a callback is running and holds it
            assert time.monotonic() < deadline
            gc.collect()
    assert errors == []


# ---- Collectors and threads -----------------------------------------------------------------------------------------


# case E4
def test_collecting_all_the_time_in_eight_threads_hangs_nowhere(client, leases):
    """A finalizer that ran inside the client's own code wanted the client's lock: the program hung for ever."""
    seconds = float(os.environ.get("HURRAY_STRESS_SECONDS", "2"))
    errors = []
    stop = threading.Event()

    def work(number):
        try:
            name = f"stress/{number}"
            while not stop.is_set():
                array = client.allocate(100, "int32")
                array[:] = number
                client.publish(name, array, on_release=lambda event: None)
                tensor = client.attach(name)
                view = np.asarray(tensor)
                assert (view == number).all()
                cycle = [tensor, view, memoryview(tensor), array]
                cycle.append(cycle)
                del tensor, view, array, cycle
        except BaseException as error:
            errors.append(error)

    threshold = gc.get_threshold()
    gc.set_threshold(1)
    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    try:
        for thread in threads:
            thread.start()
        stop.wait(seconds)
        stop.set()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
    finally:
        stop.set()
        gc.set_threshold(*threshold)
    assert errors == []
    gc.collect()
    assert sum(entry.leases for entry in client.list("stress/")) == 0


def test_nothing_is_left_behind(client):
    def descriptors():
        return len(os.listdir("/proc/self/fd"))

    def mappings():
        with open("/proc/self/maps") as maps:
            return sum("memfd" in line for line in maps)

    def round_trip():
        with hurray.connect() as mine:
            array = mine.allocate(10_000, "float64")
            mine.publish("tidy", array)
            with mine.attach("tidy") as tensor:
                assert np.asarray(tensor).sum() == 0
            with mine.watch("tidy") as watch:
                watch.get(60)
        gc.collect()

    round_trip()
    before = descriptors(), mappings()
    for _ in range(20):
        round_trip()
    assert (descriptors(), mappings()) == before


# ---- Fork -----------------------------------------------------------------------------------------------------------


# case D6
def test_a_forked_child_reads_on_and_may_connect_anew(run):
    out = run(
        """
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons: of the client's thread
        client.publish("forked", np.arange(1000), copy=True)
        tensor = client.attach("forked")
        array = np.asarray(tensor)
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            try:
                client.list()
            except hurray.ForkedError as error:
                print("forked", flush=True)
            with hurray.connect() as mine:
                print(array.sum(), np.asarray(mine.attach("forked")).sum(), flush=True)
            del array, tensor
            client.close()
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        print(client.list("forked")[0].leases, array.sum())
        """
    )
    assert out.splitlines() == ["forked", "499500 499500", "1 499500"]
