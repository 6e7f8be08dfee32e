"""What the tests of the Python package share. They run inside `hurrayctl run -- python -m pytest`."""

import gc
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading
import time

import hurray
import pytest

SANITIZED = "HURRAY_SANITIZED" in os.environ
PATIENCE_S = 60  # a watchdog, for slow machines; nothing waits this long unless something is broken


def pytest_configure(config):
    if "HURRAY_SOCKET" not in os.environ:
        raise pytest.UsageError("there is no daemon to test with: hurrayctl run -- python -m pytest tests/python")
    # Where the tests run in the background of a script, Ctrl-C is ignored, and programs would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def client():
    with hurray.connect(timeout=PATIENCE_S) as client:
        yield client


@pytest.fixture
def other():
    """A second client, for what two programs do where it matters not that they are two."""
    with hurray.connect(timeout=PATIENCE_S) as client:
        yield client


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    gc.collect()
    assert threading.active_count() == 1


PRELUDE = """
import gc, os, signal, sys, threading, time
import numpy as np
import hurray
client = hurray.connect(timeout=60)
"""


class Program:
    """Another Python program: `script` after a prelude that imports and connects."""

    def __init__(self, script, *arguments, prelude=PRELUDE, socket=None):
        self.process = subprocess.Popen(
            [sys.executable, "-c", prelude + textwrap.dedent(script), *arguments],
            env={**os.environ, "HURRAY_SOCKET": str(socket or os.environ["HURRAY_SOCKET"])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def read_line(self):
        line = self.process.stdout.readline()
        assert line, self.process.communicate(timeout=PATIENCE_S)[1]
        return line.rstrip("\n")

    def finish(self, stdin=None):
        """Exit code, what it still wrote, and its standard error."""
        out, err = self.process.communicate(stdin, timeout=PATIENCE_S)
        return self.process.returncode, out, err


@pytest.fixture
def program():
    programs = []

    def start(*args, **keywords):
        programs.append(Program(*args, **keywords))
        return programs[-1]

    yield start
    for each in programs:
        if each.process.poll() is None:
            each.process.kill()
        each.process.communicate()


class Daemon:
    """A daemon that a test may end. Programs find it by its `socket`; connect() waits until it serves."""

    def __init__(self, binary, socket):
        self.binary = binary
        self.socket = socket
        self.start()

    def start(self):
        self.process = subprocess.Popen([self.binary, "--socket", self.socket, "--log-level", "error"])

    def kill(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def own_daemon(bin_dir, tmp_path):
    daemon = Daemon(bin_dir / "hurrayd", tmp_path / "hurrayd.sock")
    yield daemon
    daemon.kill()


@pytest.fixture
def run(program):
    """Runs a program to its end, which must be a good one, and returns what it wrote."""

    def run(*args, **keywords):
        code, out, err = program(*args, **keywords).finish()
        assert code == 0 and err == "", err
        return out

    return run


@pytest.fixture
def leases(client):
    """How many leases a capsule has, as the daemon sees it.

    What was released over another connection than the one that asks may be seen a little later: with `wanted`, once there are so many.
    """

    def count(name, wanted=None):
        barks = time.monotonic() + PATIENCE_S
        while True:
            held = sum(entry.leases for entry in client.list(name) if entry.name == name)
            if wanted is None or held == wanted or time.monotonic() > barks:
                return held

    return count


@pytest.fixture
def bin_dir():
    return pathlib.Path(os.environ["HURRAY_BIN_DIR"])
