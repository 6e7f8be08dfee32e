"""Waits: timeouts, Ctrl-C, close from another thread, watches, hold."""

import math
import os
import signal
import threading
import time

import hurray
import numpy as np
import pytest


def soon(call):
    """Runs `call` in a thread; join() gives what it returned or raised."""

    class Thread(threading.Thread):
        def run(self):
            try:
                self.result = call()
            except BaseException as error:
                self.result = error

        def join(self):
            super().join(60)
            return self.result

    thread = Thread()
    thread.start()
    return thread


# ---- Timeouts -------------------------------------------------------------------------------------------------------


def test_what_is_not_there_is_not_found_at_once(client):
    for arguments in ({}, {"timeout": 0}, {"timeout": 0.0}):
        with pytest.raises(hurray.NotFoundError) as caught:
            client.attach("absent", **arguments)
        assert "absent" in str(caught.value) and caught.value.status == -32


# case E10
@pytest.mark.parametrize("timeout", [1e-9, 0.001, 0.2])
def test_what_does_not_come_is_timed_out_not_before_its_time(client, timeout):
    begin = time.monotonic()
    with pytest.raises(TimeoutError) as caught:
        client.attach("absent", timeout=timeout)
    assert time.monotonic() - begin >= timeout
    assert isinstance(caught.value, hurray.TimeoutError) and isinstance(caught.value, hurray.Error)


# case E10
@pytest.mark.parametrize("timeout", [-1, -0.001, math.nan, -math.inf])
def test_timeouts_that_mean_nothing_are_refused(client, timeout):
    for call in (
        lambda: client.attach("absent", timeout=timeout),
        lambda: hurray.connect(timeout=timeout),
        lambda: client.watch().get(timeout),
    ):
        with pytest.raises(ValueError, match="timeout"):
            call()
    with pytest.raises((TypeError, ValueError)):
        client.attach("absent", timeout="soon")


# case E10
@pytest.mark.parametrize("timeout", [None, 1e18, math.inf, 10**30])
def test_waits_for_ever_end_when_it_is_published(client, other, timeout):
    waiting = soon(lambda: client.attach("late", timeout=timeout).shape)
    other.publish("late", np.zeros(3), copy=True)
    assert waiting.join() == (3,)


def test_versions(client, other):
    first = client.publish("versions", np.full(3, 1), copy=True)
    waiting = soon(lambda: np.asarray(other.attach("versions", newer_than=first.version, timeout=60))[0])
    second = client.publish("versions", np.full(3, 2), copy=True)
    assert waiting.join() == 2 and second.version > first.version
    assert other.attach("versions", version=second.version).version == second.version
    with pytest.raises(hurray.NotFoundError):
        other.attach("versions", version=first.version)
    for arguments in ({"version": 0}, {"version": 2**64}, {"newer_than": -1}, {"version": 1, "newer_than": 1}):
        with pytest.raises(hurray.InvalidArgumentError):
            other.attach("versions", **arguments)


def test_attach_by_capsule(client, other):
    publication = client.publish(None, np.arange(3), copy=True)
    assert np.asarray(other.attach(publication)).tolist() == [0, 1, 2]
    (entry,) = [entry for entry in other.list() if entry.capsule == publication.capsule]
    assert entry.name == "" and np.asarray(other.attach(entry)).tolist() == [0, 1, 2]
    bad = entry._replace(capsule="0:12")
    with pytest.raises(hurray.InvalidArgumentError, match="0:12"):
        other.attach(bad)


@pytest.mark.parametrize("address", ["/nonexistent/hurrayd.sock", "/dev/null"])
def test_no_daemon_is_an_error_that_names_the_path(address):
    with pytest.raises(hurray.Error, match=address) as caught:
        hurray.connect(address)
    if "nonexistent" in address:
        assert isinstance(caught.value, hurray.DaemonUnavailableError) and isinstance(caught.value, ConnectionError)


NAMES = [
    "", "x" * 256, "x" * 100_000, "a/../b", "/a", "//a", "a/", "a//b", ".", "..", "a\0b", "\udc80", "a\nb", "a\x7f", "\x85",
]


