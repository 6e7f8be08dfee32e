"""Who may read what: the modes and groups of this user's own tensors. Other users' are in the tests of the daemon."""

import os

import hurray
import numpy as np
import pytest


def publish(client, name, **options):
    array = client.allocate(4, "int32", **options)
    array[:] = 7
    return client.publish(name, array)


def test_default_is_this_user_alone(client, other):
    publish(client, "plain")
    assert other.list("plain")[0].access == hurray.Access(0o600, os.getegid())


def test_access_is_shown_as_it_was_asked_for_with_its_group_as_a_number(client, other):
    publish(client, "n", access=hurray.Access(0o640))
    assert other.list("n")[0].access == (0o640, os.getegid())
    with other.attach("n") as tensor:
        assert tensor.access == hurray.Access(0o640, os.getegid())
        assert np.asarray(tensor).tolist() == [7, 7, 7, 7]
    for same in (0o644, (0o644, os.getegid()), hurray.Access(0o644, os.getegid())):
        publish(client, "n", access=same)
        assert other.list("n")[0].access == (0o644, os.getegid())


def test_copy_has_the_access_that_it_is_published_with(client, other):
    client.publish("copy", np.arange(3), copy=True, access=0o664)
    assert other.attach("copy").access.mode == 0o664


def test_array_keeps_the_access_that_it_was_allocated_for(client):
    array = client.allocate(4, "int32", access=0o640)
    with pytest.raises(hurray.InvalidArgumentError, match=r"was allocated for group \d+ and mode 0640"):
        client.publish("n", array, access=0o600)
    client.publish("n", array, access=0o640)


@pytest.mark.parametrize(
    ("access", "words"),
    [
        (0o700, "mode of access is 0o700"),
        (0o1600, "mode of access is 0o1600"),
        (-1, "mode of access is -1"),
        ((0o640, -1), "group of access is -1"),
        ((0o640, 0xFFFFFFFF), "group of access is 4294967295"),
        ((0o640, "no such group"), "no group named 'no such group'"),
    ],
)
def test_access_that_makes_no_sense_is_refused_with_what_it_is(client, access, words):
    with pytest.raises(hurray.InvalidArgumentError, match=words):
        client.allocate(4, "int32", access=access)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may name any group")
def test_group_of_others_is_refused(client):
    foreign = next(gid for gid in range(60000, 70000) if gid != os.getegid() and gid not in os.getgroups())
    with pytest.raises(hurray.PermissionError, match=f"was not in group {foreign}"):
        publish(client, "n", access=(0o640, foreign))
