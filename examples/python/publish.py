"""Publishes a grey picture as "camera/front" until Ctrl-C, and tells of consumers that are done with it."""

import hurray


def done(event):
    print(f"{event.name}: {event.kind}, {event.remaining} left")


client = hurray.connect()
picture = client.allocate((480, 640, 3), "uint8")  # a NumPy array in shared memory
picture[...] = 128
client.publish("camera/front", picture, on_release=done)

print("camera/front is there; Ctrl-C ends it")
client.hold()
