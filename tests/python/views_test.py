"""Views of a tensor: read-only, without a copy, and they keep the lease."""

import ctypes
import gc
import resource

import hurray
import numpy as np
import pytest

from arrays_test import place
from conftest import SANITIZED


@pytest.fixture
def tensor(client, other):
    array = client.allocate((4, 6), "float32")
    array[...] = np.arange(24).reshape(4, 6)
    client.publish("tensor", array)
    with other.attach("tensor") as tensor:
        yield tensor


@pytest.fixture
def strided(client, other):
    array = client.allocate((4, 6), "int16")
    array[...] = np.arange(24).reshape(4, 6)
    client.publish("strided", array[::2, ::-3])
    with other.attach("strided") as tensor:
        yield tensor


def test_what_a_tensor_says_of_itself(tensor, client):
    assert tensor.shape == (4, 6) and tensor.dtype == np.dtype("float32") and tensor.element_type == "float32"
    assert tensor.strides == (24, 4) and tensor.nbytes == 96
    assert tensor.name == "tensor" and tensor.state == "ok" and not tensor.closed
    assert repr(tensor) == f"<hurray.Tensor 'tensor' version {tensor.version}: float32[4, 6]>"
    entry, = client.list("tensor")
    assert (entry.capsule, entry.version) == (tensor.capsule, tensor.version)
    assert entry[2:6] == ((4, 6), "float32", 96, 1) and not entry.retired


def test_every_view_is_read_only_and_of_the_same_memory(tensor):
    views = [np.asarray(tensor), np.array(tensor, copy=False), np.asarray(memoryview(tensor)), tensor.__array__()]
    for view in views:
        assert place(view) == place(views[0])
        with pytest.raises(ValueError, match="read-only"):
            view[0, 0] = 1
        with pytest.raises(ValueError):
            view.flags.writeable = True
    assert memoryview(tensor).readonly
    assert place(np.from_dlpack(tensor)) == place(views[0])
    with pytest.raises(TypeError):
        ctypes.c_char.from_buffer(tensor)
    with open("/proc/self/maps") as maps:
        mine = {line.split()[1] for line in maps if line.split()[4] == str(place(views[0])[0])}
    assert "r--s" in mine


def test_array_copies_only_when_asked(tensor):
    assert place(tensor.__array__(copy=False)) == place(np.asarray(tensor))
    copy = tensor.__array__(copy=True)
    assert copy.flags.writeable and copy.flags.owndata
    assert tensor.__array__(np.float64).dtype == np.float64
    assert np.asarray(tensor, dtype="int32").tolist() == np.arange(24).reshape(4, 6).tolist()
    with pytest.raises(ValueError, match="copy"):
        tensor.__array__(np.float64, copy=False)


def test_the_buffer_protocol_with_and_without_strides(tensor, strided):
    view = memoryview(tensor)
    assert (view.format, view.itemsize, view.ndim, view.shape, view.strides) == ("f", 4, 2, (4, 6), (24, 4))
    assert bytes(tensor) == np.arange(24, dtype="float32").tobytes()
    view = memoryview(strided)
    assert (view.format, view.shape, view.strides, view.nbytes) == ("h", (2, 2), (24, -6), 8)
    assert view.tolist() == [[5, 2], [17, 14]]
    assert not view.contiguous
    with pytest.raises(BufferError, match="C-contiguous"):
        hash_of_bytes(strided)


def hash_of_bytes(tensor):
    import zlib

    return zlib.crc32(tensor)  # asks for plain bytes


# ---- Lifetime -------------------------------------------------------------------------------------------------------


def test_a_view_keeps_the_lease_when_its_tensor_is_collected(client, leases):
    client.publish("kept", np.arange(1000), copy=True)

    def view_of_it():
        return np.asarray(client.attach("kept"))

    array = view_of_it()
    for _ in range(3):
        gc.collect()
    assert array.sum() == 499500 and leases("kept") == 1
    part = array[10:20]
    del array
    gc.collect()
    assert part.tolist() == list(range(10, 20)) and leases("kept") == 1
    del part
    assert leases("kept", 0) == 0


def test_close_waits_for_views(client, leases):
    client.publish("closed", np.arange(1000), copy=True)
    tensor = client.attach("closed")
    views = [np.asarray(tensor), memoryview(tensor), np.from_dlpack(tensor), tensor.__array__(), tensor.buffers]
    tensor.close()
    tensor.close()
    assert tensor.closed and leases("closed") == 1
    assert views[0][5] == views[1][5] == views[2][5] == views[3][5] == 5
    while views:
        assert leases("closed") == 1
        views.pop()
    assert leases("closed", 0) == 0


def test_a_closed_tensor_says_so(client):
    client.publish("closed", np.arange(3), copy=True)
    with client.attach("closed") as tensor:
        pass
    for use in (
        np.asarray,
        memoryview,
        np.from_dlpack,
        lambda tensor: tensor.__array__(),
        lambda tensor: tensor.buffers,
        lambda tensor: tensor.state,
    ):
        with pytest.raises(hurray.ClosedError, match="the tensor is closed"):
            use(tensor)
    assert tensor.shape == (3,) and "closed" in repr(tensor)


