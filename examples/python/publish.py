"""Publishes a grey picture as "camera/front" until Ctrl-C, and tells of consumers that are done with it."""

import hurray


def tell(event):
    print(f"{event.name}: {event.kind}, {event.remaining} left", flush=True)


with hurray.connect() as client:
    picture = client.allocate((480, 640, 3), "uint8")  # a NumPy array in shared memory
    picture[:] = 128
    client.publish("camera/front", picture, on_release=tell)  # no copy; the array is read-only from now on

    print("camera/front is there; Ctrl-C ends it", flush=True)
    client.hold()
