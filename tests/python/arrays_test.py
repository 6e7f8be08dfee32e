"""Arrays go from one program to another bit by bit, whatever their type, shape and strides."""

import time
import zlib

import hurray
import numpy as np
import pytest
from conftest import PATIENCE_S

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

DTYPES = (
    "float16 float32 float64 int8 uint8 int16 uint16 int32 uint32 int64 uint64 complex64 complex128"
).split()
ML_DTYPES = ["bfloat16", "float8_e4m3", "float8_e5m2", "float8_e8m0"]
PACKED = {"bool": 8, "int4": 2, "uint4": 2, "int2": 4, "uint2": 4, "float4_e2m1": 2}  # elements in a byte

ATTACH = """
import zlib
for name in sys.argv[1:]:
    with client.attach(name) as tensor:
        array = np.asarray(tensor)
        print(name, array.dtype, array.shape, array.strides, zlib.crc32(array.tobytes()))
"""


def place(array):
    """Inode and offset of an array's first byte."""
    address = array.__array_interface__["data"][0]
    with open("/proc/self/maps") as maps:
        for line in maps:
            span, _, offset, _, inode = line.split()[:5]
            begin, end = (int(part, 16) for part in span.split("-"))
            if begin <= address < end:
                return int(inode), int(offset, 16) + address - begin
    raise AssertionError("not mapped")


def pattern(dtype):
    """Every byte value at every place of an element."""
    return np.arange(256, dtype=np.uint8).repeat(16).reshape(16, 256).T.copy().reshape(-1).view(dtype)


def test_every_type_arrives_bit_by_bit_in_another_program(client, run):
    names = []
    expected = []
    for dtype in DTYPES:
        values = pattern(dtype)
        for copy in (False, True):
            name = f"{dtype}/{'copied' if copy else 'filled'}"
            if copy:
                client.publish(name, values, copy=True)
            else:
                array = client.allocate(values.shape, dtype)
                array.view("uint8")[:] = values.view("uint8")
                client.publish(name, array)
            names.append(name)
            crc = zlib.crc32(values.tobytes())
            expected.append(f"{name} {np.dtype(dtype)} {values.shape} {values.strides} {crc}")
    assert run(ATTACH, *names).splitlines() == expected


@pytest.mark.skipif(ml_dtypes is None, reason="ml_dtypes is not installed")
@pytest.mark.parametrize("name", ML_DTYPES)
def test_types_of_ml_dtypes_arrive_bit_by_bit(client, other, name):
    array = client.allocate(256, name)
    array.view("uint8")[:256] = np.arange(256, dtype="uint8")
    client.publish(f"ml/{name}", array)
    with other.attach(f"ml/{name}") as tensor:
        found = np.asarray(tensor)
        assert found.dtype == array.dtype and tensor.element_type == name
        assert found.tobytes() == array.tobytes()
        with pytest.raises(BufferError, match=name):
            memoryview(tensor)


@pytest.mark.skipif(ml_dtypes is not None, reason="ml_dtypes is installed")
@pytest.mark.parametrize("name", ML_DTYPES)
def test_types_of_ml_dtypes_without_it_name_the_way_out(client, other, name):
    with pytest.raises(hurray.UnsupportedError, match=f"{name} needs the package ml_dtypes"):
        client.allocate(4, name)
    publish_bytes(client, f"ml/{name}", name, (4,), np.arange(16, dtype="uint8"))
    with other.attach(f"ml/{name}") as tensor:
        assert tensor.dtype == tensor.element_type == name
        with pytest.raises(BufferError, match=f"{name}.*ml_dtypes.*`buffers`"):
            np.asarray(tensor)
        with pytest.raises(BufferError, match=name):
            memoryview(tensor)


def publish_bytes(client, name, element_type, shape, content):
    """Publishes types that NumPy does not have, as programs in other languages do."""
    from hurray import _hurray

    dense = _hurray.Dense(_hurray.element_type_from_name(element_type), 1, shape, [], 0)
    terms = _hurray.PublishTerms(None, (False, False), 0, None, 1, False, None, 0)
    client._core.publish_copy(name, dense, content.__array_interface__["data"][0], content.nbytes, terms)


