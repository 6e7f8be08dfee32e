"""Takes tiles from "jobs/tiles", oldest first, until none has come for a second; each goes to one worker alone."""

import hurray
import numpy


def work(tile):
    pixels = numpy.asarray(tile)  # a view, and the tile is held as long as there is one: until this returns
    print(f"tile {pixels[0, 0]}: sum {pixels.sum()}", flush=True)


with hurray.connect() as client:
    try:
        while True:
            with client.take("jobs/tiles", timeout=1) as tile:
                work(tile)
            # now the producer is told that it is done
    except hurray.TimeoutError:
        pass  # nothing is left to do
