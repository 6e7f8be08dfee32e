"""The daemon is killed and started again, and programs go on."""

import threading

import hurray
import numpy as np
import pytest


class Line:
    """What a client is told of its connection, and a way to wait for it."""

    def __init__(self):
        self.states = []
        self.changed = threading.Condition()

    def __call__(self, state):
        with self.changed:
            self.states.append(state)
            self.changed.notify_all()

    def wait(self, state):
        with self.changed:
            assert self.changed.wait_for(lambda: state in self.states, 60), self.states


def test_what_is_published_and_attached_survives_the_daemon(own_daemon):
    line = Line()
    released = threading.Event()
    with (
        hurray.connect(own_daemon.socket, timeout=60, on_connection=line) as producer,
        hurray.connect(own_daemon.socket, timeout=60) as consumer,
    ):
        publication = producer.publish("x", np.arange(6), copy=True, on_release=lambda event: released.set())
        tensor = consumer.attach("x")
        own_daemon.kill()
        line.wait("away")
        with pytest.raises(hurray.ConnectionLostError, match="away"):
            producer.list()
        assert np.asarray(tensor).sum() == 15
        own_daemon.start()
        line.wait("back")
        again = consumer.attach("x", timeout=60)
        assert again.version == publication.version == tensor.version
        assert tensor.state == "ok"
        again.close()
        tensor.close()
        assert released.wait(60)
        assert line.states == ["away", "back"]


def test_a_publish_waits_over_the_outage_if_it_is_told_to(own_daemon):
    line = Line()
    with hurray.connect(own_daemon.socket, timeout=60, on_connection=line) as producer:
        first = producer.publish("frame", np.zeros(3), copy=True)
        own_daemon.kill()
        line.wait("away")
        frame = producer.allocate((3,), "f8")
        frame[:] = 1
        with pytest.raises(hurray.ConnectionLostError, match="with a timeout"):
            producer.publish("frame", frame)
        with pytest.raises(hurray.ConnectionLostError, match="was not back in time"):
            producer.publish("frame", frame, timeout=0.01)
        got = []
        waiting = threading.Thread(target=lambda: got.append(producer.publish("frame", frame, timeout=None)))
        waiting.start()
        own_daemon.start()
        waiting.join(60)
        with producer.attach("frame") as tensor:
            assert np.asarray(tensor).tolist() == [1, 1, 1]
            assert tensor.version == got[0].version > first.version


def test_an_attach_waits_over_the_outage(own_daemon):
    with (
        hurray.connect(own_daemon.socket, timeout=60) as producer,
        hurray.connect(own_daemon.socket, timeout=60) as consumer,
    ):
        got = []
        waiting = threading.Thread(target=lambda: got.append(np.asarray(consumer.attach("late", timeout=60)).tolist()))
        waiting.start()
        own_daemon.kill()
        own_daemon.start()
        while not got:
            try:
                producer.publish("late", np.ones(3), copy=True)
                break
            except hurray.ConnectionLostError:
                pass  # still away
        waiting.join(60)
        assert got == [[1.0, 1.0, 1.0]]


def test_a_daemon_that_does_not_come_back_in_time_is_lost(own_daemon):
    line = Line()
    with hurray.connect(own_daemon.socket, timeout=60, reconnect=0.05, on_connection=line) as client:
        publication = client.publish("x", np.arange(6), copy=True)
        own_daemon.kill()
        line.wait("lost")
        assert line.states == ["away", "lost"]
        assert publication.wait_ended(60)
        with pytest.raises(hurray.ConnectionLostError):
            client.list()
