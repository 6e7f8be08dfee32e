"""Runs a program that follows "camera/front" against the daemon in $HURRAY_SOCKET: it sees each picture once, and a replaced one not at all.

usage: follow_test.py FOLLOWER     a Python file
"""

import subprocess
import sys

import hurray
import numpy

with hurray.connect() as client:

    def publish(value):
        return client.publish("camera/front", numpy.full((2, 3), value, "uint8"), copy=True)

    def expect(publication, total):
        line = follower.stdout.readline()
        print(line, end="")
        assert line == f"camera/front, version {publication.version}: sum {total}\n", line

    publish(1)
    newest = publish(2)
    follower = subprocess.Popen([sys.executable, sys.argv[1]], stdout=subprocess.PIPE, text=True)
    try:
        expect(newest, 12)
        for value in (3, 4, 5):
            expect(publish(value), 6 * value)
        rest, _ = follower.communicate(timeout=60)
        assert (follower.returncode, rest) == (0, ""), (follower.returncode, rest)
    finally:
        follower.kill()
        follower.wait()
