"""Many tensors at once."""

import hurray
import numpy as np
import pytest


def _model(count):
    return {f"model/{i}": np.full((3, i + 1), i, dtype=np.int32) for i in range(count)}


def test_model_arrives_whole_and_in_order(client, other):
    model = _model(300)
    published = client.publish_many(model, copy=True)
    assert list(published) == list(model)
    first = published["model/0"].version
    assert [one.version for one in published.values()] == list(range(first, first + 300))
    tensors = other.attach_many(model)
    for tensor, (name, array) in zip(tensors, model.items(), strict=True):
        assert tensor.name == name
        np.testing.assert_array_equal(np.asarray(tensor), array)
    same = other.attach_many(published.values())
    assert [one.capsule for one in same] == [one.capsule for one in published.values()]
    assert client.publish_many({}) == {} and other.attach_many([]) == []


def test_memory_of_another_kind_is_refused_for_all(client, other):
    client.publish("weights", np.arange(5, dtype="float32"), copy=True, immutable=True)
    client.publish("loop", np.arange(5, dtype="float32"), copy=True)
    with pytest.raises(hurray.UnsupportedError, match="not immutable"):
        other.attach_many(["weights", "loop"], immutable_only=True)
    assert [tensor.immutable for tensor in other.attach_many(["weights", "weights"], immutable_only=True)] == [True] * 2
    assert len(other.attach_many(["weights", "loop"], allow_unsealed=True)) == 2


def test_allocated_arrays_are_taken(client, other):
    arrays = {}
    for i in range(20):
        arrays[f"a/{i}"] = client.allocate(64, "float32")
        arrays[f"a/{i}"][:] = i
    client.publish_many(arrays)
    assert not any(array.flags.writeable for array in arrays.values())
    assert [np.asarray(tensor)[0] for tensor in other.attach_many(arrays)] == list(range(20))


def test_one_that_fails_leaves_nothing(client, other):
    model = _model(10)
    client.publish_many(model, copy=True)
    with pytest.raises(hurray.NotFoundError, match=r'items\[4\] "missing"'):
        other.attach_many([*list(model)[:4], "missing", *list(model)[4:]])
    assert sum(one.leases for one in other.list()) == 0
    with pytest.raises(hurray.InvalidArgumentError, match=r'items\[1\] "not//a name"'):
        client.publish_many({"new/1": np.ones(3), "not//a name": np.ones(3)}, copy=True)
    assert [one.name for one in other.list("new/")] == []


def test_with_a_group_of_the_callers(client, other):
    with client.group() as group:
        half = client.publish_many({"b/1": np.ones(3)}, copy=True, group=group)
        rest = client.publish("b/2", np.ones(3), copy=True, group=group)
        assert half["b/1"].version == 0 and other.list("b/") == []
    assert rest.version == half["b/1"].version + 1


def test_events_are_told(client, other):
    opened, released = [], []
    published = client.publish_many(
        _model(5), copy=True, on_open=lambda event: opened.append(event.name), on_release=released.append
    )
    for tensor in other.attach_many(published):
        tensor.close()
    for one in published.values():
        one.withdraw()
    for one in published.values():
        assert one.wait_ended(60)
    assert sorted(opened) == sorted(published) and len(released) == 5
