"""Publishes a grey picture as "camera/front" until Ctrl-C, and tells of consumers that are done with it."""

import broker_pb2 as pb
import minimal_client

UINT8 = 0x11

connection = minimal_client.Connection(name="publish.py")
connection.publish("camera/front", UINT8, (480, 640, 3), bytes([128]) * (480 * 640 * 3))

print("camera/front is there; Ctrl-C ends it", flush=True)
try:
    while True:  # who does not read its events is cut
        event = connection.next_event()
        if event.WhichOneof("message") == "lease" and event.lease.what != pb.LeaseEvent.OPENED:
            print(f"a consumer is done, {event.lease.remaining} left", flush=True)
except KeyboardInterrupt:
    pass  # the publication ends with the connection
