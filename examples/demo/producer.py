#!/usr/bin/env python3
"""The demo: one Python program shares a picture and features of it with programs in C, C++ and Python.

Run it under a private daemon:   hurrayctl run -- python3 examples/demo/producer.py [PICTURE]

PICTURE is a PNG, JPEG, PPM or NPY file; without it the demo's own picture is taken. Needs the package hurray, numpy, Pillow, and
the two consumers that are built with -DHURRAY_BUILD_EXAMPLES=ON.
"""

import argparse
import pathlib
import shutil
import subprocess
import sys
import threading

import hurray
import numpy
from PIL import Image

from sharing import checksum, describe, find_place

HERE = pathlib.Path(__file__).resolve().parent
TILE_ROWS, TILE_COLUMNS = 8, 12
# Long enough for a slow machine under a sanitizer; nothing waits for it otherwise.
PATIENCE_S = 60


class DemoError(Exception):
    pass


def load_picture(path):
    """The file as uint8, height x width x channels."""
    try:
        if path.suffix.lower() == ".npy":
            pixels = numpy.load(path, allow_pickle=False)
        else:
            with Image.open(path) as image:
                pixels = numpy.asarray(image if image.mode in ("RGB", "RGBA", "L") else image.convert("RGB"))
    except FileNotFoundError:
        raise DemoError(f"{path}: there is no such file") from None
    except (OSError, ValueError, EOFError, SyntaxError, Image.DecompressionBombError) as error:
        raise DemoError(f"{path}: not a picture that can be read (PNG, JPEG, PPM or NPY): {error}") from None
    if pixels.ndim == 2:
        pixels = pixels[:, :, None]
    if pixels.ndim != 3 or pixels.shape[2] not in (1, 3, 4) or pixels.size == 0:
        raise DemoError(f"{path}: a picture has height x width or height x width x 1, 3 or 4, not {describe(pixels)}")
    if pixels.dtype.kind not in "uifb":
        raise DemoError(f"{path}: {pixels.dtype} is no type for pixels")
    if pixels.dtype != numpy.uint8:
        values = pixels.astype(numpy.float64)
        if not numpy.isfinite(values).all():
            raise DemoError(f"{path}: it contains values that are no finite numbers")
        low, high = values.min(), values.max()
        pixels = ((values - low) * (255 / (high - low) if high > low else 0)).astype(numpy.uint8)
    return pixels


def compute_features(picture):
    """One row a tile: mean and spread of red, green, blue; mean gradient; how it is spread over four directions."""
    colour = picture[:, :, :3].astype(numpy.float32) / 255
    if colour.shape[2] == 1:
        colour = colour.repeat(3, axis=2)
    grey = colour @ numpy.array([0.299, 0.587, 0.114], numpy.float32)
    down, right = (
        numpy.gradient(grey, axis=axis) if grey.shape[axis] > 1 else numpy.zeros_like(grey) for axis in (0, 1)
    )
    strength = numpy.hypot(down, right)
    direction = (numpy.arctan2(down, right) % numpy.pi / numpy.pi * 4).astype(int) % 4

    rows = min(TILE_ROWS, grey.shape[0])
    columns = min(TILE_COLUMNS, grey.shape[1])
    features = numpy.empty((rows * columns, 11), numpy.float32)
    tiles = (
        (row, column)
        for row in numpy.array_split(numpy.arange(grey.shape[0]), rows)
        for column in numpy.array_split(numpy.arange(grey.shape[1]), columns)
    )
    for feature, (row, column) in zip(features, tiles):
        tile = numpy.s_[row[0] : row[-1] + 1, column[0] : column[-1] + 1]
        feature[0:3] = colour[tile].mean(axis=(0, 1))
        feature[3:6] = colour[tile].std(axis=(0, 1))
        feature[6] = strength[tile].mean()
        weights = numpy.bincount(direction[tile].ravel(), strength[tile].ravel(), minlength=4)
        feature[7:11] = weights / max(weights.sum(), 1e-9)
    return features


