"""What stays when its program is gone."""

import hurray
import numpy as np
import pytest


def wait_for(client, name, condition):
    while True:
        found = client.list(name)
        if condition(found):
            return found


@pytest.fixture(autouse=True)
def nothing_is_left(client):
    yield
    for capsule in client.list():
        client.withdraw(capsule)


def test_a_tensor_outlives_its_program(client, program):
    dead = program(
        """
        client.publish("model", np.full(4, 7, "int32"), copy=True, linger=True)
        print("there", flush=True)
        sys.stdin.read()
        """
    )
    dead.read_line()
    [info] = client.list("model")
    assert info.lingering and not info.producer_gone and info.expires is None
    before = client.attach("model")
    dead.process.kill()
    dead.process.wait()
    [info] = wait_for(client, "model", lambda found: found[0].producer_gone)
    assert info.expires is None and not info.retired
    assert before.state == "ok"
    with client.attach("model") as tensor:
        assert np.asarray(tensor).tolist() == [7, 7, 7, 7]
    before.close()
    client.withdraw(info)
    with pytest.raises(hurray.NotFoundError):
        client.attach("model")


def test_it_stays_for_so_many_seconds(client):
    with hurray.connect() as brief:
        brief.publish("short", np.zeros(4, "int32"), copy=True, linger=0.001)
        brief.publish("long", np.zeros(4, "int32"), copy=True, linger=3600)
        brief.publish("endless", np.zeros(4, "int32"), copy=True, linger=float("inf"))
    [info] = wait_for(client, "long", lambda found: found[0].producer_gone)
    assert 0 < info.expires <= 3600
    [info] = wait_for(client, "endless", lambda found: found[0].producer_gone)
    assert info.expires is None
    wait_for(client, "short", lambda found: not found)


@pytest.mark.parametrize("linger", [0, -1, float("nan")])
def test_no_time_is_refused(client, linger):
    with pytest.raises(hurray.InvalidArgumentError, match="a number of seconds above 0"):
        client.publish("model", np.zeros(4, "int32"), copy=True, linger=linger)
