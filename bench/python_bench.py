"""What does a tensor of another process take from Python, beside what else Python programs share arrays with?

A second process publishes and holds everything. For each size the ways take turns in blocks of rounds, so that whatever disturbs the
machine disturbs all. "attach" is: ask for what is there, look at it as an array, read a byte, let it go. "create and fill" is: memory of that
size, every byte written, and there for others; the one before it ends.

- hurray: client.attach(name), numpy.asarray; client.allocate, client.publish.
- SharedMemory: multiprocessing.shared_memory.SharedMemory(name), numpy.ndarray over its buffer, close; create=True, and unlink. It can be
  written by everybody, nobody learns when others are done, and a name that is left over stays.
- torch, file_system and torch, file_descriptor: the two sharing strategies of torch.multiprocessing, where torch is installed. There
  is nothing to attach by a name, so this asks the other process through a pipe, which sends the tensor.

usage: hurrayctl run -- python3 bench/python_bench.py [--rounds N] [--sizes BYTES[,BYTES...]]
"""

import argparse
import multiprocessing
import os
import platform
import statistics
import sys
import time
from multiprocessing import resource_tracker, shared_memory

import numpy as np

import hurray

try:
    import torch
    import torch.multiprocessing

    torch.set_num_threads(1)  # a forked process can't use the threads of the one before
except ImportError as error:
    torch = None
    why_no_torch = str(error)

STRATEGIES = ("file_system", "file_descriptor")


class Hurray:
    """Ours, at either end."""

    name = "hurray"

    def __init__(self):
        self.client = hurray.connect()

    def offer(self, size):
        array = self.client.allocate(size, "uint8", zeroed=False)
        array[:] = 1
        self.client.publish(f"bench/{size}", array)

    def attach(self, size):
        with self.client.attach(f"bench/{size}") as tensor:
            return int(np.asarray(tensor)[0])

    def create(self, size):
        array = self.client.allocate(size, "uint8", zeroed=False)
        array[:] = 1
        self.client.publish("bench/created", array)

    def close(self):
        self.client.close()


class SharedMemory:
    """Python's own."""

    name = "SharedMemory"

    def __init__(self):
        self.offered = {}
        self.created = None

    def offer(self, size):
        memory = shared_memory.SharedMemory(f"hurray-bench-{os.getpid()}-{size}", create=True, size=size)
        memory.buf[0] = 1
        self.offered[size] = memory
        return memory.name

    def attach(self, name):
        memory = shared_memory.SharedMemory(name)
        array = np.ndarray(memory.size, np.uint8, buffer=memory.buf)
        first = int(array[0])
        del array
        memory.close()
        return first

    def create(self, size):
        if self.created is not None:
            self.created.close()
            self.created.unlink()
        self.created = shared_memory.SharedMemory(create=True, size=size)
        array = np.ndarray(size, np.uint8, buffer=self.created.buf)
        array[:] = 1

    def close(self):
        for memory in [*self.offered.values(), self.created]:
            if memory is not None:
                memory.close()
                memory.unlink()


class Torch:
    """torch.multiprocessing with one of its strategies, through a pipe."""

    def __init__(self, strategy, connection):
        self.name = f"torch, {strategy}"
        self.strategy = strategy
        self.connection = connection
        self.created = None

    def attach(self, size):
        self.connection.send(("tensor", self.strategy, size))
        return int(self.connection.recv().numpy()[0])

    def create(self, size):
        torch.multiprocessing.set_sharing_strategy(self.strategy)
        self.created = torch.empty(size, dtype=torch.uint8).share_memory_()
        self.created.fill_(1)

    def close(self):
        self.created = None


def hold(connection):
    """The other process: does what it is told, until it is told nothing."""
    ours, theirs = Hurray(), SharedMemory()
    tensors = {}
    try:
        while message := connection.recv():
            what, *arguments = message
            if what == "offer":
                ours.offer(*arguments)
                connection.send(theirs.offer(*arguments))
            else:
                strategy, size = arguments
                torch.multiprocessing.set_sharing_strategy(strategy)
                if (strategy, size) not in tensors:
                    tensors[strategy, size] = torch.ones(size, dtype=torch.uint8).share_memory_()
                connection.send(tensors[strategy, size])
    finally:
        ours.close()
        theirs.close()


