"""docs/errors.md tells what users see: each status through hurrayctl, the C library and the Python package.

A daemon that answers every request with one status stands in for one that refuses; the clients are the real ones.

usage: errors_test.py ROOT HURRAYCTL [LIBHURRAY LIBHURRAY_CLIENT]     with broker_pb2 in PYTHONPATH; also the package
                                                                     `hurray`, where it was built
"""

import ctypes
import importlib.util
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import threading

import broker_pb2 as pb

root = pathlib.Path(sys.argv[1])
hurrayctl = sys.argv[2]
libraries = sys.argv[3:]
problems = []


def check(condition, problem):
    if not condition:
        problems.append(problem)


class Refuser:
    """A daemon that greets, and then refuses whatever is asked."""

    def __init__(self, path):
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(path)
        self.listener.listen(64)
        self.status = 0
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            threading.Thread(target=self.serve, args=(self.listener.accept()[0],), daemon=True).start()

    def serve(self, peer):
        limits = pb.Limits(packet_bytes=65536, packet_fds=253, descriptor_bytes=32768, unacked_releases=4096)
        while data := peer.recv(65536):
            request = pb.Request.FromString(data)
            packet = pb.Packet(request_id=request.request_id)
            if request.HasField("hello"):
                packet.hello.CopyFrom(pb.HelloReply(version=1, instance=bytes(16), limits=limits))
            else:
                packet.error.CopyFrom(pb.Error(status=self.status, message=f"the reason for {self.status}".encode()))
            peer.send(packet.SerializeToString())


# ---- The table ------------------------------------------------------------------------------------------------------

text = (root / "docs/errors.md").read_text(encoding="utf-8")
row = re.compile(r"^\| (-\d+) \| `(\w+)` \| `(\w+)`(?: \(`(\w+)`\))? \| (\d) \| (.+) \|$", re.MULTILINE)
rows = {int(number): (name, cls, builtin, int(code)) for number, name, cls, builtin, code, _ in row.findall(text)}
header = (root / "libhurray/include/hurray.h").read_text(encoding="utf-8")
statuses = {int(number): name for name, number in re.findall(r"^#define HURRAY_ERR_(\w+) \((-\d+)\)", header, re.MULTILINE)}
check(statuses and {number: each[0] for number, each in rows.items()} == statuses, "the table's statuses are not hurray.h's")

spec = importlib.util.spec_from_file_location("_errors", root / "bindings/python/hurray/_errors.py")
errors = importlib.util.module_from_spec(spec)
spec.loader.exec_module(errors)
for number, (name, cls, builtin, _) in rows.items():
    raised = errors.BY_STATUS.get(number, errors.Error)
    check(raised.__name__ == cls, f"{name}: the package raises {raised.__name__}")
    check(not builtin or issubclass(raised, getattr(__builtins__, builtin)), f"{name}: {cls} is no {builtin}")

# ---- The clients ----------------------------------------------------------------------------------------------------

with tempfile.TemporaryDirectory() as directory:
    path = os.path.join(directory, "refuses.sock")
    refuser = Refuser(path)

    for number, (name, _, _, code) in rows.items():
        refuser.status = number
        ran = subprocess.run([hurrayctl, "--socket", path, "list"], capture_output=True, text=True, timeout=60)
        check(ran.returncode == code, f"{name}: hurrayctl ends with {ran.returncode}, not {code}")
        check(f"the reason for {number}" in ran.stderr, f"{name}: hurrayctl says {ran.stderr!r}")
        check("hurray_" not in ran.stderr and "HURRAY_ERR" not in ran.stderr, f"{name}: hurrayctl shows {ran.stderr!r}")

    if libraries:
        base, client_library = (ctypes.CDLL(library) for library in libraries)
        base.hurray_last_error_message.restype = ctypes.c_char_p
        base.hurray_status_string.restype = ctypes.c_char_p
        os.environ["HURRAY_SOCKET"] = path
        client = ctypes.c_void_p()
        check(client_library.hurray_client_connect(None, ctypes.byref(client)) == 0, "C can't connect")
        callback = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(lambda *_: 0)
        for number, (name, *_) in rows.items():
            refuser.status = number
            check(base.hurray_status_string(number) == f"HURRAY_ERR_{name}".encode(), f"{name}: hurray_status_string")
            said = client_library.hurray_client_list(client, None, callback, None)
            check(said == number, f"{name}: C returns {said}")
            message = base.hurray_last_error_message().decode()
            check(message == f"hurray_client_list: the reason for {number}", f"{name}: C says {message!r}")
        client_library.hurray_client_destroy(ctypes.byref(client))

    if importlib.util.find_spec("hurray") is not None:
        import hurray

        with hurray.connect(path) as python:
            for number, (name, cls, _, _) in rows.items():
                refuser.status = number
                try:
                    python.list()
                    problems.append(f"{name}: Python raises nothing")
                except hurray.Error as error:
                    check(type(error) is getattr(hurray, cls), f"{name}: Python raises {type(error).__name__}")
                    check(str(error) == f"the reason for {number}", f"{name}: Python says {error}")
                    check(error.status == number, f"{name}: the exception's status is {error.status}")

# ---- What the page shows is what is shown ---------------------------------------------------------------------------

environment = {**os.environ, "PATH": f"{os.path.dirname(hurrayctl)}:{os.environ['PATH']}"}
environment.pop("HURRAY_SOCKET", None)
shown = 0
for block in re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
    for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
        ran = subprocess.run(["sh", "-c", f"{command} 2>&1"], capture_output=True, text=True, timeout=60, env=environment)
        check(ran.stdout == expected, f"`{command}` says {ran.stdout!r}")
        shown += 1
check(shown >= 5, f"only {shown} commands were found")

print(*problems, sep="\n")
print(f"{len(rows)} statuses, {shown} commands")
sys.exit(1 if problems else 0)
