#!/usr/bin/env python3
"""The demo's consumer in Python: attaches NAME, proves that it sees the producer's own bytes, and lets go."""

import argparse
import sys

import hurray
import numpy

from sharing import checksum, describe, find_place


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("--expect", type=lambda text: int(text, 16), required=True, help="the bytes' CRC-32, in hex")
    parser.add_argument("--inode", type=int, required=True)
    parser.add_argument("--offset", type=int, required=True)
    expected = parser.parse_args()

    client = hurray.connect()
    tensor = client.attach(expected.name, timeout=5)
    array = numpy.asarray(tensor)
    print(f"Python consumer: {expected.name} is {describe(array)}")

    seen = checksum(array)
    if seen != expected.expect:
        sys.exit(f"Python consumer: {expected.name}: checksum {seen:08x}, but the producer's is {expected.expect:08x}")
    place = find_place(array)
    if place is None:
        sys.exit(f"Python consumer: {expected.name}: its bytes lie in no shared file, so somebody copied them")
    if (place.inode, place.offset) != (expected.inode, expected.offset):
        sys.exit(
            f"Python consumer: {expected.name}: inode {place.inode} offset {place.offset}, but the producer wrote to "
            f"inode {expected.inode} offset {expected.offset}"
        )
    print(
        f"  checksum {seen:08x} OK; same memory as the producer: "
        f"inode {place.inode}, offset {place.offset}, mapped {place.permissions}"
    )
    # The lease ends with the last view: the producer is told.
    del array, tensor
    client.close()


if __name__ == "__main__":
    try:
        main()
    except hurray.Error as error:
        sys.exit(f"Python consumer: {error}")
