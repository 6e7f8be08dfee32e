"""Work queues, and older versions."""

import hurray
import numpy as np
import pytest
from conftest import PATIENCE_S


def put(client, name, value, **keywords):
    return client.publish(name, np.full(4, value, "int32"), copy=True, **keywords)


def test_the_oldest_is_taken_by_one(client, other):
    events = []
    first = put(client, "jobs", 1, once=True, on_take=events.append, on_release=events.append)
    put(client, "jobs", 2, once=True)
    with other.take("jobs") as job:
        assert np.asarray(job)[0] == 1
        assert not first.ended
    assert first.wait_ended(PATIENCE_S)
    assert first.taken
    assert [(event.kind, event.remaining) for event in events] == [("taken", 1), ("released", 0)]
    assert np.asarray(other.take("jobs"))[0] == 2
    with pytest.raises(hurray.NotFoundError):
        other.take("jobs")
    with pytest.raises(hurray.TimeoutError):
        other.take("jobs", timeout=0.001)


def test_a_publication_is_taken_itself(client):
    put(client, "jobs", 1, once=True)
    second = put(client, "jobs", 2, once=True)
    assert np.asarray(client.take(second))[0] == 2
    assert np.asarray(client.take("jobs"))[0] == 1


def test_what_is_taken_is_not_attached(client):
    put(client, "jobs", 1, once=True)
    put(client, "plain", 1)
    with pytest.raises(hurray.UnsupportedError):
        client.attach("jobs")
    with pytest.raises(hurray.UnsupportedError):
        client.take("plain")
    with pytest.raises(hurray.AlreadyExistsError):
        put(client, "jobs", 1)
    [job] = client.list("jobs")
    assert job.once and not job.retired
    [plain] = client.list("plain")
    assert not plain.once


def test_a_taker_that_is_killed_was_its_only_one(client, program):
    job = put(client, "jobs", 1, once=True)
    taker = program(
        """
        job = client.take("jobs", timeout=60)
        print(np.asarray(job)[0], flush=True)
        sys.stdin.read()
        """
    )
    assert taker.read_line() == "1"
    taker.process.kill()
    assert job.wait_ended(PATIENCE_S)  # it had it: it is not delivered again
    assert job.taken


def test_ctrl_c_ends_a_take(program, run, client):
    taker = program(
        """
        print("ready", flush=True)
        try:
            client.take("jobs", timeout=None)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        """
    )
    assert taker.read_line() == "ready"
    while sum(use["used"] for use in client.status()["uses"] if use["name"] == "waiting") == 0:
        pass
    taker.process.send_signal(2)  # it may not even have begun to wait for the answer
    assert taker.read_line() == "interrupted"
    put(client, "jobs", 1, once=True)
    assert np.asarray(client.take("jobs"))[0] == 1


def test_retained_versions_stay_attachable(client):
    first, second, third = (put(client, "model", value, retain=2) for value in (1, 2, 3))
    assert first.ended or first.wait_ended(PATIENCE_S)
    with pytest.raises(hurray.NotFoundError):
        client.attach("model", version=first.version)
    assert np.asarray(client.attach("model", version=second.version))[0] == 2
    assert np.asarray(client.attach("model", newer_than=first.version))[0] == 2
    assert np.asarray(client.attach("model"))[0] == 3


def test_retain_has_its_limits(client):
    with pytest.raises(hurray.InvalidArgumentError, match="retain is 0: it must be 1 or more"):
        put(client, "model", 1, retain=0)
    with pytest.raises(hurray.LimitError, match="at most 4096"):
        put(client, "model", 1, retain=4097)
    with pytest.raises(hurray.LimitError, match="at most 4096"):
        put(client, "model", 1, retain=2**70)
    with pytest.raises(hurray.InvalidArgumentError, match="ONCE replaces nothing"):
        put(client, "model", 1, retain=2, once=True)
