"""Waits for "camera/front" and adds up its bytes, which stay where the producer put them."""

import minimal_client

connection = minimal_client.Connection(name="attach.py")
tensor = connection.attach("camera/front", timeout_ms=5000)
print(f"{tensor.name}: {len(tensor.data)} bytes, sum {sum(tensor.data)}")
tensor.release()  # the producer is told that we are done
