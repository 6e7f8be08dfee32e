"""Publishes a grey picture as "camera/front" until Ctrl-C."""

import hurray

with hurray.connect() as client:
    picture = client.allocate((480, 640, 3), "uint8")  # a NumPy array in shared memory
    picture[:] = 128

    client.publish("camera/front", picture)  # no copy; the array is read-only from now on
    print("camera/front is there; Ctrl-C ends it", flush=True)
    client.hold()