# case E11
@pytest.mark.parametrize("name", NAMES, ids=lambda name: repr(name[:10]))
def test_names_that_break_the_rules_are_refused_before_any_wait(client, name):
    for call in (
        lambda: client.attach(name, timeout=60),
        lambda: client.publish(name, np.zeros(1), copy=True),
    ):
        with pytest.raises((hurray.InvalidArgumentError, hurray.LimitError)):
            call()


# case E11
@pytest.mark.parametrize("name", ["x" * 255, "trailing ", "Größe", "e\u0301", "\u00e9", "a/b/c", "..."])
def test_names_that_keep_them_are_taken_as_they_are(client, other, name):
    client.publish(name, np.zeros(1), copy=True)
    assert other.attach(name).name == name
    assert [entry.name for entry in other.list(name)] == [name]


def test_names_are_str(client):
    for name in (b"bytes", 5, None):
        with pytest.raises(TypeError):
            client.attach(name)


# ---- Ctrl-C ---------------------------------------------------------------------------------------------------------

WAITS = {
    "attach": "client.attach('never', timeout=None)",
    "watch": "for event in client.watch('never'): pass",
    "connect": "hurray.connect('/nonexistent/hurrayd.sock', timeout=None)",
    "ended": "client.publish('x', np.zeros(1), copy=True).wait_ended()",
}


@pytest.mark.parametrize("wait", WAITS)
def test_ctrl_c_ends_a_wait(program, wait):
    waiting = program(
        f"""
        print("waiting", flush=True)
        try:
            {WAITS[wait]}
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        client.publish("after", np.zeros(1), copy=True)  # the client is as good as before
        print(client.attach("after").shape)
        """
    )
    waiting.read_line()
    wait_until_asleep(waiting.process.pid)
    waiting.process.send_signal(signal.SIGINT)
    code, out, err = waiting.finish()
    assert (code, out.splitlines(), err) == (0, ["interrupted", "(1,)"], "")


def wait_until_asleep(pid):
    """Until the program's main thread waits in the kernel; a signal before that would prove nothing."""
    asleep = 0
    while asleep < 5:
        with open(f"/proc/{pid}/stat") as stat:
            asleep = asleep + 1 if stat.read().rsplit(")")[1].split()[0] == "S" else 0
        time.sleep(0.02)


def test_other_signals_run_their_handler_and_the_wait_goes_on(program, client):
    waiting = program(
        """
        signal.signal(signal.SIGUSR1, lambda *_: print("handled", flush=True))
        print("waiting", flush=True)
        print(client.attach("signalled", timeout=None).shape)
        """
    )
    waiting.read_line()
    wait_until_asleep(waiting.process.pid)
    waiting.process.send_signal(signal.SIGUSR1)
    assert waiting.read_line() == "handled"
    client.publish("signalled", np.zeros(2), copy=True)
    assert waiting.finish() == (0, "(2,)\n", "")


def test_other_threads_run_while_one_waits(client, other):
    waiting = soon(lambda: client.attach("released", timeout=60).shape)
    assert sum(range(100_000)) == 4999950000  # needs the GIL
    other.publish("released", np.zeros(2), copy=True)
    assert waiting.join() == (2,)


# ---- Close, hold ----------------------------------------------------------------------------------------------------


def test_close_wakes_those_who_wait(other):
    client = hurray.connect()
    publication = client.publish("closed", np.zeros(1), copy=True)
    tensor = other.attach("closed")
    watch = client.watch("never")
    assert watch.get(60).kind == "snapshot-end"
    waits = [
        soon(lambda: client.attach("never", timeout=None)),
        soon(lambda: list(watch)),
        soon(publication.wait_ended),
        soon(client.hold),
    ]
    time.sleep(0.2)  # most of them wait by now; what they tell is the same if they don't
    client.close()
    results = [wait.join() for wait in waits]
    assert isinstance(results[0], hurray.ClosedError)
    assert results[1] == []
    assert isinstance(results[2], hurray.ClosedError)  # its consumer still reads, and nobody will tell
    assert results[3] is None
    assert np.asarray(tensor)[0] == 0


