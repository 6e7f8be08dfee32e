"""Runs one of the README's publishers and one of its attachers against the daemon in $HURRAY_SOCKET.

usage: pair_test.py PUBLISHER ATTACHER     programs, or Python files
"""

import signal
import subprocess
import sys

# 480 x 640 x 3 bytes of 128.
EXPECTED = "camera/front: 921600 bytes, sum 117964800"


def command(path):
    return [sys.executable, "-u", path] if path.endswith(".py") else [path]


publisher_path, attacher_path = sys.argv[1:]
publisher = subprocess.Popen(command(publisher_path), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
try:
    attacher = subprocess.run(command(attacher_path), stdout=subprocess.PIPE, text=True, timeout=60)
    print(attacher.stdout, end="")
    assert attacher.returncode == 0, f"{attacher_path} ended with {attacher.returncode}"
    assert attacher.stdout.splitlines() == [EXPECTED], f"expected: {EXPECTED}"

    # C++ and Python tell of the consumer that is done, maybe before publish has returned; the C example has no callback,
    # and its line stays in a buffer until it ends.
    if not publisher_path.endswith("_c"):
        awaited = {"0 left", "ends it"}
        for line in publisher.stdout:
            print(line, end="")
            awaited = {text for text in awaited if text not in line}
            if not awaited:
                break
        assert not awaited, f"{publisher_path} did not say: {awaited}"

    # Ctrl-C ends hold() cleanly; in the moment before that call it ends Python by the signal.
    good = {0}
    if publisher_path.endswith(".py"):
        publisher.send_signal(signal.SIGINT)
        good.add(-signal.SIGINT)
    rest, _ = publisher.communicate("\n", timeout=60)
    print(rest, end="")
    assert publisher.returncode in good, f"{publisher_path} ended with {publisher.returncode}"
finally:
    publisher.kill()
    publisher.wait()
