"""What callers pass, checked: each error names the argument, its limit and the value."""

from __future__ import annotations

import math
import operator
import os
import threading

import numpy as np

from ._errors import InvalidArgumentError

_FOR_EVER_MS = -1
_BOOLS = (bool, np.bool_)


def text(what: str, value) -> str:
    """`value`, if it can be handed on as UTF-8; the daemon's rules for names are checked there."""
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a str, not {_kind(value)}")
    if "\0" in value:
        raise InvalidArgumentError(f"{what} {value!r} has a null character in it")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"{what} {value!r} can't be written in UTF-8") from None
    return value


def path(what: str, value) -> str:
    return text(what, os.fspath(value) if isinstance(value, os.PathLike) else value)


def integer(what: str, value, lowest: int = 0, highest: int | None = None) -> int:
    """A whole number; a float or a str is none, and neither is a bool, which is a mistake wherever a number is meant."""
    try:
        number = None if isinstance(value, _BOOLS) else operator.index(value)
    except TypeError:
        number = None
    if number is None:
        raise TypeError(f"{what} must be an int, not {_kind(value)}")
    if number < lowest or (highest is not None and number > highest):
        limits = f"{lowest} or more" if highest is None else f"from {lowest} to {_limit(highest)}"
        raise InvalidArgumentError(f"{what} is {number}: it must be {limits}")
    return number


def version(what: str, value, lowest: int) -> int:
    """0 stands for none."""
    return 0 if value is None else integer(what, value, lowest, 2**64 - 1)


def shape(value) -> tuple[int, ...]:
    """One size, or a sequence of them."""
    try:
        sizes = (value,) if isinstance(value, (str, bytes)) else tuple(value)
    except TypeError:
        sizes = (value,)
    return tuple(integer(f"shape {value!r}: a size", size, 0, 2**63 - 1) for size in sizes)


def file_descriptors(fds) -> list[int]:
    """Of one, or a list of several: numbers, or what has fileno()."""
    fds = fds if isinstance(fds, (list, tuple)) else [fds]
    return [integer("a descriptor of fds", fd.fileno() if hasattr(fd, "fileno") else fd, 0, 2**31 - 1) for fd in fds]


def placements(pairs) -> list[tuple[int, int]] | None:
    if pairs is None:
        return None
    try:
        pairs = [(segment, offset) for segment, offset in pairs]
    except (TypeError, ValueError):
        raise TypeError(f"placements must be pairs of a place in fds and an offset, not {pairs!r}") from None
    return [
        (integer("a place in fds", segment, 0, 2**32 - 1), integer("an offset of placements", offset, 0, 2**64 - 1))
        for segment, offset in pairs
    ]


def bytes_like(what: str, value) -> bytes:
    try:
        return bytes(memoryview(value))
    except TypeError:
        raise TypeError(f"{what} must be bytes, not {_kind(value)}") from None


def callback(what: str, value):
    if value is not None and not callable(value):
        raise TypeError(f"{what} must be something to call, or None, not {_kind(value)}")
    return value


def seconds(what: str, value) -> float | None:
    """A timeout for Python's own waits; None waits for ever."""
    if value is None:
        return None
    number = _number(what, value)
    if not number >= 0:
        raise InvalidArgumentError(f"{what} is {value}: it must be 0 or more seconds, or None for ever")
    return None if number > threading.TIMEOUT_MAX else number


def milliseconds(what: str, value) -> int:
    """A timeout for the C API; rounded up, so that a short one is none at all."""
    number = seconds(what, value)
    return _FOR_EVER_MS if number is None else math.ceil(number * 1000)


def linger_ms(value) -> int | None:
    """For how long it stays when its client is gone, for the C API: None: not at all, 0: without an end."""
    if value is None or isinstance(value, _BOOLS):
        return 0 if value else None
    number = _number("linger", value)
    if not number > 0:
        raise InvalidArgumentError(f"linger is {value}: it must be True, False, or a number of seconds above 0")
    return min(math.ceil(number * 1000), 2**62) if math.isfinite(number) else 0


def _number(what: str, value) -> float:
    if isinstance(value, _BOOLS) or not (hasattr(value, "__float__") or hasattr(value, "__index__")):
        raise TypeError(f"{what} must be a number of seconds, not {_kind(value)}")
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _kind(value) -> str:
    return type(value).__name__


def _limit(highest: int) -> str:
    power = highest.bit_length()
    return f"2**{power} - 1" if power > 16 and highest == 2**power - 1 else str(highest)
