"""What somebody reads who does something wrong for the first time: it names the thing and says what to do."""

import os
import re
import socket
import threading
import weakref

import hurray
import numpy as np
import pytest

NAMES = {
    "camera/": 'the name "camera/" ends in "/", as only patterns do',
    "/camera": 'the name "/camera" begins with "/"',
    "a//b": "an empty segment at position 2",
    "a/../b": 'is no path: it has a segment ".."',
    "": "the name is empty",
    "n" * 256: "256 bytes; at most 255",
}


def refusal_of(call):
    """The text of what `call` raises, which is an error of the package and shows nothing of the C API."""
    with pytest.raises(hurray.Error) as caught:
        call()
    text = str(caught.value)
    assert not re.search(r"hurray_\w+:|HURRAY_ERR|options->", text)
    return text


@pytest.mark.parametrize("name", NAMES, ids=lambda name: repr(name[:10]))
def test_a_name_that_is_none_is_told_why(client, name):
    assert NAMES[name] in refusal_of(lambda: client.attach(name))
    if name:
        assert NAMES[name] in refusal_of(lambda: client.publish(name, np.zeros(1), copy=True))


def test_what_is_not_there_is_named_with_the_version_asked_for(client):
    version = client.publish("there", np.zeros(1), copy=True).version
    assert 'nothing under the name "absent"' in refusal_of(lambda: client.attach("absent"))
    newer = f'no version above {version} under the name "there"'
    assert newer in refusal_of(lambda: client.attach("there", newer_than=version))
    assert newer + " came in time" in refusal_of(lambda: client.attach("there", newer_than=version, timeout=0.001))
    assert "'absent'" in refusal_of(lambda: client.withdraw("absent"))


def test_versions_are_numbers_and_any_is_newer_than_0(client):
    client.publish("numbered", np.zeros(1), copy=True)
    assert client.attach("numbered", newer_than=0).shape == (1,)
    assert client.attach("numbered", newer_than=np.int64(1)).shape == (1,)
    assert "newer_than is -1: it must be from 0 to 2**64 - 1" in refusal_of(lambda: client.attach("x", newer_than=-1))
    assert "version is 0: it must be from 1 to 2**64 - 1" in refusal_of(lambda: client.attach("x", version=0))
    assert "version 5 and newer_than 6 are both given" in refusal_of(lambda: client.attach("x", version=5, newer_than=6))
    with pytest.raises(TypeError, match="newer_than must be an int, not str"):
        client.attach("x", newer_than="1")


def test_memory_that_is_not_shared_is_told_the_two_ways(client):
    for array in (np.zeros(3), [1, 2, 3]):
        text = refusal_of(lambda: client.publish("x", array))
        assert "not in shared memory" in text and "client.allocate()" in text and "copy=True" in text


def test_element_types_that_do_not_go_are_named_with_those_that_do(client):
    assert "NumPy's bool takes a byte an element" in refusal_of(lambda: client.allocate(3, "bool"))
    assert "'>f4' is of the other byte order" in refusal_of(lambda: client.allocate(3, ">f4"))
    assert "int4 is packed" in refusal_of(lambda: client.allocate(3, "int4"))
    text = refusal_of(lambda: client.publish("x", np.array([None]), copy=True))
    assert "dtype object" in text and "float32" in text and "uint8" in text


def test_more_memory_than_there_is_gives_both_numbers(client):
    assert re.search(r"reserve 8796093022208 bytes .*: \d+ bytes are available", refusal_of(lambda: client.allocate(2**40, "f8")))


def test_a_daemon_that_is_not_there_is_told_how_to_start(tmp_path):
    path = tmp_path / "none.sock"
    text = refusal_of(lambda: hurray.connect(path))
    assert str(path) in text and "hurrayd is not running" in text and "hurrayctl run --" in text
    path.write_text("not a socket")
    assert "but a regular file: is the address right?" in refusal_of(lambda: hurray.connect(path))


def test_a_socket_that_admits_others_is_told_who(tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root is never refused")
    path = tmp_path / "hurrayd.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        listener.listen()
        path.chmod(0o060)
        with pytest.raises(PermissionError, match="sudo usermod -aG .* log in again") as caught:
            hurray.connect(path)
        assert isinstance(caught.value, hurray.PermissionError) and str(path) in str(caught.value)
        path.chmod(0)
        with pytest.raises(hurray.PermissionError, match="admits nobody else"):
            hurray.connect(path)


def test_an_address_that_is_empty_is_told_so():
    assert "address is empty" in refusal_of(lambda: hurray.connect(""))


def test_a_finalizer_may_close_the_client_while_it_books_a_publication(client):
    """The collector runs at any allocation, also where the client held its own lock: the program hung for ever."""

    class ClosesWhenAddedTo(weakref.WeakSet):
        def add(self, item):
            client.close()
            super().add(item)

    client._publications = ClosesWhenAddedTo()
    publishing = threading.Thread(target=lambda: client.publish("booked", np.zeros(1), copy=True), daemon=True)
    publishing.start()
    publishing.join(60)
    assert not publishing.is_alive() and client.closed