def in_turn(what, ways, size, rounds):
    """p50 and p99 of each way, in microseconds."""
    samples = {way.name: [] for way, _ in ways}
    block = max(1, min(20, rounds // 4))
    last = time.monotonic()
    for done in range(0, rounds, block):
        for way, call in ways:
            call()
            call()
            for _ in range(min(block, rounds - done)):
                start = time.perf_counter_ns()
                call()
                samples[way.name].append(time.perf_counter_ns() - start)
        if sys.stderr.isatty() or time.monotonic() - last > 10:
            last = time.monotonic()
            end = "" if sys.stderr.isatty() else "\n"
            print(f"\rpython: {what}, {size} bytes, {done} of {rounds} rounds ", end=end, file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print("\r" + " " * 70 + "\r", end="", file=sys.stderr)
    return {
        name: (statistics.median(times) / 1000, sorted(times)[int((len(times) - 1) * 0.99)] / 1000)
        for name, times in samples.items()
    }


def human(size):
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or size % 1024:
            return f"{size} {unit}"
        size //= 1024
    return f"{size} TiB"


def main():
    parser = argparse.ArgumentParser(description="Attach, and create and fill, from Python: hurray beside its rivals.")
    parser.add_argument("--rounds", type=int, default=1000, help="rounds of each way and size (default: %(default)s)")
    parser.add_argument("--sizes", default="4096,1048576,67108864", help="in bytes (default: %(default)s)")
    options = parser.parse_args()

    # One for both processes: before Python 3.13 whoever attaches a SharedMemory is booked as its owner too.
    resource_tracker.ensure_running()
    connection, theirs = multiprocessing.Pipe()
    context = (torch.multiprocessing if torch else multiprocessing).get_context("fork")
    holder = context.Process(target=hold, args=(theirs,), daemon=True)
    holder.start()
    theirs.close()

    print(f"Python {platform.python_version()}, NumPy {np.__version__}, torch {torch.__version__ if torch else 'NOT INSTALLED'}\n")
    print("Microseconds; ratio = p50 of hurray / p50 of that way.\n")
    print(f"| {'':<15} | {'way':<22} | {'size':>7} | {'rounds':>6} | {'p50':>9} | {'p99':>9} | {'ratio':>5} |")
    print(f"|{'-' * 17}|{'-' * 24}|{'-' * 9}|{'-' * 8}|{'-' * 11}|{'-' * 11}|{'-' * 7}|")
    ours, shared = Hurray(), SharedMemory()
    torches = [Torch(strategy, connection) for strategy in STRATEGIES] if torch else []
    for size in (int(size) for size in options.sizes.split(",")):
        connection.send(("offer", size))
        name = connection.recv()
        attaching = [(ours, lambda: ours.attach(size)), (shared, lambda: shared.attach(name))]
        attaching += [(way, lambda way=way: way.attach(size)) for way in torches]
        creating = [(way, lambda way=way: way.create(size)) for way in (ours, shared, *torches)]
        for what, ways in (("attach", attaching), ("create and fill", creating)):
            rounds = options.rounds if what == "attach" else max(4, options.rounds // (50 if size > 2**24 else 5))
            for way, (p50, p99) in (found := in_turn(what, ways, size, rounds)).items():
                ratio = found["hurray"][0] / p50
                print(f"| {what:<15} | {way:<22} | {human(size):>7} | {rounds:>6} | {p50:9.1f} | {p99:9.1f} | {ratio:5.2f} |")
            sys.stdout.flush()
    if torch is None:
        print(f"\ntorch was not measured: {why_no_torch}")

    for way in (ours, shared, *torches):
        way.close()
    connection.send(None)
    holder.join()


if __name__ == "__main__":
    main()