class Releases:
    """What the daemon tells of consumers that are done. The callbacks run on a thread of the client's."""

    def __init__(self):
        self._changed = threading.Condition()
        self._released = {}
        self.lost = 0

    def told(self, event):
        with self._changed:
            if event.kind == "released":
                self._released[event.name] = self._released.get(event.name, 0) + 1
            else:
                self.lost += 1
            print(f"producer: {event.name}: {event.kind}, {event.remaining} lease(s) left", flush=True)
            self._changed.notify_all()

    def wait(self, name, count):
        with self._changed:
            return self._changed.wait_for(lambda: self._released.get(name, 0) >= count, PATIENCE_S)


def share(client, name, values, releases):
    """Publishes `values`; returns what consumers have to see. The one copy is the producer's own, into shared memory."""
    array = client.allocate(values.shape, values.dtype)
    array[...] = values
    place = find_place(array)
    if place is None:
        raise DemoError(f"{name}: its memory belongs to no shared file")
    expectation = [name, "--expect", f"{checksum(array):08x}", "--inode", str(place.inode), "--offset", str(place.offset)]
    client.publish(name, array, on_release=releases.told)
    print(f"producer: {name} is published: {describe(array)}, inode {place.inode}, offset {place.offset}", flush=True)
    return expectation


def find_program(name, folder):
    """A consumer that the build made: in `folder`, else in PATH, else in one of the build folders of this tree."""
    if folder is not None:
        found = shutil.which(name, path=str(folder))
    else:
        builds = (str(HERE.parents[1] / "build" / preset / "bin") for preset in ("release", "dev"))
        found = shutil.which(name) or next(filter(None, (shutil.which(name, path=build) for build in builds)), None)
    if found is None:
        raise DemoError(f"{name} is not there: build with -DHURRAY_BUILD_EXAMPLES=ON, then say where with --bin")
    return found


def run_consumers(consumers, expectation):
    """Runs them all at the same time, each as a process of its own; returns how many failed."""
    running = [
        (language, subprocess.Popen(command + expectation, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        for language, command in consumers
    ]
    failures = 0
    for language, process in running:
        try:
            output, _ = process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
        print(output, end="", flush=True)
        if process.returncode != 0:
            failures += 1
            print(f"producer: the {language} consumer failed with code {process.returncode}", flush=True)
    return failures


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.replace("\n\n", "\0").replace("\n", " ").replace("\0", "\n\n"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("picture", nargs="?", type=pathlib.Path, default=HERE / "picture.png")
    parser.add_argument("--bin", type=pathlib.Path, help="where the C and C++ consumers are")
    arguments = parser.parse_args()

    picture = load_picture(arguments.picture)
    features = compute_features(picture)
    consumers = [
        ("C", [find_program("hurray_demo_consumer_c", arguments.bin)]),
        ("C++", [find_program("hurray_demo_consumer_cpp", arguments.bin)]),
        ("Python", [sys.executable, str(HERE / "consumer.py")]),
    ]

    client = hurray.connect()
    releases = Releases()
    failures = 0
    for name, values in (("demo/picture", picture), ("demo/features", features)):
        expectation = share(client, name, values, releases)
        failures += run_consumers(consumers, expectation)
        if not releases.wait(name, len(consumers)):
            failures += 1
            print(f"producer: {name}: not every consumer's release was told within {PATIENCE_S} s", flush=True)
    client.close()

    failures += releases.lost
    if failures:
        raise DemoError(f"{failures} thing(s) went wrong")
    print(
        f"Done: 2 tensors, {picture.nbytes + features.nbytes} bytes, read by {2 * len(consumers)} processes in "
        f"{len(consumers)} languages. No byte was copied between processes; each release was told."
    )


if __name__ == "__main__":
    try:
        main()
    except (DemoError, hurray.Error) as error:
        sys.exit(f"producer: {error}")
