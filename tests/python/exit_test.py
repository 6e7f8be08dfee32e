"""The interpreter's end, whatever is open and whatever daemon threads are doing just then."""

import pytest
from conftest import SANITIZED

OPEN = """
        published = client.allocate(1000, "int64")
        client.publish("end", published, on_release=lambda event: None, on_open=lambda event: None)
        tensor = client.attach("end")
        array, view, capsule = np.asarray(tensor), memoryview(tensor), tensor.__dlpack__()
        watch = client.watch("end")
        client.watch("", lambda event: time.sleep(0.001))
        unpublished = client.allocate(1000, "int64")
        second = hurray.connect()
        second.publish("second", np.zeros(3), copy=True)
"""


@pytest.mark.parametrize(
    "end",
    ["", "sys.exit(0)", "client.close()", "del client; gc.collect()", "del tensor", "second.close(); client.close()"],
)
def test_the_interpreter_ends_well_with_everything_open(run, end):
    assert run(OPEN + f"        {end}\n") == ""


def test_the_interpreter_ends_well_while_daemon_threads_wait(run):
    assert (
        run(
            """
            for wait in (
                lambda: client.attach("never", timeout=None),
                lambda: list(client.watch("never")),
                client.hold,
                lambda: hurray.connect("/nonexistent/hurrayd.sock", timeout=None),
            ):
                def call(wait=wait):
                    try:
                        wait()
                    except hurray.ClosedError:
                        pass
                threading.Thread(target=call, daemon=True).start()
            time.sleep(0.2)
            """
        )
        == ""
    )


def test_the_interpreter_ends_well_while_events_pour_in(run):
    assert (
        run(
            """
            seen = threading.Event()
            client.watch("", lambda event: seen.set())
            def pour():
                with hurray.connect() as mine:
                    while True:
                        try:
                            mine.publish("pour", np.zeros(1), copy=True)
                        except hurray.ClosedError:
                            return
            threading.Thread(target=pour, daemon=True).start()
            seen.wait(60)
            time.sleep(0.1)
            """
        )
        == ""
    )


DOING = {
    "looks at a tensor": "tensor.access, tensor.dtype, tensor.buffers, repr(tensor)",
    "makes views": "np.asarray(tensor), memoryview(tensor), np.from_dlpack(tensor), tensor.__array__()",
    "catches errors": """
try:
    closed.state
except hurray.ClosedError:
    pass
try:
    client.attach("absent")
except hurray.NotFoundError:
    pass
""",
    "goes on after errors": """
try:
    client.attach("absent")
except hurray.Error:
    pass
""",
    "attaches": "client.attach(name).close()",
    "connects": """
with hurray.connect() as mine, mine.attach(name):
    pass
""",
    "drops its client": "hurray.connect().attach(name)",
    "publishes": """
client.publish(None, client.allocate(10, "int8"), on_release=lambda event: event.name, on_open=lambda event: None)
client.publish(name + "/mine", np.zeros(3), copy=True, on_release=lambda event: event.name)
other.attach(name + "/mine").close()
""",
    "publishes groups": """
with client.group() as group:
    client.publish(name + "/grouped", np.zeros(3), copy=True, group=group)
client.publish_many({name + "/a": np.zeros(1), name + "/b": np.zeros(1)}, copy=True)
""",
    "takes": """
client.publish(name + "/jobs", np.zeros(3), copy=True, once=True, on_take=lambda event: None)
other.take(name + "/jobs", timeout=None).close()
""",
    "watches": """
with client.watch(name) as watch, client.watch(name, lambda event: event.name):
    watch.get()
""",
    "looks around": "client.list(), client.status()",
}


@pytest.mark.parametrize("doing", DOING)
def test_the_interpreter_ends_well_while_a_daemon_thread(program, doing):
    """Ended threads were unwound through C++ code, which ended the process by a signal."""
    script = """
        code = compile(sys.argv[1], "doing", "exec")
        other = hurray.connect()
        name = f"ends/{os.getpid()}"
        client.publish(name, np.zeros(10), copy=True)
        tensor, closed = other.attach(name), other.attach(name)
        closed.close()
        running = threading.Barrier(3)
        def work():
            exec(code)
            running.wait()
            try:
                while True:
                    exec(code)
            except hurray.Error:
                pass  # it is the end
        for _ in range(2):
            threading.Thread(target=work, daemon=True).start()
        running.wait()
        time.sleep(int(sys.argv[2]) / 1000)
    """
    programs = [program(script, DOING[doing], str(delay)) for delay in range(2 if SANITIZED else 3)]
    assert [each.finish() for each in programs] == [(0, "", "")] * len(programs)


def test_the_interpreter_ends_well_just_when_a_daemon_thread_closes_its_client(program):
    """Both of them destroyed it."""
    script = """
        import queue
        done = queue.SimpleQueue()
        def work():
            with hurray.connect() as mine:
                done.put(len(mine.list("nothing")))
        threading.Thread(target=work, daemon=True).start()
        done.get()
    """
    for _ in range(1 if SANITIZED else 3):
        programs = [program(script) for _ in range(4)]
        assert [each.finish() for each in programs] == [(0, "", "")] * len(programs)
