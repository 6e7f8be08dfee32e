"""The members of Tensor that are written in Python; importing this gives them to it.

The extension module calls none of them, nor any other Python code on a thread of the program's. When the interpreter ends, Python unwinds the
stack of each daemon thread that is in Python code: a C++ frame on it that catches everything would end the process.
"""

from __future__ import annotations

import numpy as np

from . import _arrays
from ._access import Access
from ._hurray import Tensor


def dtype(self) -> np.dtype | str:
    """The numpy.dtype; a str, e.g. "bool (packed)", where NumPy has none."""
    if self.element_type in _arrays.PACKED:
        return f"{self.element_type} (packed)"
    return _arrays.DTYPES.get(self.element_type, self.element_type)


def access(self) -> Access:
    """Who may read and replace it: an Access, its group as a number."""
    return Access(self._mode, self._gid)


def buffers(self) -> tuple[np.ndarray, ...]:
    """The bytes of each buffer: a tuple of read-only uint8 arrays, not copied."""
    views = [self._view(index) for index in range(self._buffer_count)]
    return tuple(np.ndarray((memoryview(view).nbytes,), np.uint8, buffer=view) for view in views)


def __array__(self, dtype=None, copy=None) -> np.ndarray:
    """A read-only NumPy view; a copy only if asked for by `copy` or by another `dtype`."""
    view = self._view(0) if self._buffer_count else None
    if self._problem:
        raise BufferError(self._problem)
    found = _arrays.DTYPES.get(self.element_type)
    if found is None:
        raise BufferError(f"NumPy has no {self.element_type}: {_arrays.way_without(self.element_type)}")
    array = np.ndarray(self.shape, found, buffer=view, offset=self._byte_offset, strides=self.strides)
    if dtype is not None and np.dtype(dtype) != found:
        if copy is False:
            raise ValueError(f"a view of {found} as {np.dtype(dtype)} needs a copy")
        return array.astype(dtype)
    return array.copy() if copy else array


def __repr__(self) -> str:
    closed = ", closed" if self.closed else ""
    return f"<hurray.Tensor {self.name!r} version {self.version}: {self.element_type}{list(self.shape)}{closed}>"


for _property in (dtype, access, buffers):
    setattr(Tensor, _property.__name__, property(_property))
for _method in (__array__, __repr__):
    _method.__qualname__ = f"Tensor.{_method.__name__}"
    setattr(Tensor, _method.__name__, _method)
