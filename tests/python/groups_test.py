"""Groups: many publications that others see all at once or not at all."""

import pickle
import signal

import hurray
import numpy as np
import pytest


def publish(client, name, value, **options):
    array = client.allocate(4, "int32")
    array[:] = value
    return client.publish(name, array, **options)


def test_leaving_the_block_lets_others_see_all_of_it(client, other):
    with client.group() as group:
        publications = [publish(client, f"model/{i}", i, group=group) for i in range(3)]
        assert [publication.version for publication in publications] == [0, 0, 0]
        assert other.list("model/") == []
        with pytest.raises(hurray.NotFoundError):
            other.attach("model/0")
    assert not group.open
    seen = other.list("model/")
    assert [entry.version for entry in seen] == [publication.version for publication in publications]
    first = publications[0].version
    assert [publication.version for publication in publications] == [first, first + 1, first + 2]
    with other.attach("model/2", version=first + 2) as tensor:
        assert np.asarray(tensor).tolist() == [2, 2, 2, 2]


def test_an_exception_lets_nobody_see_any_of_it(client, other):
    with pytest.raises(RuntimeError):
        with client.group() as group:
            publication = publish(client, "never", 1, group=group)
            raise RuntimeError
    assert publication.wait_ended(60)
    assert publication.version == 0
    assert other.list("never") == []
    assert not group.open


def test_a_group_can_be_ended_within_its_block(client, other):
    with client.group() as group:
        publish(client, "early", 1, group=group)
        group.commit()
        assert len(other.list("early")) == 1
        with pytest.raises(hurray.InvalidArgumentError, match="was committed or aborted"):
            group.commit()
        with pytest.raises(hurray.InvalidArgumentError, match="was committed or aborted"):
            publish(client, "late", 1, group=group)
    group.abort()
    assert len(other.list("early")) == 1
    with client.group() as group:
        publish(client, "dropped", 1, group=group)
        group.abort()
    assert other.list("dropped") == []


def test_what_a_group_has_replaced_retires_when_it_is_committed(client, other):
    before = publish(client, "replaced", 1)
    with client.group() as group:
        publish(client, "replaced", 2, group=group)
        with other.attach("replaced") as tensor:
            assert np.asarray(tensor)[0] == 1
    assert before.wait_ended(60)
    with other.attach("replaced") as tensor:
        assert np.asarray(tensor)[0] == 2


def test_copies_and_refusals(client, other):
    with client.group() as group:
        client.publish("copied", np.arange(3), copy=True, group=group)
        with pytest.raises(hurray.AlreadyExistsError, match='has a member with the name "copied" already'):
            client.publish("copied", np.arange(3), copy=True, group=group)
    assert other.attach("copied").shape == (3,)
    group = other.group()
    with pytest.raises(hurray.InvalidArgumentError, match="another client's"):
        client.publish("copied", np.arange(3), copy=True, group=group)
    with pytest.raises(TypeError, match="can't be copied"):
        pickle.dumps(group)
    assert repr(group) == "<hurray.Group of 0>"


def test_a_closed_client_has_nothing_staged(client, other):
    mine = hurray.connect()
    group = mine.group()
    publish(mine, "closed", 1, group=group)
    mine.close()
    with pytest.raises(hurray.ClosedError):
        group.commit()
    group.abort()
    while any(use["name"] == "staged" and use["used"] for use in other.status()["uses"]):
        pass
    assert other.list("closed") == []


def test_a_killed_producer_leaves_nothing_of_its_group(client, program):
    producer = program(
        """
        group = client.group()
        for i in range(3):
            client.publish(f"half/{i}", np.arange(4), copy=True, group=group)
        print("staged", flush=True)
        sys.stdin.readline()
        """
    )
    assert producer.read_line() == "staged"
    assert client.list("half/") == []
    producer.process.send_signal(signal.SIGKILL)
    producer.process.wait()
    while any(use["name"] == "staged" and use["used"] for use in client.status()["uses"]):
        pass
    assert client.list("half/") == []
