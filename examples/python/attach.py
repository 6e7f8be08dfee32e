"""Waits for "camera/front" and adds up its bytes, which stay where the producer put them."""

import hurray
import numpy

client = hurray.connect()
picture = numpy.asarray(client.attach("camera/front", timeout=5))  # read-only, not a copy
print(f"camera/front: {picture.nbytes} bytes, sum {picture.sum(dtype='uint64')}")