class After:
    """The client's C++ half, but that something happens when `call` has returned and the Python half does not know yet."""

    def __init__(self, client, call, then):
        self._core, self._call, self._then = client._core, call, then
        client._core = self

    def __getattr__(self, name):
        found = getattr(self._core, name)
        if name != self._call:
            return found

        def call(*args, **keywords):
            result = found(*args, **keywords)
            self._then()
            return result

        return call


def test_a_client_that_is_closed_just_when_something_is_published_wakes_who_waits_for_its_end(other):
    client = hurray.connect()
    held = []

    def close():
        held.append(other.attach("closed"))  # or it would end, and this be told
        client.close()

    After(client, "publish_copy", close)
    publication = client.publish("closed", np.zeros(1), copy=True)
    with pytest.raises(hurray.ClosedError):
        publication.wait_ended(60)


def test_a_client_that_is_closed_just_when_a_watch_begins_ends_it():
    client = hurray.connect()
    After(client, "watch", client.close)
    watch = client.watch("never")
    with pytest.raises(hurray.ClosedError):
        while True:
            watch.get(60)
    assert list(watch) == []


def test_a_daemon_that_goes_just_when_a_watch_begins_ends_it(own_daemon):
    with hurray.connect(own_daemon.socket, timeout=60, reconnect=0) as client:

        def end():
            own_daemon.kill()
            assert client._gone.wait(60)

        After(client, "watch", end)
        watch = client.watch("never")
        with pytest.raises(hurray.ConnectionLostError):
            while True:
                watch.get(60)


def test_a_closed_client_says_so(client):
    with hurray.connect() as mine:
        array = mine.allocate(3, "int8")
    mine.close()
    assert mine.closed and "closed" in repr(mine)
    for call in (
        lambda: mine.allocate(3, "int8"),
        lambda: mine.publish("x", array),
        lambda: mine.attach("x"),
        lambda: mine.list(),
        lambda: mine.watch(),
        lambda: mine.withdraw("x"),
        lambda: mine.status(),
    ):
        with pytest.raises(hurray.ClosedError, match="closed"):
            call()


def test_hold_ends_with_ctrl_c_or_when_told(client, program):
    stop = threading.Event()
    holding = soon(lambda: client.hold(stop))
    stop.set()
    assert holding.join() is None
    holding = soon(lambda: hurray.hold(stop))
    assert holding.join() is None
    mine = hurray.connect()
    holding = soon(lambda: mine.hold(threading.Event()))
    mine.close()
    assert holding.join() is None
    for hold in ("client.hold()", "hurray.hold()"):
        server = program(f"client.publish('held', np.zeros(5), copy=True); print('up', flush=True); {hold}; print('end')")
        server.read_line()
        assert client.attach("held").shape == (5,)
        wait_until_asleep(server.process.pid)
        server.process.send_signal(signal.SIGINT)
        assert server.finish() == (0, "end\n", "")


def test_a_daemon_that_goes_ends_what_waits_for_it(own_daemon, program):
    waiting = program(
        """
        import threading
        client = hurray.connect(timeout=60, reconnect=0)
        publication = client.publish("x", np.zeros(1), copy=True)
        tensor = client.attach("x")
        watch = client.watch("x")
        def expect_lost(call):
            try:
                call()
            except hurray.ConnectionLostError:
                print("lost")
        print("waiting", flush=True)
        expect_lost(lambda: list(watch))
        print("ended", publication.wait_ended())  # all its consumers count as lost
        expect_lost(client.hold)
        expect_lost(lambda: client.hold(threading.Event()))
        expect_lost(lambda: client.attach("y", timeout=None))
        print(tensor.state, np.asarray(tensor).tolist())
        """,
        socket=own_daemon.socket,
    )
    assert waiting.read_line() == "waiting"
    own_daemon.kill()
    code, out, err = waiting.finish()
    assert (code, err) == (0, "")
    assert out.splitlines() == ["lost", "ended True", "lost", "lost", "lost", "connection-lost [0.0]"]


