"""Between NumPy and tensors: element types, and finding the allocation behind an array."""

from __future__ import annotations

import sys
import weakref

import numpy as np

try:
    import ml_dtypes  # bfloat16 and 8-bit floats for NumPy
except ImportError:
    ml_dtypes = None

from . import _hurray
from ._errors import InvalidArgumentError, UnsupportedError

ROW_MAJOR, COLUMN_MAJOR, STRIDED = 1, 2, 3  # HURRAY_LAYOUT_*

_NUMPY = {
    name: np.dtype(name)
    for name in (
        "float16 float32 float64 int8 uint8 int16 uint16 int32 uint32 int64 uint64 complex64 complex128"
    ).split()
}
# Hurray's 4- and 6-bit types are packed, ml_dtypes' take a byte an element: they are not the same.
_ML_NAMES = {
    "bfloat16": "bfloat16",
    "float8_e4m3": "float8_e4m3fn",
    "float8_e5m2": "float8_e5m2",
    "float8_e8m0": "float8_e8m0fnu",
}
_ML = {
    name: np.dtype(getattr(ml_dtypes, attribute))
    for name, attribute in _ML_NAMES.items()
    if hasattr(ml_dtypes, attribute)
}
DTYPES = {**_NUMPY, **_ML}
_ELEMENT_TYPES = {dtype: name for name, dtype in DTYPES.items()}
PACKED = {"bool", "int4", "uint4", "int2", "uint2", "float4_e2m1", "float6_e2m3", "float6_e3m2"}


# ---- Element types --------------------------------------------------------------------------------------------------


def to_dtype(dtype) -> np.dtype:
    """What the caller of allocate() means: anything NumPy takes, or one of ml_dtypes' types by name."""
    if isinstance(dtype, str):
        if dtype in _ML:
            return _ML[dtype]
        if dtype in _ML_NAMES:
            raise UnsupportedError(f"{dtype} needs the package ml_dtypes, {_why_not(dtype)}")
        if dtype in PACKED and dtype != "bool":
            raise UnsupportedError(f"{dtype} is packed and NumPy has nothing like it: allocate bytes, as uint8")
    return np.dtype(dtype)


def element_type_of(dtype: np.dtype) -> int:
    """Hurray's type tag for the elements of a NumPy array; UnsupportedError with a way out if there is none."""
    if not dtype.isnative:
        raise UnsupportedError(
            f"dtype {dtype.str!r} is of the other byte order: use array.astype(array.dtype.newbyteorder('='))"
        )
    name = _ELEMENT_TYPES.get(dtype)
    if name is not None:
        return _hurray.element_type_from_name(name)
    if dtype == np.bool_:
        raise UnsupportedError(
            "NumPy's bool takes a byte an element, Hurray's a bit: use uint8, array.view('uint8'), "
            "and .view('bool') at the other end"
        )
    raise UnsupportedError(f"Hurray has no element type for NumPy's dtype {dtype}: there are {', '.join(DTYPES)}")


def way_without(element_type: str) -> str:
    """What to do about an element type that NumPy does not have."""
    way = "the raw bytes are in `buffers`"
    if element_type in _ML_NAMES:
        return f"the package ml_dtypes brings it, {_why_not(element_type)}; {way}"
    return way


def _why_not(element_type: str) -> str:
    if ml_dtypes is None:
        return "which is not installed"
    return f"version {ml_dtypes.__version__} of which does not have it"


# ---- Arrays of an allocation ----------------------------------------------------------------------------------------

# Allocations that have arrays, by address. Arrays that came back from another library (torch.Tensor.numpy()) do not
# lead to their allocation by `base`; their address does.
_allocations: dict[int, weakref.ref] = {}


def new_array(allocation, shape, dtype: np.dtype) -> np.ndarray:
    """The array that allocate() returns; it keeps the allocation's memory mapped, and so do its views."""
    array = np.ndarray(shape, dtype, buffer=allocation)
    allocation.array = weakref.ref(array)
    address = allocation.address

    def forget(ref):
        if _allocations.get(address) is ref:  # else the address is in use again
            del _allocations[address]

    _allocations[address] = weakref.ref(allocation, forget)
    return array


def address_of(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def allocation_of(array: np.ndarray):
    """The allocation that all of `array` lies in, or None."""
    found = array
    while isinstance(found, (np.ndarray, memoryview)):
        found = found.obj if isinstance(found, memoryview) else found.base
    if isinstance(found, _hurray.Allocation):
        return found
    address = address_of(array)
    for ref in list(_allocations.values()):
        allocation = ref()
        if allocation is not None and 0 <= address - allocation.address < max(allocation.nbytes, 1):
            return allocation
    return None


def make_read_only(array: np.ndarray, allocation) -> None:
    """Turns the arrays of a published allocation that can be found read-only. They can't be turned back."""
    arrays = [allocation.array() if allocation.array is not None else None]
    found = array
    while isinstance(found, np.ndarray):
        arrays.append(found)
        found = found.base
    for found in arrays:
        if found is not None:
            found.flags.writeable = False


def lies_in(array: np.ndarray, allocation) -> _hurray.Dense:
    """How `array` lies in its allocation; InvalidArgumentError if its strides can't be told in elements."""
    element_type = element_type_of(array.dtype)
    if array.size == 0:
        return _hurray.Dense(element_type, ROW_MAJOR, array.shape, [], 0)
    byte_offset = address_of(array) - allocation.address
    if array.flags.c_contiguous:
        return _hurray.Dense(element_type, ROW_MAJOR, array.shape, [], byte_offset)
    if array.flags.f_contiguous:
        return _hurray.Dense(element_type, COLUMN_MAJOR, array.shape, [], byte_offset)
    if any(stride % array.itemsize for stride in array.strides):
        raise InvalidArgumentError(
            f"strides {array.strides} are no multiples of the item size {array.itemsize}: pass copy=True"
        )
    strides = [stride // array.itemsize for stride in array.strides]
    return _hurray.Dense(element_type, STRIDED, array.shape, strides, byte_offset)


def row_major(shape: tuple[int, ...], dtype: np.dtype) -> _hurray.Dense:
    """A C-contiguous array at the beginning of its buffer."""
    return _hurray.Dense(element_type_of(dtype), ROW_MAJOR, shape, [], 0)


def compact(array: np.ndarray) -> tuple[np.ndarray, _hurray.Dense]:
    """`array`, C-contiguous, and how it lies in its own memory."""
    element_type = element_type_of(array.dtype)
    array = np.asarray(array, order="C")
    return array, _hurray.Dense(element_type, ROW_MAJOR, array.shape, [], 0)


if sys.byteorder != "little":
    raise ImportError("hurray is for little-endian machines")
