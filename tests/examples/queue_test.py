"""Runs the example that publishes jobs and some of its workers against the daemon in $HURRAY_SOCKET: each job is done once, although a
worker is killed over one.

usage: queue_test.py HURRAYCTL PUBLISHER WORKER...     the last are programs, or Python files; the first worker is the one that is killed
"""

import fcntl
import json
import os
import subprocess
import sys
import time

TILES = 60


def command(path, *arguments):
    return [sys.executable, "-u", path] if path.endswith(".py") else [path, *arguments]


def full_pipe():
    """Both ends of a pipe that takes no byte more: who writes to it waits."""
    out, into = os.pipe()
    os.set_blocking(into, False)
    os.write(into, bytes(fcntl.fcntl(into, fcntl.F_GETPIPE_SZ)))
    os.set_blocking(into, True)
    return out, into


def held(hurrayctl):
    """How many tiles some worker has taken and not released."""
    listed = subprocess.run([hurrayctl, "list", "--json", "jobs/tiles"], capture_output=True, text=True, check=True)
    return sum(capsule["retired"] and capsule["leases"] for capsule in json.loads(listed.stdout))


hurrayctl, publisher_path, unlucky_path, *worker_paths = sys.argv[1:]
programs = []
try:
    publisher = subprocess.Popen(command(publisher_path, str(TILES)), stdout=subprocess.PIPE, text=True)
    programs.append(publisher)
    _, into = full_pipe()
    unlucky = subprocess.Popen(command(unlucky_path), stdout=into)  # it tells of its first tile while it has it
    programs.append(unlucky)
    deadline = time.monotonic() + 60
    while not held(hurrayctl):
        assert time.monotonic() < deadline, f"{unlucky_path} takes nothing"
    unlucky.kill()
    again = publisher.stdout.readline()
    assert again == "tile 0 again: its worker died\n", again
    workers = [subprocess.Popen(command(path), stdout=subprocess.PIPE, text=True) for path in worker_paths]
    programs += workers
    done = []
    for path, worker in zip(worker_paths, workers):
        out, _ = worker.communicate(timeout=60)
        assert worker.returncode == 0, f"{path} ended with {worker.returncode}"
        print(f"{path}: {len(out.splitlines())} tiles")
        done += out.splitlines()
    out, _ = publisher.communicate(timeout=60)
    print(out, end="")
    assert publisher.returncode == 0, f"{publisher_path} ended with {publisher.returncode}"
    assert sorted(done) == sorted(f"tile {i}: sum {i * 64 * 64}" for i in range(TILES)), done
    assert out == f"{TILES} of {TILES} tiles are done\n", out
finally:
    for program in programs:
        program.kill()
        program.wait()