@pytest.mark.parametrize("name", PACKED)
def test_packed_types_can_be_attached_as_raw_bytes_only(client, other, name):
    content = np.arange(1, 5, dtype="uint8")
    publish_bytes(client, f"packed/{name}", name, (2, 2 * PACKED[name]), content)
    with other.attach(f"packed/{name}") as tensor:
        assert tensor.dtype == f"{name} (packed)"
        assert tensor.shape == (2, 2 * PACKED[name]) and tensor.nbytes == 4 and tensor.strides is None
        for view in (np.asarray, memoryview, lambda tensor: tensor.__dlpack__()):
            with pytest.raises(BufferError, match=f"{name} is packed.*`buffers`"):
                view(tensor)
        assert [buffer.tolist() for buffer in tensor.buffers] == [[1, 2, 3, 4]]
        assert not tensor.buffers[0].flags.writeable


def test_bool_says_what_to_use_instead(client, other):
    array = np.array([True, False, True])
    for copy in (False, True):
        with pytest.raises(hurray.UnsupportedError, match=r"bool.*uint8"):
            client.publish("bool", array, copy=copy)
    with pytest.raises(hurray.UnsupportedError, match=r"bool.*uint8"):
        client.allocate(3, bool)
    client.publish("bool", array.view("uint8"), copy=True)
    with other.attach("bool") as tensor:
        assert np.asarray(tensor).view("bool").tolist() == array.tolist()


@pytest.mark.parametrize("dtype", [">f4", ">i8", "object", "S4", "U2", "M8[s]", "m8[s]", "i4,f4", "longdouble"])
def test_types_that_hurray_has_not_are_refused_by_name(client, dtype):
    array = np.zeros(3, dtype)
    for copy in (False, True):
        with pytest.raises(hurray.UnsupportedError, match="byte order" if dtype[0] == ">" else "no element type"):
            client.publish("refused", array, copy=copy)
    with pytest.raises(hurray.UnsupportedError):
        client.allocate(3, dtype)
    assert client.list("refused") == []


@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (1, 8, 0, 128), (3, 1, 5), (1,) * 30 + (2, 3), (0, 2**40)])
@pytest.mark.parametrize("copy", [False, True])
def test_shapes(client, other, shape, copy):
    array = np.empty(shape, "float32") if copy else client.allocate(shape, "float32")
    array[...] = np.arange(array.size, dtype="float32").reshape(shape)
    client.publish("shape", array, copy=copy)
    with other.attach("shape") as tensor:
        assert tensor.shape == shape and tensor.nbytes == array.nbytes and tensor.dtype == np.float32
        for view in (np.asarray(tensor), np.from_dlpack(tensor), np.asarray(memoryview(tensor))):
            assert view.shape == shape and view.dtype == np.float32
            assert np.array_equal(view, array)
            del view


def test_allocate_takes_a_shape_as_numpy_does(client):
    assert client.allocate(3, "int16").shape == (3,)
    assert client.allocate(np.int64(3), "int16").shape == (3,)
    assert client.allocate([2, np.uint8(3)], np.int16).shape == (2, 3)
    assert client.allocate(4, np.dtype("<i4")).tolist() == [0, 0, 0, 0]
    for shape in (-1, (2, -3)):
        with pytest.raises(ValueError, match="a size is -[13]: it must be from 0"):
            client.allocate(shape, "int16")
    for shape in (2**62, (2**40, 2**40)):
        with pytest.raises(ValueError, match="no machine"):
            client.allocate(shape, "int16")


def test_memory_is_used_again_once_no_array_shows_it_and_is_zero_unless_it_need_not_be(client):
    def publish_ones():
        array = client.allocate(300_000, "uint8")
        array[:] = 1
        publication = client.publish("again", array)
        return array, publication

    array, publication = publish_ones()
    publication.withdraw()
    other = client.allocate(300_000, "uint8")
    assert not np.shares_memory(array, other) and array.all()  # the old one is still shown
    del array, publication
    patience = time.monotonic() + PATIENCE_S  # a thread of the client's lets go of it last
    while client.status()["client"]["memory"]["idle_segments"] != 1:
        assert time.monotonic() < patience
    assert client.allocate(300_000, "uint8", zeroed=False).all()
    assert not client.allocate(300_000, "uint8").any()
    memory = client.status()["client"]["memory"]
    assert memory["segments_made"] == 2 and memory["blocks_reused"] == 2


