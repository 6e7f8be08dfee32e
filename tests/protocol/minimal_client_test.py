"""What docs/protocol.md promises, asked of a real daemon by a client that knows nothing but that document.

usage: hurrayctl run -- python3 minimal_client_test.py ROOT HURRAYD     with the example client and broker_pb2 in PYTHONPATH
"""

import fcntl
import os
import pathlib
import re
import socket
import struct
import subprocess
import sys
import tempfile
import unittest

import broker_pb2 as pb
import minimal_client as minimal
from google.protobuf import text_format

ROOT = pathlib.Path(sys.argv.pop(1))
HURRAYD = sys.argv.pop(1)
UINT8, INT32, FLOAT64 = 0x11, 0x14, 0x04
NOT_FOUND, ALREADY_EXISTS, TIMED_OUT, PROTOCOL, INVALID_ARGUMENT, CLOSED = -32, -33, -34, -41, -44, -46


class ProtocolTest(unittest.TestCase):
    def setUp(self):
        self.producer = self.connect()
        self.consumer = self.connect()

    def connect(self):
        connection = minimal.Connection()
        self.addCleanup(connection.close)
        return connection

    def assert_refused(self, status, call):
        with self.assertRaises(minimal.Refused) as caught:
            call()
        self.assertEqual(caught.exception.status, status, caught.exception)
        return caught.exception

    def next_event(self, connection, kind):
        event = connection.next_event()
        self.assertEqual(event.WhichOneof("message"), kind)
        return getattr(event, kind)

    # ---- Handing over -----------------------------------------------------------------------------------------------

    def test_the_bytes_that_the_document_shows_are_what_is_said(self):
        text = (ROOT / "docs/protocol.md").read_text(encoding="utf-8")
        shown = re.findall(r"^<!-- example (\w+) -->\n```\n(.*?)^```\n```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        self.assertGreaterEqual(len(shown), 10)
        with minimal.connect_socket() as sock:
            fd, mapping = minimal.make_segment(4096)
            mapping[:6] = b"\1\2\3\4\5\6"
            for kind, source, hexadecimal in shown:
                packet = bytes.fromhex(hexadecimal)
                if kind == "Request":
                    socket.send_fds(sock, [packet], [fd] if b"HRRY" in packet else [])
                    continue
                data, fds, _, _ = socket.recv_fds(sock, minimal.PACKET_BYTES, minimal.PACKET_FDS)
                expected = text_format.Parse(source, pb.Packet())
                said = pb.Packet.FromString(data)
                self.assertEqual(len(fds), 1 if kind == "Packet" and b"HRRY" in packet else 0)
                for each in fds:
                    self.assertEqual(os.pread(each, 6, 0), b"\1\2\3\4\5\6")
                minimal.close_all(fds)
                self.assertEqual(self.without_what_differs(said), self.without_what_differs(expected))
            os.close(fd)

    def without_what_differs(self, packet):
        """Of a packet, what is the same for each user and in each life of the daemon."""
        if packet.HasField("hello"):
            packet.hello.ClearField("instance")
            packet.hello.ClearField("window_left_ms")
            packet.hello.default_access.gid = 0
        packet.publish.ClearField("version") if packet.HasField("publish") else None
        packet.error.ClearField("message") if packet.HasField("error") else None
        if packet.HasField("lease"):
            packet.lease.capsule.uid = packet.lease.lease.uid = 0
            packet.lease.lease.session_hash = b""
        if packet.HasField("attach"):
            packet.attach.ClearField("version")
            packet.attach.ClearField("access")
            packet.attach.capsule.uid = packet.attach.segments[0].number = 0
        return packet

    def test_what_is_published_is_attached_and_each_step_is_told(self):
        published = self.producer.publish("told", INT32, (2, 3), struct.pack("<6i", *range(6)))
        tensor = self.consumer.attach("told")
        self.assertEqual(struct.unpack("<6i", tensor.data), tuple(range(6)))
        self.assertEqual(tensor.dense.shape, (2, 3))
        self.assertEqual(tensor.dense.strides, (3, 1))
        self.assertEqual((tensor.version, tensor.capsule.id), (published.version, published.capsule))
        self.assertTrue(tensor.data.readonly)
        opened = self.next_event(self.producer, "lease")
        self.assertEqual((opened.what, opened.remaining), (pb.LeaseEvent.OPENED, 1))
        tensor.release()
        released = self.next_event(self.producer, "lease")
        self.assertEqual((released.what, released.remaining, released.lease), (pb.LeaseEvent.RELEASED, 0, opened.lease))
        self.producer.withdraw(published)
        ended = self.next_event(self.producer, "ended")
        self.assertEqual((ended.capsule.id, ended.reusable), (published.capsule, True))
        self.assert_refused(NOT_FOUND, lambda: self.consumer.attach("told"))

    def test_consumers_see_the_producers_own_pages(self):
        published = self.producer.publish("pages", UINT8, (4,), b"abcd")
        tensor = self.consumer.attach("pages")
        published.mapping[:4] = b"wxyz"  # what no producer should do; that it shows proves that nothing was copied
        self.assertEqual(bytes(tensor.data), b"wxyz")
        tensor.release()

    def test_empty_tensors_and_scalars(self):
        self.producer.publish("empty", FLOAT64, (0, 7), b"")
        self.producer.publish("scalar", FLOAT64, (), struct.pack("<d", 2.5))
        empty, scalar = self.consumer.attach("empty"), self.consumer.attach("scalar")
        self.assertEqual((empty.dense.shape, empty.dense.byte_size, bytes(empty.data)), ((0, 7), 0, b""))
        self.assertEqual((scalar.dense.shape, struct.unpack("<d", scalar.data)), ((), (2.5,)))
        empty.release()
        scalar.release()

    def test_a_consumer_that_leaves_without_a_release_is_told_as_lost(self):
        published = self.producer.publish("lost", UINT8, (1,), b"x")
        leaving = self.connect()
        tensor = leaving.attach("lost")
        leaving.close()
        kinds = [self.next_event(self.producer, "lease").what for _ in range(2)]
        self.assertEqual(kinds, [pb.LeaseEvent.OPENED, pb.LeaseEvent.LOST])
        self.assertEqual(bytes(tensor.data), b"x")  # still mapped, still readable
        self.producer.withdraw(published)
        self.assertFalse(self.next_event(self.producer, "ended").reusable)

    def test_a_successor_is_answered_after_its_predecessor_was_told(self):
        first = self.producer.publish("name", UINT8, (1,), b"1")
        second = self.consumer.publish("name", UINT8, (1,), b"2")
        self.assertGreater(second.version, first.version)
        self.assertEqual(self.next_event(self.producer, "retired").capsule.id, first.capsule)
        self.assertTrue(self.next_event(self.producer, "ended").reusable)
        tensor = self.producer.attach("name")
        self.assertEqual(bytes(tensor.data), b"2")
        tensor.release()

    def test_a_group_is_there_all_at_once(self):
        self.producer.group(7, pb.Group.BEGIN)
        names = ["group/head", "group/0", "group/1"]
        for name in names:
            self.assertEqual(self.producer.publish(name, UINT8, (3,), b"abc", group=7).version, 0)
            self.assertEqual(self.consumer.list("group/"), [])
        first, *others = self.producer.group(7, pb.Group.COMMIT)
        self.assertEqual(others, [first + 1, first + 2])
        self.assertEqual({c.name.decode(): c.version for c in self.consumer.list("group/")}, dict(zip(names, [first, *others])))

    def test_an_aborted_group_is_never_there(self):
        self.producer.group(7, pb.Group.BEGIN)
        staged = self.producer.publish("aborted", UINT8, (3,), b"abc", group=7)
        self.assertEqual(self.producer.group(7, pb.Group.ABORT), [])
        ended = self.next_event(self.producer, "ended")
        self.assertEqual((ended.capsule.id, ended.reusable), (staged.capsule, True))
        self.assert_refused(NOT_FOUND, lambda: self.consumer.attach("aborted"))
        self.assert_refused(NOT_FOUND, lambda: self.producer.group(7, pb.Group.COMMIT))

    def test_a_holder_is_told_that_its_producer_has_gone(self):
        leaving = self.connect()
        published = leaving.publish("orphan", UINT8, (1,), b"x")
        tensor = self.consumer.attach("orphan")
        leaving.close()
        self.assertEqual(self.next_event(self.consumer, "producer_lost").capsule.id, published.capsule)
        self.assertEqual(bytes(tensor.data), b"x")
        tensor.release()

    # ---- Waiting ----------------------------------------------------------------------------------------------------

    def test_what_is_not_there_is_waited_for(self):
        request = self.consumer.send(attach=pb.Attach(lease=71, name=b"late"))  # no timeout: for ever
        self.producer.publish("late", UINT8, (1,), b"x")
        reply, fds = self.consumer.reply_to(request)
        self.assertEqual(reply.attach.name, b"late")
        minimal.close_all(fds)
        self.consumer.release(71)

    def test_waits_end_in_time_at_once_or_when_they_are_cancelled(self):
        error = self.assert_refused(NOT_FOUND, lambda: self.consumer.attach("never"))
        self.assertIn("never", str(error))
        self.assert_refused(TIMED_OUT, lambda: self.consumer.attach("never", timeout_ms=1))
        request = self.consumer.send(attach=pb.Attach(lease=72, name=b"never"))
        self.consumer.send(cancel=pb.Cancel(request_id=request))
        self.assert_refused(CLOSED, lambda: self.consumer.reply_to(request))

    def test_the_next_version_is_waited_for(self):
        first = self.producer.publish("versions", UINT8, (1,), b"1")
        request = self.consumer.send(attach=pb.Attach(lease=73, name=b"versions", newer_than=first.version))
        second = self.producer.publish("versions", UINT8, (1,), b"2")
        reply, fds = self.consumer.reply_to(request)
        self.assertEqual(reply.attach.version, second.version)
        minimal.close_all(fds)
        self.consumer.release(73)

    # ---- Looking around ---------------------------------------------------------------------------------------------

    def test_list_pages_and_watch_agree(self):
        names = [b"look/%02d" % i for i in range(20)]
        published = [self.producer.publish(name.decode(), UINT8, (1,), b"x") for name in names]
        self.assertEqual([info.name for info in self.consumer.list("look/")], names)
        paged, cursor = [], b""
        while True:
            page = self.consumer.request(list=pb.List(pattern=b"look/", cursor=cursor, limit=3))[0].list
            self.assertLessEqual(len(page.capsules), 3)
            paged += [info.name for info in page.capsules]
            cursor = page.cursor
            if not cursor:
                break
        self.assertEqual(paged, names)
        self.consumer.request(watch=pb.Watch(watch=1, pattern=b"look/"))
        seen = [self.next_event(self.consumer, "watched") for _ in range(21)]
        self.assertEqual([event.name for event in seen[:20]], names)
        self.assertEqual({event.what for event in seen[:20]}, {pb.Watched.PRESENT})
        self.assertEqual(seen[20].what, pb.Watched.SNAPSHOT_END)
        self.producer.publish("look/new", UINT8, (1,), b"x")
        self.producer.withdraw(published[0])
        changes = [self.next_event(self.consumer, "watched") for _ in range(2)]
        self.assertEqual([change.what for change in changes], [pb.Watched.PUBLISHED, pb.Watched.RETIRED])
        self.assertEqual(changes[1].version, published[0].version)
        self.consumer.request(unwatch=pb.Unwatch(watch=1))

    def test_status_counts_what_this_user_holds(self):
        self.producer.publish("counted", UINT8, (5,), b"12345")
        tensor = self.consumer.attach("counted")
        status, _ = self.consumer.request(status=pb.Status())
        uses = {use.name.decode(): use.used for use in status.status.uses if use.uid == os.geteuid()}
        self.assertEqual((uses["capsules"], uses["leases"], uses["names"]), (1, 1, 1))
        tensor.release()

    # ---- Refusals ---------------------------------------------------------------------------------------------------

    def publish_memfd(self, fd, size, **segment):
        message = pb.Publish(
            capsule=os.urandom(16),
            descriptor=minimal.encode_row_major(UINT8, (size,), size),
            segments=[pb.Segment(number=99, carries_fd=True, memory=pb.REUSABLE, size=size, **segment)],
            placements=[pb.Placement()],
        )
        try:
            return self.producer.request(publish=message, fds=[fd])
        finally:
            os.close(fd)

    def test_memory_that_could_hurt_a_reader_is_refused_with_the_segment_named(self):
        unsealed = os.memfd_create("unsealed", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.posix_fallocate(unsealed, 0, 4096)
        error = self.assert_refused(INVALID_ARGUMENT, lambda: self.publish_memfd(unsealed, 4096))
        self.assertEqual(error.field, "publish.segments[0]")
        sparse = os.memfd_create("sparse", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.truncate(sparse, 4096)
        fcntl.fcntl(sparse, minimal.F_ADD_SEALS, minimal.REUSABLE_SEALS)
        self.assertIn("sparse", str(self.assert_refused(INVALID_ARGUMENT, lambda: self.publish_memfd(sparse, 4096))))
        good, mapping = minimal.make_segment(8192)
        mapping.close()
        error = self.assert_refused(INVALID_ARGUMENT, lambda: self.publish_memfd(good, 4096))
        self.assertEqual(error.field, "publish.segments[0].size")

    def test_names_that_break_the_rules_are_refused(self):
        for name in ("a//b", "/a", "a/", "a/../b", "a\n"):
            error = self.assert_refused(INVALID_ARGUMENT, lambda: self.consumer.attach(name))
            self.assertEqual(error.field, "attach.name")

    def test_a_version_that_the_daemon_does_not_speak_is_refused_with_both_ranges_and_the_end(self):
        with minimal.connect_socket() as sock:
            hello = pb.Hello(version_min=7, version_max=9, session=os.urandom(16))
            sock.send(pb.Request(request_id=1, hello=hello).SerializeToString())
            error = pb.Packet.FromString(sock.recv(minimal.PACKET_BYTES)).error
            self.assertEqual(error.status, PROTOCOL)
            self.assertRegex(error.message.decode(), r"1 to 1\b.*\b7 to 9")
            self.assertEqual(sock.recv(minimal.PACKET_BYTES), b"")

    def test_what_is_no_packet_is_answered_with_last_words(self):
        self.producer.socket.send(b"\xff" * 16)
        self.assert_refused(PROTOCOL, self.producer.next_event)

    # ---- The end, forks ---------------------------------------------------------------------------------------------

    def test_a_forked_child_connects_anew_and_reads_what_its_parent_holds(self):
        self.producer.publish("forked", UINT8, (3,), b"abc")
        tensor = self.consumer.attach("forked")
        child = os.fork()
        if child == 0:
            good = self.consumer.socket.fileno() == -1 and bytes(tensor.data) == b"abc"
            mine = minimal.Connection()
            good = good and bytes(mine.attach("forked").data) == b"abc"
            os._exit(0 if good else 1)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        told = [self.next_event(self.producer, "lease").what for _ in range(3)]
        self.assertEqual(told, [pb.LeaseEvent.OPENED, pb.LeaseEvent.OPENED, pb.LeaseEvent.LOST])  # the child's own
        tensor.release()
        self.assertEqual(self.next_event(self.producer, "lease").what, pb.LeaseEvent.RELEASED)

    def test_the_daemons_end_is_told_and_what_is_mapped_stays_readable(self):
        script = """
import os, signal, sys
import minimal_client as minimal
connection = minimal.Connection()
connection.publish("x", 0x11, (3,), b"abc")
tensor = connection.attach("x")
print("holds", flush=True)
sys.stdin.readline()
try:
    while True:
        connection.next_event()
except (minimal.ConnectionLost, minimal.Refused) as end:
    print(type(end).__name__, end, bytes(tensor.data))
"""
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        socket_path = os.path.join(directory.name, "hurrayd.sock")
        daemon = subprocess.Popen([HURRAYD, "--socket", socket_path, "--log-level", "error"])
        try:
            while not os.path.exists(socket_path):
                self.assertIsNone(daemon.poll())
            client = subprocess.Popen(
                [sys.executable, "-c", script],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "HURRAY_SOCKET": socket_path},
            )
            self.assertEqual(client.stdout.readline(), "holds\n")
        finally:
            daemon.terminate()
            daemon.wait()
        out, _ = client.communicate("\n", timeout=60)
        self.assertEqual(out, "Refused hurrayd ends b'abc'\n")


if __name__ == "__main__":
    unittest.main()
