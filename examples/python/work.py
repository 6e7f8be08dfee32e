"""Takes tiles from "jobs/tiles", oldest first, until none has come for a second; each goes to one worker alone."""

import hurray
import numpy

with hurray.connect() as client:
    try:
        while True:
            with client.take("jobs/tiles", timeout=1) as tile:  # leaving the block tells the producer that it is done
                pixels = numpy.asarray(tile)
                print(f"tile {pixels[0, 0]}: sum {pixels.sum()}", flush=True)
    except hurray.TimeoutError:
        pass  # nothing is left to do
