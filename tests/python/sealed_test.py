"""Memory that nobody can change any more, and memory that the program has made itself."""

import fcntl
import os

import hurray
import numpy as np
import pytest

F_ADD_SEALS = 1033
SHRINK, GROW, WRITE, FUTURE_WRITE, SEAL = 2, 4, 8, 16, 1
REUSABLE = SHRINK | GROW | FUTURE_WRITE | SEAL
IMMUTABLE = SHRINK | GROW | WRITE | SEAL


@pytest.fixture
def memfd():
    """Makes sealed files of given bytes."""
    made = []

    def make(content, seals):
        fd = os.memfd_create("own", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        made.append(fd)
        os.posix_fallocate(fd, 0, len(content))
        os.pwrite(fd, content, 0)
        fcntl.fcntl(fd, F_ADD_SEALS, seals)
        return fd

    yield make
    for fd in made:
        os.close(fd)


def test_immutable_arrays_are_published_and_told_as_such(client, other):
    array = client.allocate(1000, "int32", immutable=True)
    array[:] = range(1000)
    client.publish("i", array)
    with other.attach("i", immutable_only=True) as tensor:
        assert tensor.immutable and not tensor.unsealed
        assert (np.asarray(tensor) == np.arange(1000)).all()
        assert (array == np.arange(1000)).all(), "what showed it can be read on"
        assert not array.flags.writeable
        entry = other.list("i")[0]
        assert entry.immutable and not entry.unsealed


def test_a_copy_can_be_immutable(client, other):
    client.publish("i", np.arange(10), copy=True, immutable=True)
    with other.attach("i", immutable_only=True) as tensor:
        assert tensor.immutable
    with pytest.raises(hurray.InvalidArgumentError, match="immutable=True is for copy=True"):
        client.publish("i", client.allocate(1, "int8"), immutable=True)


def test_other_memory_is_refused_to_who_wants_immutable(client, other):
    client.publish("r", client.allocate(10, "int8"))
    with pytest.raises(hurray.UnsupportedError, match="attach.immutable_only"):
        other.attach("r", immutable_only=True)
    with other.attach("r") as tensor:
        assert not tensor.immutable


def test_an_array_that_was_sealed_and_refused_is_read_only_and_can_be_published(client, other):
    array = client.allocate(10, "int8", immutable=True)
    array[:] = 5
    group = client.group()
    client._core.end_group(group._number, False)  # the daemon knows it no more
    with pytest.raises(hurray.NotFoundError):
        client.publish("i", array, group=group)
    assert not array.flags.writeable
    client.publish("i", array)
    with other.attach("i") as tensor:
        assert (np.asarray(tensor) == 5).all()


def test_what_a_forked_child_can_write_to_is_not_made_immutable(client, program):
    code, out, err = program(
        """
        array = client.allocate(10, "int8", immutable=True)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.read(read, 1)
            os._exit(0)
        try:
            client.publish("forked", array)
        except hurray.InvalidArgumentError as error:
            print("a forked child has it mapped" in str(error), array.flags.writeable)
        array[:] = 7
        os.write(write, b"x")
        os.waitpid(child, 0)
        client.publish("forked", array)
        with client.attach("forked", immutable_only=True) as tensor:
            print((np.asarray(tensor) == 7).all())
        """
    ).finish()
    assert (code, out.split()) == (0, ["True", "True", "True"]), err


@pytest.mark.parametrize("seals", [REUSABLE, IMMUTABLE])
def test_own_memory_is_published_as_it_is(client, other, memfd, seals):
    content = np.arange(3000, dtype="float32")
    fd = memfd(content.tobytes(), seals)
    publication = client.publish_fds("own", fd, (30, 100), "float32")
    with other.attach("own") as tensor:
        assert tensor.immutable == (seals == IMMUTABLE)
        assert tensor.shape == (30, 100)
        assert (np.asarray(tensor) == content.reshape(30, 100)).all()
    publication.withdraw()
    assert publication.wait_ended(60)
    assert publication.reusable == (seals == REUSABLE)


def test_file_objects_of_a_list_that_nobody_else_keeps_are_published(client, other, memfd):
    fd = memfd(bytes(range(100)) + bytes(3996), IMMUTABLE)
    client.publish_fds("kept", [os.fdopen(os.dup(fd), "rb")], 100, "uint8")
    with other.attach("kept") as tensor:
        assert (np.asarray(tensor) == np.arange(100)).all()


def test_tensors_lie_in_a_file_where_placements_say(client, other, memfd):
    fd = memfd(b"".join(bytes([i]) * 4096 for i in range(4)), IMMUTABLE)
    with os.fdopen(os.dup(fd), "rb") as file, client.group() as group:
        for i in range(4):
            client.publish_fds(f"layer/{i}", file, 100, "uint8", placements=[(0, 4096 * i)], group=group)
    for i in range(4):
        with other.attach(f"layer/{i}", immutable_only=True) as tensor:
            assert (np.asarray(tensor) == i).all()
    uses = {use["name"]: use["used"] for use in client.status()["uses"]}
    assert (uses["bytes"], uses["descriptors"]) == (4 * 4096, 1)


def test_refusals_say_what_is_missing(client, memfd):
    def refused(fds, *what, **more):
        with pytest.raises(hurray.InvalidArgumentError) as error:
            client.publish_fds("bad", fds, *what, **more)
        return str(error.value)

    good = memfd(bytes(4096), REUSABLE)
    assert "the memfd has no seals" in refused(memfd(bytes(4096), 0), 10, "uint8")
    assert "SEAL missing" in refused(memfd(bytes(4096), REUSABLE & ~SEAL), 10, "uint8")
    assert "does not fit its segment of 4096" in refused(good, 4097, "uint8")
    assert "2 placements for 1 buffers" in refused(good, 1, "uint8", placements=[(0, 0), (0, 0)])
    assert "2 descriptors for 1 buffers" in refused([good, good], 1, "uint8")
    assert "shape and dtype, or descriptor" in refused(good)
    assert "shape and dtype, or descriptor" in refused(good, 1, "uint8", descriptor=b"HRRY")
    with pytest.raises(hurray.DescriptorError):
        client.publish_fds("bad", good, descriptor=b"HRRY")
    with pytest.raises(TypeError):
        client.publish_fds("bad", "a path", 1, "uint8")
