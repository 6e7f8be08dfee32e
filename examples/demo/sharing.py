"""What the demo's Python programs have in common: where an array's bytes lie, and their checksum."""

import re
import zlib
from typing import NamedTuple

import numpy

_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) ([0-9a-f]+) \S+ (\d+)")


class Place(NamedTuple):
    """A place in a file of shared memory. Whoever maps the same one looks at the same physical pages."""

    inode: int
    offset: int
    permissions: str


def checksum(array):
    """CRC-32 of an array's bytes, read where they are."""
    return zlib.crc32(memoryview(array).cast("B"))


def find_place(array):
    """Where the array's first byte lies; None if that is ordinary memory of this process."""
    address = array.__array_interface__["data"][0]
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            match = _MAPPING.match(line)
            begin, end, offset = (int(match[i], 16) for i in (1, 2, 4))
            if begin <= address < end and match[5] != "0":
                return Place(int(match[5]), offset + address - begin, match[3])
    return None


def describe(array: numpy.ndarray):
    return f"{array.dtype} [{', '.join(str(size) for size in array.shape)}]"
