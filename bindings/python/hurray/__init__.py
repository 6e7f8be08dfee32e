"""Hurray: tensors shared between the programs of one host, without a copy.

A producer:

    import hurray

    with hurray.connect() as client:
        frame = client.allocate((1080, 1920, 3), "uint8")   # a NumPy array in shared memory
        frame[:] = 128
        client.publish("camera/front", frame)               # no copy; the array is read-only now
        client.hold()                                       # serve until Ctrl-C

A consumer, in another program:

    with hurray.connect() as client:
        with client.attach("camera/front", timeout=5) as tensor:
            frame = numpy.asarray(tensor)                   # read-only, no copy; so does torch.from_dlpack(tensor)

One that goes on, with what is newer than what it has seen:

    last = 0
    while True:
        with client.attach("camera/front", newer_than=last, timeout=None) as tensor:
            look(tensor)
            last = tensor.version

A view keeps its tensor's memory: the producer is told that a consumer is done when the tensor is closed or collected and
the last view of it is gone. So look at tensors in functions, whose views end when they return; a variable keeps one until the next round.
"""

from ._access import Access
from ._client import Capsule, Client, Event, Group, Publication, Watch, connect, hold
from ._errors import (
    AlreadyExistsError,
    ClosedError,
    ConnectionLostError,
    DaemonUnavailableError,
    DescriptorError,
    Error,
    ForkedError,
    InvalidArgumentError,
    LimitError,
    NotFoundError,
    PermissionError,
    ProtocolError,
    TimeoutError,
    UnsupportedError,
)
from ._tensor import Tensor

__version__ = "0.1.0"

__all__ = [
    "Access",
    "AlreadyExistsError",
    "Capsule",
    "Client",
    "ClosedError",
    "ConnectionLostError",
    "DaemonUnavailableError",
    "DescriptorError",
    "Error",
    "Event",
    "ForkedError",
    "Group",
    "InvalidArgumentError",
    "LimitError",
    "NotFoundError",
    "PermissionError",
    "ProtocolError",
    "Publication",
    "Tensor",
    "TimeoutError",
    "UnsupportedError",
    "Watch",
    "connect",
    "hold",
]

for _name in __all__:  # messages and help() name what users import
    globals()[_name].__module__ = __name__
del _name