VIEWS = {
    "rows": lambda a: a[2:5],
    "columns": lambda a: a[:, 1:3],
    "every second": lambda a: a[::2, ::3],
    "backwards": lambda a: a[::-1, ::-2],
    "transposed": lambda a: a.T,
    "Fortran order, from within": lambda a: a[1:3].reshape(2, 2, 3).transpose(2, 1, 0),
    "an element": lambda a: a[3, 4, None].reshape(()),
    "other type": lambda a: a.view("uint32"),
    "broadcast": lambda a: np.broadcast_to(a[0], (3, 6)),
    "empty": lambda a: a[4:4],
    "not by base": lambda a: np.lib.stride_tricks.as_strided(a, (3, 2), (24, 4)),
    "memoryview": lambda a: np.asarray(memoryview(a)),
    "without base": lambda a: np.from_dlpack(a),
}


@pytest.mark.parametrize("view", VIEWS)
def test_views_of_an_allocation_are_published_without_a_copy(client, other, view):
    base = client.allocate((6, 6), "float32")
    base[...] = np.arange(36).reshape(6, 6)
    array = VIEWS[view](base)
    inode, offset = place(array) if array.size else (0, 0)
    client.publish("view", array)
    assert not base.flags.writeable and not array.flags.writeable
    with other.attach("view") as tensor:
        found = np.asarray(tensor)
        assert np.array_equal(found, array)
        if array.size:
            assert place(found) == (inode, offset)
            assert array.size == 1 or found.strides == array.strides


def test_strides_that_are_no_whole_elements_need_a_copy(client, other):
    base = client.allocate(64, "uint8")
    base[:] = np.arange(64)
    array = np.ndarray((4,), "float32", base, strides=(6,))
    with pytest.raises(hurray.InvalidArgumentError, match="copy=True"):
        client.publish("odd", array)
    assert base.flags.writeable
    client.publish("odd", array, copy=True)
    assert np.asarray(other.attach("odd")).tobytes() == array.tobytes()


@pytest.mark.parametrize("array", [np.zeros(3), np.zeros(0), [1.0, 2.0], 5], ids=str)
def test_other_arrays_say_copy(client, other, array):
    with pytest.raises(hurray.InvalidArgumentError, match="pass copy=True"):
        client.publish("ordinary", array)
    client.publish("ordinary", array, copy=True)
    assert np.array_equal(np.asarray(other.attach("ordinary")), array)


def test_copies_keep_nothing_of_the_original(client, other):
    array = np.arange(6).reshape(2, 3).T
    client.publish("copied", array, copy=True)
    array[...] = 9
    tensor = other.attach("copied")
    assert np.asarray(tensor).tolist() == [[0, 3], [1, 4], [2, 5]]
    assert array.flags.writeable


def test_an_allocation_is_published_once_and_by_its_own_client(client, other):
    array = client.allocate(4, "int32")
    with pytest.raises(hurray.InvalidArgumentError, match="another client"):
        other.publish("once", array)
    assert array.flags.writeable
    client.publish("once", array)
    with pytest.raises(hurray.InvalidArgumentError, match="copy=True"):
        client.publish("twice", array)
    client.publish("twice", array, copy=True)
    assert np.asarray(other.attach("twice")).tolist() == [0] * 4


def test_a_published_array_is_read_only_for_good(client):
    base = client.allocate((4, 4), "float32")
    array = base[1:, 1:]
    client.publish("read-only", array)
    for each in (base, array, base[2], array.T):
        with pytest.raises(ValueError, match="read-only"):
            each[...] = 1
        with pytest.raises(ValueError):
            each.flags.writeable = True
        assert memoryview(each).readonly


def test_a_failed_publish_leaves_the_array_writable(client):
    array = client.allocate(4, "int32")
    with pytest.raises(hurray.InvalidArgumentError):
        client.publish("//", array)
    array[:] = 5
    client.publish("failed/then/good", array)
    assert not array.flags.writeable


def test_buffers_begin_where_vectors_may(client, other):
    for length in range(1, 200, 13):
        name = "x" * length
        array = client.allocate(length, "float64")
        assert array.flags.aligned and array.__array_interface__["data"][0] % 4096 == 0
        client.publish(name, array)
        with other.attach(name) as tensor:
            found = np.asarray(tensor)
            assert found.flags.aligned and found.__array_interface__["data"][0] % 4096 == 0
            del found
        client.withdraw(name)


def test_arrays_outlive_their_client(client):
    with hurray.connect() as mine:
        array = mine.allocate(1000, "int64")
        published = mine.allocate(1000, "int64")
        published[:] = 7
        mine.publish("outlived", published)
    array[:] = 5
    assert array.sum() == 5000 and published.sum() == 7000
