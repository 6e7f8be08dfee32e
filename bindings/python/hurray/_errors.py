"""The exceptions of the package, and which status of the C API becomes which (see status.cpp)."""

import builtins


class Error(Exception):
    """A request that failed, with the library's message.

    `status` is the C API's number (HURRAY_ERR_*), 0 for errors of the package itself.
    """

    default_status = 0

    def __init__(self, message: str = "", status: int | None = None):
        super().__init__(message)
        self.message = message
        self.status = self.default_status if status is None else status

    def __str__(self) -> str:  # OSError, a base of some, has a text of its own
        return self.message

    def __reduce__(self):
        return type(self), (self.message, self.status)


class NotFoundError(Error, LookupError):
    """Nothing there under that name, version or id; or not for this user."""

    default_status = -32


class AlreadyExistsError(Error):
    """The name belongs to another user."""

    default_status = -33


class TimeoutError(Error, builtins.TimeoutError):
    """The wait ran out. Nothing was acquired."""

    default_status = -34


class PermissionError(Error, builtins.PermissionError):
    """The socket's permissions, or the capsule's, say no."""

    default_status = -35


class LimitError(Error):
    """A quota of the daemon, a limit of this process, or memory that the kernel does not have."""

    default_status = -38


class DaemonUnavailableError(Error, ConnectionError):
    """No daemon listens at that address."""

    default_status = -39


class ConnectionLostError(Error, ConnectionError):
    """The connection to the daemon has ended. Tensors stay readable; connect again."""

    default_status = -40


class ProtocolError(Error):
    """What answers is no hurrayd, or speaks other versions of the protocol."""

    default_status = -41


class UnsupportedError(Error):
    """Not possible with this memory, element type, platform or build. The message says what is."""

    default_status = -43


class InvalidArgumentError(Error, ValueError):
    """An argument breaks a documented rule."""

    default_status = -44


class DescriptorError(Error, ValueError):
    """A tensor descriptor that is malformed or makes no sense."""

    default_status = -3


class ClosedError(Error):
    """Used after close(), or closed while waiting."""

    default_status = -46


class ForkedError(Error):
    """The client belongs to the parent process. Connect in the child."""

    default_status = -45


BY_STATUS = {  # of the C API; all others are Error
    **{status: DescriptorError for status in (-1, -2, -3, -4, -8, -9, -11)},
    **{
        cls.default_status: cls
        for cls in (
            NotFoundError,
            AlreadyExistsError,
            TimeoutError,
            PermissionError,
            LimitError,
            DaemonUnavailableError,
            ConnectionLostError,
            ProtocolError,
            UnsupportedError,
            InvalidArgumentError,
            ClosedError,
            ForkedError,
        )
    },
    -36: LimitError,  # OVER_QUOTA
    -37: LimitError,  # NO_SPACE
}
