"""Runs the example that publishes a composite as a group, and the one that attaches it, while it is published anew all the time.

usage: composite_test.py PUBLISHER ATTACHER
"""

import re
import subprocess
import sys

publisher_path, attacher_path = sys.argv[1:]
publisher = subprocess.Popen([publisher_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
try:
    for _ in range(20):
        said = publisher.stdout.readline()
        # A consumer between two of these sees either, whole: 32 elements of N and 32 of N + 1.
        attacher = subprocess.Popen([attacher_path], stdout=subprocess.PIPE, text=True)
        publisher.stdin.write("\n" * 10)
        publisher.stdin.flush()
        for _ in range(10):
            said = publisher.stdout.readline()
        assert re.fullmatch(r"weights of \d+ are there\n", said), said
        seen, _ = attacher.communicate(timeout=60)
        assert attacher.returncode == 0, f"{attacher_path} ended with {attacher.returncode}"
        total = re.fullmatch(r"weights: 2 members, sum (\d+)\n", seen)
        assert total, f"{attacher_path} said {seen!r}"
        value = (int(total[1]) - 32) / 64
        assert value % 2 == 1, f"{seen!r} is the sum of no two halves that belong together"
        publisher.stdin.write("\n")
        publisher.stdin.flush()
    publisher.communicate(timeout=60)
    assert publisher.returncode == 0, f"{publisher_path} ended with {publisher.returncode}"
finally:
    publisher.kill()
    publisher.wait()
