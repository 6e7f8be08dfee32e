"""A client of hurrayd in Python's standard library and protobuf alone, written from docs/protocol.md.

To be read beside that document, and as a start for a client in another language. It blocks, has no threads, and knows
what most programs need: publish a dense tensor, attach one, release it, look around. broker_pb2 is what

    protoc --proto_path=proto/hurray/broker/v1 --python_out=. broker.proto

makes. (Programs in Python should take the package `hurray`: it has NumPy arrays, callbacks, waits that Ctrl-C ends.)
"""

import errno
import fcntl
import mmap
import os
import pwd
import secrets
import select
import socket
import struct
from collections import deque
from typing import NamedTuple

import broker_pb2 as pb

# From linux/fcntl.h and linux/memfd.h; Python has names for only some of them.
F_ADD_SEALS, F_GET_SEALS = 1033, 1034
F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_FUTURE_WRITE, F_SEAL_EXEC = 0x1, 0x2, 0x4, 0x10, 0x20
MFD_NOEXEC_SEAL = 0x8
REUSABLE_SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE

PACKET_BYTES, PACKET_FDS = 65536, 253
ALIGNMENT = 64
ROW_MAJOR, COLUMN_MAJOR, STRIDED = 1, 2, 3


class Refused(Exception):
    """The daemon answered Error, or said it as the last word before it closed."""

    def __init__(self, error):
        super().__init__(error.message.decode())
        self.status, self.field, self.limit_name = error.status, error.field.decode(), error.limit_name.decode()
        self.limit, self.in_use, self.value = error.limit, error.in_use, error.value


class ConnectionLost(Exception):
    """The daemon has gone, or has cut this connection. What is mapped stays readable; leases and publications ended."""


class Unsound(Exception):
    """What came is not what the protocol promises."""


# ---- Tensor descriptors (section 10) --------------------------------------------------------------------------------


class Dense(NamedTuple):
    """What a descriptor says of a dense tensor: `strides` are in elements, sizes and offsets in bytes."""

    element_type: int
    layout: int
    shape: tuple
    strides: tuple
    byte_offset: int
    byte_size: int
    alignment: int


def encode_row_major(element_type: int, shape: tuple, byte_size: int) -> bytes:
    """A row-major tensor that fills its buffer from the first byte on."""
    rest = struct.pack(f"<IBBI{len(shape)}QQ", 0, element_type, ROW_MAJOR, len(shape), *shape, 0)
    rest += struct.pack("<BQIBBBB", 1, byte_size, ALIGNMENT, 0, 0, 0, 0)
    return b"HRRY" + struct.pack("<BBI", 1, 0, 10 + len(rest)) + rest


def decode(descriptor: bytes) -> Dense:
    try:
        magic, major, _minor, _length, _flags, element_type, layout, rank = struct.unpack_from("<4sBBIIBBI", descriptor)
        if magic != b"HRRY" or major != 1 or layout not in (ROW_MAJOR, COLUMN_MAJOR, STRIDED) or rank > 64:
            raise Unsound("not a dense descriptor of version 1")
        *shape, byte_offset = struct.unpack_from(f"<{rank + 1}Q", descriptor, 20)
        at = 20 + 8 * (rank + 1)
        if layout == STRIDED:
            strides = struct.unpack_from(f"<{rank}q", descriptor, at)
            at += 8 * rank
        else:
            strides, step = [0] * rank, 1
            for k in range(rank) if layout == COLUMN_MAJOR else reversed(range(rank)):
                strides[k] = step
                step *= shape[k]
        count, byte_size, alignment, device = struct.unpack_from("<BQIB", descriptor, at)
    except struct.error as error:
        raise Unsound(f"the descriptor ends too early: {error}") from None
    if count != 1 or device != 0:
        raise Unsound("not one buffer in CPU memory")
    return Dense(element_type, layout, tuple(shape), tuple(strides), byte_offset, byte_size, alignment)


# ---- Memory (section 4) ---------------------------------------------------------------------------------------------


