import builtins
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, NamedTuple, SupportsIndex

import numpy as np
import numpy.typing as npt
from _typeshed import FileDescriptorLike
from typing_extensions import Buffer, CapsuleType, Self

__version__: str
__all__: list[str]

class Error(Exception):
    default_status: int
    message: str
    status: int
    def __init__(self, message: str = "", status: int | None = None) -> None: ...

class NotFoundError(Error, LookupError): ...
class AlreadyExistsError(Error): ...
class TimeoutError(Error, builtins.TimeoutError): ...
class PermissionError(Error, builtins.PermissionError): ...
class LimitError(Error): ...
class DaemonUnavailableError(Error, ConnectionError): ...
class ConnectionLostError(Error, ConnectionError): ...
class ProtocolError(Error): ...
class UnsupportedError(Error): ...
class InvalidArgumentError(Error, ValueError): ...
class DescriptorError(Error, ValueError): ...
class ClosedError(Error): ...
class ForkedError(Error): ...

class Event(NamedTuple):
    kind: str
    name: str
    capsule: str
    version: int
    remaining: int

class Access(NamedTuple):
    mode: int = 0o600
    group: str | int | None = None

class Capsule(NamedTuple):
    name: str
    version: int
    shape: tuple[int, ...] | None
    dtype: str | None
    nbytes: int
    leases: int
    capsule: str
    retired: bool
    access: Access
    immutable: bool = False
    unsealed: bool = False
    once: bool = False
    lingering: bool = False
    producer_gone: bool = False
    expires: float | None = None

class Tensor(Buffer):
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any] | str: ...
    @property
    def element_type(self) -> str: ...
    @property
    def strides(self) -> tuple[int, ...] | None: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def capsule(self) -> str: ...
    @property
    def access(self) -> Access: ...
    @property
    def immutable(self) -> bool: ...
    @property
    def unsealed(self) -> bool: ...
    @property
    def closed(self) -> bool: ...
    @property
    def state(self) -> Literal["ok", "producer-lost", "connection-lost"]: ...
    @property
    def buffers(self) -> tuple[npt.NDArray[np.uint8], ...]: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, type: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None: ...
    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]: ...
    def __dlpack__(
        self,
        *,
        stream: None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> CapsuleType: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

class Publication:
    name: str
    capsule: str
    version: int
    @property
    def ended(self) -> bool: ...
    @property
    def taken(self) -> bool: ...
    @property
    def reusable(self) -> bool: ...
    def withdraw(self) -> None: ...
    def wait_ended(self, timeout: float | None = None) -> bool: ...

class Group:
    @property
    def open(self) -> bool: ...
    def commit(self) -> None: ...
    def abort(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

class Watch:
    def close(self) -> None: ...
    def get(self, timeout: float | None = None) -> Event: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> Event: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> None: ...

class Client:
    def __init__(
        self,
        address: str | os.PathLike[str] | None = None,
        *,
        timeout: float | None = 0.0,
        name: str | None = None,
        reconnect: float | None = None,
        on_connection: Callable[[str], object] | None = None,
    ) -> None: ...
    def allocate(
        self,
        shape: SupportsIndex | Sequence[SupportsIndex],
        dtype: npt.DTypeLike,
        *,
        zeroed: bool = True,
        immutable: bool = False,
        access: Access | tuple[int, str | int | None] | int | None = None,
    ) -> npt.NDArray[Any]: ...
    def group(self) -> Group: ...
    def publish(
        self,
        name: str | None,
        array: npt.ArrayLike,
        *,
        copy: bool = False,
        immutable: bool = False,
        group: Group | None = None,
        access: Access | tuple[int, str | int | None] | int | None = None,
        retain: int = 1,
        once: bool = False,
        linger: bool | float = False,
        timeout: float | None = 0.0,
        on_release: Callable[[Event], object] | None = None,
        on_open: Callable[[Event], object] | None = None,
        on_take: Callable[[Event], object] | None = None,
    ) -> Publication: ...
    def publish_fds(
        self,
        name: str | None,
        fds: FileDescriptorLike | Sequence[FileDescriptorLike],
        shape: SupportsIndex | Sequence[SupportsIndex] | None = None,
        dtype: npt.DTypeLike | None = None,
        *,
        descriptor: bytes | None = None,
        placements: Sequence[tuple[int, int]] | None = None,
        group: Group | None = None,
        access: Access | tuple[int, str | int | None] | int | None = None,
        retain: int = 1,
        once: bool = False,
        linger: bool | float = False,
        timeout: float | None = 0.0,
        on_release: Callable[[Event], object] | None = None,
        on_open: Callable[[Event], object] | None = None,
        on_take: Callable[[Event], object] | None = None,
    ) -> Publication: ...
    def publish_many(
        self,
        arrays: Mapping[str, npt.ArrayLike],
        *,
        copy: bool = False,
        group: Group | None = None,
        access: Access | tuple[int, str | int | None] | int | None = None,
        on_release: Callable[[Event], object] | None = None,
        on_open: Callable[[Event], object] | None = None,
    ) -> dict[str, Publication]: ...
    def withdraw(self, what: Publication | Capsule | Tensor | str) -> None: ...
    def attach(
        self,
        what: str | Capsule | Publication,
        *,
        timeout: float | None = 0.0,
        version: int | None = None,
        newer_than: int | None = None,
        immutable_only: bool = False,
        allow_unsealed: bool = False,
    ) -> Tensor: ...
    def take(self, what: str | Capsule | Publication, *, timeout: float | None = 0.0) -> Tensor: ...
    def attach_many(
        self,
        what: Iterable[str | Capsule | Publication],
        *,
        timeout: float | None = 0.0,
        immutable_only: bool = False,
        allow_unsealed: bool = False,
    ) -> builtins.list[Tensor]: ...
    def list(self, pattern: str = "") -> builtins.list[Capsule]: ...
    def watch(self, pattern: str = "", callback: Callable[[Event], object] | None = None) -> Watch: ...
    def status(self) -> dict[str, Any]: ...
    @property
    def closed(self) -> bool: ...
    def hold(self, stop: threading.Event | None = None) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> None: ...

def connect(
    address: str | os.PathLike[str] | None = None,
    *,
    timeout: float | None = 0.0,
    name: str | None = None,
    reconnect: float | None = None,
    on_connection: Callable[[str], object] | None = None,
) -> Client: ...
def hold(stop: threading.Event | None = None) -> None: ...
