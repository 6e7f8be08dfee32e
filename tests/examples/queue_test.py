"""Runs the example that publishes jobs and some of its workers against the daemon in $HURRAY_SOCKET: each job is done once.

usage: queue_test.py PUBLISHER WORKER...     programs, or Python files
"""

import subprocess
import sys

TILES = 60


def command(path, *arguments):
    return [sys.executable, "-u", path] if path.endswith(".py") else [path, *arguments]


publisher_path, *worker_paths = sys.argv[1:]
programs = []
try:
    publisher = subprocess.Popen(command(publisher_path, str(TILES)), stdout=subprocess.PIPE, text=True)
    programs.append(publisher)
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
    assert out == f"{TILES} of {TILES} tiles were taken\n", out
finally:
    for program in programs:
        program.kill()
        program.wait()