def make_segment(size: int) -> tuple[int, mmap.mmap]:
    """A memfd with all of its pages reserved, and a writable mapping of it; sealed, so that nobody else can write."""
    try:
        fd = os.memfd_create("tensor", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        fd = os.memfd_create("tensor", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)  # before Linux 6.3
    try:
        os.posix_fallocate(fd, 0, size)  # sets the size, too
        mapping = mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        fcntl.fcntl(fd, F_ADD_SEALS, REUSABLE_SEALS)
    except BaseException:
        os.close(fd)
        raise
    return fd, mapping


def check_segment(fd: int, segment) -> None:
    """Whether memory that somebody else made can't hurt us: shrink, or lack pages when we read it."""
    if segment.memory != pb.REUSABLE:
        raise Unsound(f"memory of kind {segment.memory}")
    seals = fcntl.fcntl(fd, F_GET_SEALS)
    if seals & ~F_SEAL_EXEC != REUSABLE_SEALS:
        raise Unsound(f"seals {seals:#x}")
    status = os.fstat(fd)
    if status.st_size != segment.size or status.st_blocks * 512 < status.st_size:
        raise Unsound(f"{status.st_size} bytes, {status.st_blocks * 512} of them reserved, not {segment.size}")


# ---- Finding the daemon (section 1) ---------------------------------------------------------------------------------


def connect_socket(path=None) -> socket.socket:
    if path or os.environ.get("HURRAY_SOCKET"):
        paths, is_explicit = [path or os.environ["HURRAY_SOCKET"]], True
    else:
        runtime = os.environ.get("XDG_RUNTIME_DIR")
        paths = [f"{runtime}/hurray/hurrayd.sock"] if runtime else []
        paths, is_explicit = [*paths, "/run/hurray/hurrayd.sock"], False
    for candidate in paths:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # close-on-exec, as all that Python makes
        try:
            sock.connect(candidate)
            check_listener(sock, is_explicit)
            return sock
        except (FileNotFoundError, NotADirectoryError):
            sock.close()
        except BaseException:
            sock.close()
            raise
    raise ConnectionLost(f"hurrayd is not running (tried {', '.join(paths)})")


def check_listener(sock, is_explicit: bool) -> None:
    _pid, uid, _gid = struct.unpack("iII", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    trusted = {0, os.geteuid()}
    try:
        trusted.add(pwd.getpwnam("hurray").pw_uid)
    except KeyError:
        pass
    if is_explicit and os.environ.get("HURRAY_DAEMON_UID", "").isdecimal():
        trusted.add(int(os.environ["HURRAY_DAEMON_UID"]))
    if uid not in trusted:
        raise PermissionError(f"who listens is user {uid}, which is not trusted")


# ---- The conversation (sections 2 to 8) -----------------------------------------------------------------------------


class Connection:
    """One conversation with the daemon. Events that come while something else is waited for are kept in `events`."""

    def __init__(self, path=None, name="minimal client"):
        self.socket = connect_socket(path)
        os.register_at_fork(after_in_child=self.socket.close)  # it is the parent's (section 11)
        self.events = deque()
        self._last_words = None
        self._replies = {}
        self._abandoned = {}  # request -> lease to be given back, should it be granted all the same
        self._request_id = self._lease = self._segment = 0
        hello = pb.Hello(version_min=1, version_max=1, client_name=name.encode(), session=secrets.token_bytes(16))
        try:
            self.socket.settimeout(5)  # somebody may listen who never answers
            reply, _ = self.request(hello=hello)
            self.socket.settimeout(None)
        except BaseException:
            self.socket.close()
            raise
        self.limits, self.instance = reply.hello.limits, reply.hello.instance

    def close(self) -> None:
        """Ends the connection: publications end, and leases that were not released count as lost."""
        self.socket.close()

    # -- Packets --

    def send(self, timeout_ms=None, fds=(), **message) -> int:
        """Sends a request, such as send(status=pb.Status()), and returns its id."""
        self._request_id += 1
        packet = pb.Request(request_id=self._request_id, timeout_ms=timeout_ms, **message).SerializeToString()
        try:
            socket.send_fds(self.socket, [packet], fds, socket.MSG_NOSIGNAL)
        except (BrokenPipeError, ConnectionResetError):
            pass  # not the end yet: what the daemon still said is in our queue
        return self._request_id

    def receive(self) -> None:
        """Reads one packet and puts it where it belongs."""
        try:
            data, fds, flags, _ = socket.recv_fds(self.socket, PACKET_BYTES, PACKET_FDS, socket.MSG_CMSG_CLOEXEC)
        except ConnectionResetError:
            return  # not the end yet either
        if not data:
            if self._last_words is not None:
                raise Refused(self._last_words)
            raise ConnectionLost("hurrayd has closed the connection")
        packet = pb.Packet.FromString(data)
        kind = packet.WhichOneof("message")
        if flags & socket.MSG_CTRUNC:  # some descriptors are missing, so none may be used
            close_all(fds)
            fds = None
        if packet.request_id in self._abandoned:
            close_all(fds or ())
            lease = self._abandoned.pop(packet.request_id)
            if kind == "attach":
                self.send(release=pb.Release(lease=[lease]))
        elif packet.request_id != 0:
            self._replies[packet.request_id] = packet, fds
        elif kind == "closing":
            self._last_words = packet.closing
        elif kind is not None:  # else an event of a newer daemon
            self.events.append(packet)

    def reply_to(self, request_id):
        """Waits for the reply to one request: the packet, and the descriptors that came with it."""
        while request_id not in self._replies:
            self.receive()
        packet, fds = self._replies.pop(request_id)
        if packet.HasField("error"):
            raise Refused(packet.error)
        return packet, fds

    def request(self, timeout_ms=None, fds=(), **message):
        return self.reply_to(self.send(timeout_ms, fds, **message))

    def next_event(self):
        """Waits for the next event."""
        while not self.events:
            self.receive()
        return self.events.popleft()

    def is_readable(self) -> bool:
        return bool(self.events) or bool(select.select([self.socket], [], [], 0)[0])

    # -- Producing --

    def publish(self, name: str, element_type: int, shape: tuple, data, group=0) -> "Published":
        """Publishes a row-major tensor: copies `data` into shared memory and hands that over.

        With the number of a group that was begun it is staged, in version 0, until that is committed.
        """
        data = memoryview(data).cast("B") if len(data) else b""
        capsule = secrets.token_bytes(16)
        message = pb.Publish(
            capsule=capsule,
            name=name.encode(),
            descriptor=encode_row_major(element_type, shape, len(data)),
            placements=[pb.Placement(segment=0, offset=0)],
            group=group,
        )
        fds, mapping = [], None
        try:
            if len(data):  # an empty tensor has no segment
                fd, mapping = make_segment(len(data))
                fds.append(fd)
                mapping[:] = data
                self._segment += 1
                message.segments.add(number=self._segment, carries_fd=True, memory=pb.REUSABLE, size=len(data))
            reply, _ = self.request(publish=message, fds=fds)
            if fds:  # this memory is used once: the daemon keeps it no longer than the tensor
                self.request(forget=pb.Forget(segment=[self._segment]))
        finally:
            close_all(fds)  # the daemon has its own, and the mapping needs none
        return Published(capsule, reply.publish.version, mapping)

    def group(self, number: int, action: int) -> list:
        """Begins a group of publications, commits it (what was published in it is there all at once), or aborts it."""
        reply, _ = self.request(group=pb.Group(group=number, action=action))
        return list(reply.group.versions)

    def withdraw(self, published: "Published") -> None:
        self.request(withdraw=pb.Withdraw(capsule=pb.CapsuleId(uid=os.geteuid(), id=published.capsule)))

    # -- Consuming --

    def attach(self, name: str, timeout_ms=0, newer_than=0) -> "Tensor":
        """Takes a lease on the newest tensor of that name, after a wait if need be, and maps it read-only."""
        self._lease += 1
        lease = self._lease
        attach = pb.Attach(lease=lease, name=name.encode(), newer_than=newer_than)
        request_id = self.send(timeout_ms, attach=attach)
        try:
            reply, fds = self.reply_to(request_id)
        except (Refused, ConnectionLost):
            raise
        except BaseException:  # Ctrl-C: nobody waits any more for what may still come
            self._abandoned[request_id] = lease
            self.send(cancel=pb.Cancel(request_id=request_id))
            raise
        try:
            return Tensor(self, lease, reply.attach, fds)
        except BaseException:
            self.release(lease)  # it was granted, whatever is wrong with it
            raise
        finally:
            close_all(fds or ())  # mapped, or of no use

    def release(self, *leases: int) -> None:
        self.request(release=pb.Release(lease=leases))

    # -- Looking around --

    def list(self, pattern="") -> list:
        found, cursor = [], b""
        while True:
            page = self.request(list=pb.List(pattern=pattern.encode(), cursor=cursor))[0].list
            found += page.capsules
            cursor = page.cursor
            if not cursor:
                return found


class Published(NamedTuple):
    capsule: bytes
    version: int
    mapping: mmap.mmap  # what we filled; to be left alone until the capsule's Ended says reusable


class Tensor:
    """An attached tensor: its bytes are in `data`, where the producer put them."""

    def __init__(self, connection, lease, attach, fds):
        if fds is None:
            raise Unsound("too few descriptors are free in this process")
        if len(fds) != sum(segment.carries_fd for segment in attach.segments) or len(fds) != len(attach.segments):
            raise Unsound("descriptors and segments do not agree")
        self.dense = decode(attach.descriptor)
        if len(attach.placements) != 1:
            raise Unsound("not one buffer")
        self.name, self.version, self.capsule = attach.name.decode(), attach.version, attach.capsule
        self._connection, self._lease, self._mapping = connection, lease, None
        self.data = memoryview(b"")
        if self.dense.byte_size:
            (place,) = attach.placements
            if place.segment >= len(fds):
                raise Unsound("a placement outside the segments")
            segment = attach.segments[place.segment]
            check_segment(fds[place.segment], segment)
            end = place.offset + self.dense.byte_size
            if end > segment.size or place.offset % self.dense.alignment:
                raise Unsound("the buffer does not lie in its segment")
            self._mapping = mmap.mmap(fds[place.segment], segment.size, mmap.MAP_SHARED, mmap.PROT_READ)
            self.data = memoryview(self._mapping)[place.offset : end]

    def release(self) -> None:
        """Unmaps, then gives the lease back. BufferError if somebody still has a view of `data`; nothing happens then."""
        if self._mapping is not None:
            self.data.release()
            self._mapping.close()
            self._mapping = None
        self._connection.release(self._lease)


def close_all(fds) -> None:
    for fd in fds:
        os.close(fd)
