"""Arguments that mean nothing: each error names the argument, its limit and the value."""

import math
import os
import re
import threading

import hurray
import numpy as np
import pytest

ONE = np.zeros(1)


@pytest.mark.parametrize("shape", [2.7, (2.7,), "12", ("1", 2), b"12", True, (np.True_,), [[1, 2]], None, (None,), 5j])
def test_a_shape_is_whole_numbers(client, shape):
    for call in (
        lambda: client.allocate(shape, "uint8"),
        lambda: client.publish_fds("x", 0, shape, "uint8") if shape is not None else client.allocate(None, "uint8"),
    ):
        with pytest.raises(TypeError, match=re.escape(f"shape {shape!r}: a size must be an int, not ")):
            call()


@pytest.mark.parametrize(("shape", "wrong"), [(-1, -1), ((3, -2), -2), ((2**63, 0), 2**63)])
def test_a_size_has_its_limits(client, shape, wrong):
    with pytest.raises(hurray.InvalidArgumentError, match=re.escape(f"a size is {wrong}: it must be from 0 to 2**63 - 1")):
        client.allocate(shape, "uint8")


@pytest.mark.parametrize("shape", [3, (3,), [3], range(3, 4), np.int64(3), np.array(3), np.array([3]), iter([3])])
def test_a_shape_is_all_that_counts_as_whole_numbers(client, shape):
    assert client.allocate(shape, "uint8").shape == (3,)


SECONDS = {
    "connect, timeout": ("timeout", lambda client, value: hurray.connect(timeout=value)),
    "connect, reconnect": ("reconnect", lambda client, value: hurray.connect(reconnect=value)),
    "attach": ("timeout", lambda client, value: client.attach("absent", timeout=value)),
    "attach_many": ("timeout", lambda client, value: client.attach_many(["absent"], timeout=value)),
    "take": ("timeout", lambda client, value: client.take("absent", timeout=value)),
    "publish, timeout": ("timeout", lambda client, value: client.publish("x", ONE, copy=True, timeout=value)),
    "publish, linger": ("linger", lambda client, value: client.publish("x", ONE, copy=True, linger=value)),
    "wait_ended": ("timeout", lambda client, value: client.publish("x", ONE, copy=True).wait_ended(value)),
    "get": ("timeout", lambda client, value: client.watch().get(value)),
}


@pytest.mark.parametrize("where", SECONDS)
def test_seconds_are_a_number_that_is_not_negative(client, where):
    name, call = SECONDS[where]
    for value in (-1, -0.001, math.nan, -math.inf, np.float32(-1), -(10**400)):
        with pytest.raises(hurray.InvalidArgumentError, match=re.escape(f"{name} is {value}: it must be ")):
            call(client, value)
    for value in ("5", b"5", "soon", [1], 1j, *([] if name == "linger" else [True, np.False_])):
        with pytest.raises(TypeError, match=f"{name} must be a number of seconds, not {type(value).__name__}"):
            call(client, value)
    assert client.list("x") == [] or where in ("wait_ended",)


WHOLE = {
    "version": lambda client, value: client.attach("absent", version=value),
    "newer_than": lambda client, value: client.attach("absent", newer_than=value),
    "retain": lambda client, value: client.publish("x", ONE, copy=True, retain=value),
    "a descriptor of fds": lambda client, value: client.publish_fds("x", [value], 1, "uint8"),
    "a place in fds": lambda client, value: client.publish_fds("x", 0, 1, "uint8", placements=[(value, 0)]),
    "an offset of placements": lambda client, value: client.publish_fds("x", 0, 1, "uint8", placements=[(0, value)]),
    "the mode of access": lambda client, value: client.allocate(1, "uint8", access=value),
    "the group of access": lambda client, value: client.allocate(1, "uint8", access=(0o640, value)),
}


@pytest.mark.parametrize("name", WHOLE)
def test_whole_numbers_are_no_others_and_no_bools(client, name):
    for value in (1.0, 1.5, "1", b"1", True, np.True_, [1]):
        if name == "the group of access" and value == "1":
            continue  # a group's name
        with pytest.raises(TypeError, match=f"{name} must be an int, not {type(value).__name__}"):
            WHOLE[name](client, value)
    with pytest.raises(hurray.InvalidArgumentError, match=f"{name} is -0?o?1"):
        WHOLE[name](client, -1)
    if name != "retain":
        with pytest.raises(hurray.InvalidArgumentError, match=f"{name} is "):
            WHOLE[name](client, 2**64)


NO_CALLBACK = {
    "on_connection": lambda client: hurray.connect(on_connection="call me"),
    "on_release": lambda client: client.publish("x", ONE, copy=True, on_release=3),
    "on_open": lambda client: client.publish_many({"x": ONE}, copy=True, on_open=[]),
    "on_take": lambda client: client.publish("x", ONE, copy=True, once=True, on_take=0),
    "callback": lambda client: client.watch("x", "y"),
}


@pytest.mark.parametrize("name", NO_CALLBACK)
def test_callbacks_can_be_called(client, name):
    with pytest.raises(TypeError, match=f"{name} must be something to call, or None, not "):
        NO_CALLBACK[name](client)
    assert client.list("x") == []


OTHERS = {
    "one name for several": (lambda client: client.attach_many("abc"), r"what must be several, as \['abc'\] is"),
    "a number for several": (lambda client: client.attach_many(5), r"what must be several, as \[5\] is"),
    "a port for a path": (lambda client: hurray.connect(8080), "address must be a str, not int"),
    "a list of arrays": (lambda client: client.publish_many([ONE], copy=True), "arrays must be a mapping"),
    "no group": (lambda client: client.publish("x", ONE, copy=True, group="g"), "group must be a Group, not str"),
    "seconds to hold": (lambda client: client.hold(5), "stop must be a threading.Event, or None, not int"),
    "seconds to hold all": (lambda client: hurray.hold(5), "stop must be a threading.Event, or None, not int"),
    "no bytes": (lambda client: client.publish_fds("x", 0, descriptor=100), "descriptor must be bytes, not int"),
    "no pairs": (lambda client: client.publish_fds("x", 0, 1, "uint8", placements=[3]), "placements must be pairs"),
    "two in one": (lambda client: client.allocate(1, "uint8", access=(0o640,)), "access is .* must be an Access"),
}


@pytest.mark.parametrize("what", OTHERS)
def test_what_is_meant_otherwise_is_said(client, what):
    call, words = OTHERS[what]
    with pytest.raises((TypeError, hurray.InvalidArgumentError), match=words):
        call(client)


def test_what_python_takes_for_numbers_and_truth_is_taken(client):
    client.publish("x", ONE, copy=True, retain=np.int64(2), linger=np.float32(0.5), timeout=np.int8(1), immutable=1)
    client.publish("x", client.allocate(1, "int8", zeroed=0, immutable=np.True_, access=np.int64(0o600)), retain=np.int64(3))
    assert client.attach("x", timeout=np.float64(1), newer_than=np.uint8(0)).immutable
    assert client.publish("y", ONE, copy=True, linger=np.True_).version > 0
    client.withdraw("y")
    stop = threading.Event()
    stop.set()
    client.hold(stop)
    with open(os.devnull) as file, pytest.raises(hurray.Error, match="memfd|sealed|memory"):
        client.publish_fds("z", file, 1, "uint8", placements=[(np.int64(0), np.int64(0))])