def test_a_tensor_outlives_its_client(client, leases):
    client.publish("outlived", np.arange(1000), copy=True)
    with hurray.connect() as mine:
        array = np.asarray(mine.attach("outlived"))
    del mine
    gc.collect()
    assert array.sum() == 499500 and leases("outlived") == 1
    del array
    assert leases("outlived", 0) == 0


def test_the_last_values_stay_when_the_producer_has_gone(client, program):
    producer = program("client.publish('gone', np.arange(1000), copy=True); print('ready', flush=True); input()")
    producer.read_line()
    with client.watch("gone") as watch, client.attach("gone") as tensor:
        assert watch.get(60).kind == "present" and watch.get(60).kind == "snapshot-end"
        producer.process.kill()
        assert watch.get(60).kind == "producer-lost"
        assert np.asarray(tensor).sum() == 499500
        assert tensor.state == "producer-lost"


# ---- DLPack ---------------------------------------------------------------------------------------------------------


class Capsule:
    """Hands on one capsule, however often it is asked."""

    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack__(self, **keywords):
        return self.capsule

    def __dlpack_device__(self):
        return (1, 0)


def test_dlpack_says_cpu(tensor):
    assert tensor.__dlpack_device__() == (1, 0)
    assert tensor.__dlpack__(dl_device=(1, 0), max_version=(1, 0)) is not None
    for arguments in ({"dl_device": (2, 0)}, {"stream": 1}):
        with pytest.raises(BufferError, match="CPU"):
            tensor.__dlpack__(**arguments)


def test_dlpack_views_are_right_also_with_strides(tensor, strided):
    for each in (tensor, strided):
        found = np.from_dlpack(each)
        assert found.tolist() == np.asarray(each).tolist() and found.strides == np.asarray(each).strides


@pytest.mark.parametrize("version", [None, (0, 8), (1, 0), (1, 1), (2, 0)])
@pytest.mark.parametrize("copy", [None, False, True])
def test_unconsumed_capsules_are_freed(client, leases, version, copy):
    client.publish("capsules", np.zeros(1 << 16, "uint8"), copy=True)
    tensor = client.attach("capsules")
    count = 1000 if copy else 10000
    tensor.__dlpack__(max_version=version, copy=copy)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(count):
        tensor.__dlpack__(max_version=version, copy=copy)
    if not SANITIZED:  # which keeps what was freed
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 * 1024  # KiB; a leak takes more
    capsule = tensor.__dlpack__(max_version=version, copy=copy)
    assert ('"dltensor_versioned"' if version and version >= (1, 0) else '"dltensor"') in repr(capsule)
    assert leases("capsules") == 1
    tensor.close()
    assert leases("capsules", 0 if copy else 1) == (0 if copy else 1)
    del capsule
    assert leases("capsules", 0) == 0


def read_flags(capsule):
    class Versioned(ctypes.Structure):
        _fields_ = [
            ("major", ctypes.c_uint32),
            ("minor", ctypes.c_uint32),
            ("context", ctypes.c_void_p),
            ("deleter", ctypes.c_void_p),
            ("flags", ctypes.c_uint64),
        ]

    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return Versioned.from_address(get(capsule, b"dltensor_versioned"))


def test_versioned_capsules_are_marked_read_only_or_copied(tensor):
    capsule = tensor.__dlpack__(max_version=(1, 0))
    found = read_flags(capsule)
    assert (found.major, found.minor, found.flags) == (1, 0, 1)
    capsule = tensor.__dlpack__(max_version=(1, 3), copy=True)
    found = read_flags(capsule)
    assert (found.major, found.minor, found.flags) == (1, 1, 2)


def test_dlpack_copies_are_independent_and_in_order(strided, leases):
    capsule = strided.__dlpack__(copy=True)
    found = np.from_dlpack(Capsule(capsule))
    assert found.tolist() == [[5, 2], [17, 14]] and found.flags.c_contiguous
    strided.close()
    assert leases("strided", 0) == 0 and found.tolist() == [[5, 2], [17, 14]]


def test_a_capsule_is_consumed_once(client, leases):
    client.publish("twice", np.arange(10), copy=True)
    with client.attach("twice") as tensor:
        capsule = Capsule(tensor.__dlpack__())
    array = np.from_dlpack(capsule)
    with pytest.raises(Exception):
        np.from_dlpack(capsule)
    del capsule
    assert array.sum() == 45 and leases("twice") == 1
    del array
    assert leases("twice", 0) == 0


def test_an_import_that_fails_half_way_frees_the_capsule(client, leases):
    client.publish("fails", np.arange(10), copy=True)

    class Fails:
        def __init__(self, tensor):
            self.tensor = tensor

        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **keywords):
            self.tensor.__dlpack__(**keywords)
            raise RuntimeError("half-way")

    with client.attach("fails") as tensor, pytest.raises(RuntimeError, match="half-way"):
        np.from_dlpack(Fails(tensor))
    gc.collect()
    assert leases("fails", 0) == 0


def test_torch_reads_the_same_memory(tensor):
    torch = pytest.importorskip("torch")
    found = torch.from_dlpack(tensor)
    assert found.data_ptr() == np.asarray(tensor).__array_interface__["data"][0]
    assert found.sum() == 276