# ---- Watches --------------------------------------------------------------------------------------------------------


def test_a_watch_tells_what_there_is_and_what_changes(client, other):
    client.publish("watched/a", np.zeros(1), copy=True)
    client.publish("unwatched", np.zeros(1), copy=True)
    with other.watch("watched/") as watch:
        events = [watch.get(60), watch.get(60)]
        publication = client.publish("watched/b", np.zeros(1), copy=True)
        events.append(watch.get(60))
        publication.withdraw()
        events.append(watch.get(60))
        with pytest.raises(hurray.TimeoutError):
            watch.get(0)
        with pytest.raises(hurray.TimeoutError):
            watch.get(0.001)
    kinds = [event.kind for event in events]
    assert kinds == ["present", "snapshot-end", "published", "retired"]
    assert [event.name for event in events] == ["watched/a", "", "watched/b", "watched/b"]
    assert events[2].capsule == publication.capsule and events[2].version == publication.version
    assert list(watch) == []
    with pytest.raises(hurray.ClosedError):
        watch.get()


def test_a_watch_can_call_back(client, other):
    events = []
    told = threading.Event()

    def callback(event):
        events.append(event)
        if event.kind == "published":
            told.set()

    watch = other.watch("called/", callback)
    client.publish("called/a", np.zeros(1), copy=True)
    assert told.wait(60)
    watch.close()
    watch.close()
    client.publish("called/b", np.zeros(1), copy=True)
    other.list()  # answered after what went before it
    assert [event.kind for event in events] == ["snapshot-end", "published"]
    with pytest.raises(hurray.InvalidArgumentError, match="callback"):
        next(watch)


def test_a_watch_may_be_closed_and_the_client_used_in_its_callback(client):
    done = threading.Event()
    seen = []

    def callback(event):
        seen.append((event.kind, len(client.list("inside"))))
        if event.kind == "published":
            watch.close()
            done.set()

    watch = client.watch("inside", callback)
    client.publish("inside", np.zeros(1), copy=True)
    assert done.wait(60)
    client.publish("inside", np.zeros(1), copy=True)
    assert [kind for kind, _ in seen] == ["snapshot-end", "published"]


def test_a_watch_that_was_dropped_ends(client):
    def watches():
        return sum(
            use["used"] for use in client.status()["uses"] if use["name"] == "watches" and use["uid"] == os.getuid()
        )

    for event in client.watch("dropped"):
        break
    deadline = time.monotonic() + 60
    while watches() != 0:  # it learns at the next event that nobody listens
        assert time.monotonic() < deadline
        client.publish("dropped", np.zeros(1), copy=True)


def test_withdraw_by_name_and_by_what_has_a_capsule(client, other):
    with pytest.raises(hurray.NotFoundError, match="nothing/here"):
        client.withdraw("nothing/here")
    for choose in (lambda name, publication: name, lambda name, publication: publication,
                   lambda name, publication: client.list(name)[0]):
        publication = client.publish("withdrawn", np.zeros(1), copy=True)
        client.withdraw(choose("withdrawn", publication))
        with pytest.raises(hurray.NotFoundError):
            other.attach("withdrawn")


def test_list_takes_patterns(client):
    for name in ("listed/b", "listed/a", "other"):
        client.publish(name, np.zeros((2, 3), "int8"), copy=True)
    assert [entry.name for entry in client.list("listed/")] == ["listed/a", "listed/b"]
    assert [entry.name for entry in client.list("listed/b")] == ["listed/b"]
    assert {"listed/a", "listed/b", "other"} <= {entry.name for entry in client.list()}
    entry = client.list("other")[0]
    assert (entry.shape, entry.dtype, entry.nbytes, entry.leases) == ((2, 3), "int8", 6, 0)


def test_status_is_a_dict(client):
    assert isinstance(client.status(), dict)
