"""Several processes of one program: multiprocessing in each of its ways, fork without it, what can be sent and what not."""

import copy
import multiprocessing
import pickle
import subprocess
import sys

import hurray
import numpy as np
import pytest

# A file of its own: workers that are spawned import the main module again.
WORKERS = '''
import multiprocessing, os, sys, warnings
import numpy as np
import hurray

warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons: of a fork beside the client's thread

def sum_of(what):
    """In a worker: attaches by name, or by what list() or publish() told of a capsule."""
    with hurray.connect() as client, client.attach(what, timeout=60) as tensor:
        return os.getpid(), float(np.asarray(tensor).sum())

def publish(name):
    client = hurray.connect()
    array = client.allocate(10, "float64")
    array[:] = 3
    publication = client.publish(name, array)
    ready.wait()   # attached meanwhile
    publication.withdraw()
    assert publication.wait_ended(60)

def refused(what):
    with hurray.connect() as client:
        client.attach(what)

def start(barrier):
    global ready
    ready = barrier

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    client = hurray.connect(timeout=60)
    client.publish("shared", np.arange(1000.0), copy=True, on_release=lambda event: None)
    held = client.attach("shared")
    view = np.asarray(held)
    (entry,) = client.list("shared")
    barrier = context.Barrier(2)
    with context.Pool(2, start, (barrier,)) as pool:
        answers = pool.map(sum_of, ["shared", entry] * 4)
        assert {answer for _, answer in answers} == {499500.0}, answers
        assert os.getpid() not in {pid for pid, _ in answers}
        try:
            pool.apply(refused, ("absent",))
        except hurray.NotFoundError as error:  # came through a pipe
            print(type(error).__name__, error.status, "absent" in str(error))
        publishing = pool.apply_async(publish, ("from/worker",))
        with client.attach("from/worker", timeout=60) as tensor:
            print(np.asarray(tensor).sum())
        barrier.wait()
        publishing.get(60)
    print(client.list("shared")[0].leases, view.sum())  # the workers' are over, the parent's is not
'''


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_workers_attach_and_publish_however_they_start(tmp_path, method):
    file = tmp_path / "workers.py"
    file.write_text(WORKERS)
    ran = subprocess.run([sys.executable, file, method], capture_output=True, text=True, timeout=120)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.splitlines() == ["NotFoundError -32 True", "30.0", "1 499500.0"]


# case D6
def test_a_forked_child_that_drops_everything_leaves_the_parents_as_it_is(run):
    out = run(
        """
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        told = []
        publication = client.publish("kept", np.arange(1000), copy=True, on_release=told.append)
        tensor = client.attach("kept")
        array = np.asarray(tensor)
        watch = client.watch("kept")
        allocated = client.allocate(10, "int8")
        for end in ("del", "close", "nothing", "_exit"):
            child = os.fork()
            if child == 0:
                assert array.sum() == 499500
                if end == "del":
                    del tensor, array, watch, allocated, publication
                    gc.collect()
                    del client
                    gc.collect()
                elif end == "close":
                    tensor.close()
                    watch.close()
                    client.close()
                elif end == "_exit":
                    os._exit(0)
                sys.exit(0)
            assert os.waitpid(child, 0)[1] == 0, end
        print(client.list("kept")[0].leases, told, publication.ended, watch.get(60).kind)
        allocated[:] = 1
        client.publish("filled", allocated)
        print(np.asarray(client.attach("filled")).sum(), array.sum())
        """
    )
    assert out.splitlines() == ["1 [] False present", "10 499500"]


def test_every_call_of_a_forked_child_says_forked(run):
    out = run(
        """
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        publication = client.publish("mine", np.zeros(1), copy=True)
        allocated = client.allocate(10, "int8")
        watch = client.watch()
        child = os.fork()
        if child == 0:
            for call in (
                lambda: client.attach("mine"),
                lambda: client.list(),
                lambda: client.publish("x", allocated),
                lambda: client.publish("x", np.zeros(1), copy=True),
                lambda: client.allocate(1, "int8"),
                lambda: client.status(),
                lambda: client.watch(),
                lambda: publication.withdraw(),
                lambda: publication.wait_ended(),
                lambda: [watch.get() for _ in range(3)],
                lambda: client.hold(),
            ):
                try:
                    call()
                    print("returned")
                except hurray.ForkedError as error:
                    assert "connect again in the child" in str(error), error
            print("said", flush=True)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        print(client.attach("mine").shape)
        """
    )
    assert out.splitlines() == ["said", "(1,)"]


def test_what_can_be_sent_to_another_process_and_what_not(client, other):
    publication = client.publish("sent", np.arange(3), copy=True)
    (entry,) = client.list("sent")
    assert np.asarray(other.attach(pickle.loads(pickle.dumps(entry)))).tolist() == [0, 1, 2]
    error = pickle.loads(pickle.dumps(hurray.NotFoundError("gone", -32)))
    assert isinstance(error, hurray.NotFoundError) and (str(error), error.status) == ("gone", -32)
    for handle, way in (
        (client, "connect there"),
        (client.attach("sent"), "attach it there"),
        (publication, "attach it there"),
        (client.watch("sent"), "watch there"),
    ):
        for send in (pickle.dumps, copy.deepcopy):
            with pytest.raises(TypeError, match=f"{type(handle).__name__}.* {way}"):
                send(handle)
