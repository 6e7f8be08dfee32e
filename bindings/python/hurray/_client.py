"""Clients, publications, watches: the package's interface over the extension module."""

from __future__ import annotations

import atexit
import contextlib
import json
import math
import os
import queue
import threading
import weakref
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from . import _arguments, _arrays, _hurray
from ._access import Access, access_numbers
from ._errors import (
    ClosedError,
    ConnectionLostError,
    ForkedError,
    InvalidArgumentError,
    NotFoundError,
    TimeoutError,
)

_BETWEEN_LOOKS_S = 0.2  # where two events are waited for, of which Python can wait for one
_REUSABLE = 1  # HURRAY_EVENT_FLAG_REUSABLE
_KINDS = {  # HURRAY_EVENT_*
    2: "opened",
    3: "released",
    4: "lost",
    5: "taken",
    6: "ended",
    7: "present",
    8: "snapshot-end",
    9: "published",
    10: "retired",
    11: "producer-lost",
    12: "gap",
}


class Event(NamedTuple):
    """Something that happened to a capsule.

    Told to `on_release`, `on_open`, `on_take`: "opened", "released", "lost" (a consumer's connection ended without a release),
    "taken", with `remaining` leases. Told to a watch: "present", "snapshot-end", "published", "retired" (withdrawn, replaced, taken or
    expired), "producer-lost", and "gap": some were left out, since too many waited to be told, or the daemon was restarted. Newer daemons may
    have more kinds.
    """

    kind: str
    name: str
    capsule: str
    version: int
    remaining: int


class Capsule(NamedTuple):
    """A published tensor, as `list` shows it. `shape` and `dtype` are None if its descriptor is of a newer kind.

    `immutable`: nobody can change a byte of it, its producer neither. `unsealed`: it lies in a dma-buf, which others may
    write to while it is read. `lingering`: it outlives its producer. `producer_gone`: that has left; then `expires` says in how many
    seconds it retires unless the producer comes back, None: it does not.
    """

    name: str
    version: int
    shape: tuple[int, ...] | None
    dtype: str | None
    nbytes: int
    leases: int
    capsule: str
    retired: bool
    access: Access
    immutable: bool = False
    unsealed: bool = False
    once: bool = False
    lingering: bool = False
    producer_gone: bool = False
    expires: float | None = None


def connect(address=None, *, timeout=0.0, name=None, reconnect=None, on_connection=None) -> Client:
    """Connect to the daemon.

    Without `address` (the path of its socket): $HURRAY_SOCKET, else the user's own daemon, else the system's. `timeout`
    says how many seconds to keep trying while no daemon listens: 0 tries once, None for ever. `name` is a label that
    people see in the daemon's listings.

    When the daemon is restarted, the client reconnects and brings back what was published and attached; `reconnect` says for how many
    seconds it tries each time: None for ever, 0 not at all. `on_connection`, if given, is called on a thread of the client's with "away",
    then "back", or with "lost" when it is over.
    """
    return Client(address, timeout=timeout, name=name, reconnect=reconnect, on_connection=on_connection)


def hold(stop=None) -> None:
    """Block until Ctrl-C, or until `stop` (a threading.Event) is set: a publication ends with its program."""
    _check_stop(stop)
    try:
        (stop or threading.Event()).wait()
    except KeyboardInterrupt:
        pass


def _check_stop(stop) -> None:
    if stop is not None and not (hasattr(stop, "wait") and hasattr(stop, "is_set")):
        raise TypeError(f"stop must be a threading.Event, or None, not {type(stop).__name__}")


class Publication:
    """A capsule of this program. It can be attached until it is withdrawn, replaced, or, unless it lingers, its client is closed.

    The publication does not end with this object, but it keeps the client alive, and a client that nothing refers to
    any more is closed. `version` is 0 while it waits for its group to be committed.
    """

    def __init__(self, client: Client, name: str | None, state: _PublicationState, capsule: str, version: int):
        self._client = client
        self._state = state
        self.name = name or ""
        self.capsule = capsule
        self.version = version

    @property
    def ended(self) -> bool:
        """Whether it is over: it was retired, and the last consumer has let go of it or was lost."""
        return self._state.ended

    @property
    def taken(self) -> bool:
        """Whether it was published `once` and somebody has taken it; still False once it has `ended`: nobody did."""
        return self._state.taken

    @property
    def reusable(self) -> bool:
        """Whether its memory may be written again: it has ended, nobody can be reading it, and it is not immutable.

        Of interest for `publish_fds`: what `allocate` gave is used again by itself.
        """
        return self._state.reusable

    def withdraw(self) -> None:
        """Let nobody attach it any more. Those who hold it go on reading."""
        self._client.withdraw(self)

    def wait_ended(self, timeout=None) -> bool:
        """Wait until it has ended; False if `timeout` seconds ran out first.

        ClosedError or ConnectionLostError if that can't be known any more.
        """
        self._client._wait(self._state.done, timeout)
        if self._state.ended:
            return True
        if self._state.done.is_set():
            self._client._raise_gone()
        return False

    def __reduce__(self):
        raise TypeError("a Publication can't be copied or sent to another process: attach it there, by its name")

    def __repr__(self) -> str:
        return f"<hurray.Publication {self.name!r} version {self.version}{', ended' if self.ended else ''}>"


class _PublicationState:
    """What events of a capsule change. The client's thread calls `on_event`; refers to no client, so that a client
    with publications is not kept alive by them."""

    def __init__(self, on_release, on_open, on_take=None):
        self.on_release = _arguments.callback("on_release", on_release)
        self.on_open = _arguments.callback("on_open", on_open)
        self.on_take = _arguments.callback("on_take", on_take)
        self.taken = False
        self.ended = False
        self.reusable = False
        self.done = threading.Event()

    def on_event(self, kind, status, capsule, version, remaining, flags, name):
        event = _event(kind, capsule, version, remaining, name)
        if event.kind == "ended":
            self.reusable = bool(flags & _REUSABLE)
            self.ended = True
            self.done.set()
        elif event.kind == "opened":
            if self.on_open is not None:
                self.on_open(event)
        elif event.kind == "taken":
            self.taken = True
            if self.on_take is not None:
                self.on_take(event)
        elif self.on_release is not None:
            self.on_release(event)


class Group:
    """Publications that others see all at once or not at all; from `Client.group`.

    A context manager: leaving it commits the group, an exception aborts it. Until then nobody can attach, list or watch
    what was published into it.
    """

    def __init__(self, client: Client):
        self._client = client
        self._publications: list[Publication] = []
        self._number = client._core.begin_group()

    @property
    def open(self) -> bool:
        """Whether it was neither committed nor aborted yet."""
        return self._number != 0

    def commit(self) -> None:
        """Let others see all of it, at once. Each publication learns its `version`.

        AlreadyExistsError if a name has become another user's meanwhile: nothing is seen then, and the group is still open.
        """
        self._client._core.end_group(self._use(), True)
        self._number = 0
        for publication in self._publications:
            try:
                publication.version = self._client._core.published_version(publication.capsule)
            except (ClosedError, NotFoundError):
                pass  # it has ended by now: replaced, or with its client
        self._publications = []

    def abort(self) -> None:
        """Let go of all of it: its publications end. Once the group has ended this does nothing."""
        number, self._number, self._publications = self._number, 0, []
        if number:
            try:
                self._client._core.end_group(number, False)
            except (ClosedError, ConnectionLostError, ForkedError, NotFoundError):
                pass  # it ended with its client, or is the parent process's

    def _use(self) -> int:
        if not self._number:
            raise InvalidArgumentError("the group was committed or aborted")
        return self._number

    def __reduce__(self):
        raise TypeError("a Group can't be copied or sent to another process: it is its client's")

    def __enter__(self) -> Group:
        return self

    def __exit__(self, kind, *exc) -> None:
        try:
            if kind is None and self.open:
                self.commit()
        finally:
            self.abort()

    def __repr__(self) -> str:
        return f"<hurray.Group of {len(self._publications)}{'' if self.open else ', ended'}>"


class Watch:
    """What happens to the capsules that match a pattern; from `Client.watch`.

    Without a callback it is an iterator of events, which ends when it or the client is closed and raises
    ConnectionLostError when the client has given up reaching the daemon. It is also a context manager.
    """

    _END = object()

    def __init__(self, client: Client, pattern: str, callback):
        self._client = client
        self._events = queue.SimpleQueue() if callback is None else None
        self._closed = False
        number: list[int] = []
        listener = _listener(callback) if callback is not None else self._queueing(number)
        number.append(client._core.watch(pattern, listener))
        self._number = number[0]
        with client._lock:
            client._watches.add(self)
            if client._gone.is_set():  # it was told to those who were there
                self._wake()

    def _queueing(self, number):
        # Refers to the watch weakly: one that was dropped without close() ends itself at the next event.
        this, core = weakref.ref(self), weakref.ref(self._client._core)

        def on_event(kind, status, capsule, version, remaining, flags, name):
            watch = this()
            if watch is not None:
                watch._events.put(_event(kind, capsule, version, remaining, name))
            elif number and (client := core()) is not None:
                _unwatch(client, number[0])

        return on_event

    def close(self) -> None:
        """End the watch. Once this has returned its callback does not run any more."""
        if self._closed:
            return
        self._closed = True
        with self._client._lock:
            self._client._watches.discard(self)
        try:
            _unwatch(self._client._core, self._number)
        finally:
            self._wake()

    def get(self, timeout=None) -> Event:
        """The next event, after waiting up to `timeout` seconds. TimeoutError; ClosedError once it is closed."""
        if self._events is None:
            raise InvalidArgumentError("a watch with a callback is no iterator")
        seconds = _arguments.seconds("timeout", timeout)
        self._client._check_process()
        try:
            item = self._events.get(seconds != 0, seconds)
        except queue.Empty:
            raise TimeoutError("no event within the timeout") from None
        if item is self._END:
            self._events.put(item)  # for the next one who asks
            if self._closed:
                raise ClosedError("the watch is closed")
            self._client._raise_gone()
        return item

    def __reduce__(self):
        raise TypeError("a Watch can't be copied or sent to another process: watch there")

    def __iter__(self) -> Watch:
        return self

    def __next__(self) -> Event:
        try:
            return self.get()
        except ClosedError:
            raise StopIteration from None

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *exc) -> None:
        self.close()

    def _wake(self) -> None:
        if self._events is not None:
            self._events.put(self._END)


class Client:
    """One connection to the daemon. Any thread may use it at any time. A context manager: leaving it closes it."""

    def __init__(self, address=None, *, timeout=0.0, name=None, reconnect=None, on_connection=None):
        self._watches: weakref.WeakSet[Watch] = weakref.WeakSet()
        self._publications: weakref.WeakSet[_PublicationState] = weakref.WeakSet()
        self._lock = threading.RLock()  # of the two sets; a finalizer may close the client at any allocation
        self._gone = threading.Event()  # closed, or the connection has ended
        self._process = os.getpid()
        this = weakref.ref(self)

        def on_change(state):
            client = this()
            if client is not None and state == "lost":
                client._wake_all()
            if on_connection is not None:
                on_connection(state)

        if address is not None:
            address = _arguments.path("address", address)
            if not address:
                raise InvalidArgumentError("address is empty: give the path of the daemon's socket, or None to look for it")
        name = None if name is None else _arguments.text("name", name)
        reconnect_ms = _arguments.milliseconds("reconnect", reconnect)
        _arguments.callback("on_connection", on_connection)
        self._core = _hurray.Client(address, name, _arguments.milliseconds("timeout", timeout), reconnect_ms, on_change)

    # -- Producing ----------------------------------------------------------------------------------------------------

    def allocate(self, shape, dtype, *, zeroed=True, immutable=False, access=None) -> np.ndarray:
        """A zeroed, writable array in shared memory, to be filled and passed to `publish`.

        Its memory, and so the array and its views, stays valid as long as any of them exists. `dtype` is what NumPy
        takes, or the name of one of ml_dtypes' types ("bfloat16", "float8_e4m3", ...).

        Memory is used again once its publication has ended, nobody can be reading it any more, and no array shows it. With
        `zeroed=False` the array may then hold what this client published in it before, which saves the time of clearing
        for who writes every element anyway.

        With `immutable=True` publishing seals it: after that nobody can change a byte of it, this program neither, and its
        memory is never used again. For what is read long and by many, such as a model. Writing through a view that was made
        before `publish` then ends the program (SIGSEGV). A forked child that has it mapped must end first:
        InvalidArgumentError.

        `access` says who may read what is published in it: an Access, or its mode, as in `access=0o640`. None: what the daemon is configured
        with, by default this user alone. Memory keeps its access for life, since who has mapped it sees what is written there later.
        """
        dtype = _arrays.to_dtype(dtype)
        _arrays.element_type_of(dtype)
        shape = _arguments.shape(shape)
        byte_size = math.prod(shape) * dtype.itemsize
        if byte_size >= 2**63:
            raise InvalidArgumentError(f"shape {shape} of {dtype} takes {byte_size} bytes, which no machine has")
        core = self._core.allocate(byte_size, bool(zeroed), access_numbers(access), bool(immutable))
        return _arrays.new_array(core, shape, dtype)

    def group(self) -> Group:
        """Begin a group: what is published into it is there all at once, when it is committed.

            with client.group() as group:
                for name, array in model.items():
                    client.publish(name, array, group=group)

        `publish_many` does the same for arrays that are all there.
        """
        return Group(self)

    def publish(
        self,
        name,
        array,
        *,
        copy=False,
        immutable=False,
        group=None,
        access=None,
        retain=1,
        once=False,
        linger=False,
        timeout=0.0,
        on_release=None,
        on_open=None,
        on_take=None,
    ) -> Publication:
        """Publish `array` under `name`, replacing what was published there; `None` names it by its capsule id only.

        An array that came from this client's `allocate`, or any view of one, is published as it is, without a copy:
        consumers map the very same memory. It turns read-only then, and so does the array that `allocate` returned.
        Other views of it that were made before stay writable: don't use them, consumers see every byte.

        Any other array needs `copy=True`, which copies it into shared memory first; with `immutable=True` into memory that
        nobody can change any more. (What is not copied is immutable if it was allocated so.)

        With a `group` of this client it is there only once that is committed. All of a group linger, or none of it.

        `retain` says how many versions of the name stay attachable, this one included.

        With `once` it replaces nothing: it queues behind its name, for one client to `take` it. A taker that dies before
        it has it leaves it to the next one; what nobody takes ends with this client. `on_take` tells that somebody has it: from then on it
        is not handed out again. Its last event is "released" if its taker has let go of it, "lost" if it has died: publish it again then.

        With `linger` it stays when this client is gone: True until it is withdrawn or replaced, a number for so many seconds.

        `timeout` says how many seconds to wait for the daemon while it is being restarted: 0 raises ConnectionLostError at once, None
        waits until it is back. Ctrl-C ends the wait.

        `access` is for a copy: who may read it, as for `allocate`. Of an array that came from there it is what that was allocated for.

        `on_release(event)` is called each time a consumer lets go, `on_open(event)` each time one attaches, `on_take(event)`
        when one has taken it, on a thread of the client's; exceptions in them go to sys.unraisablehook.
        """
        state = _PublicationState(on_release, on_open, on_take)
        name = None if name is None else _arguments.text("name", name)
        array, dense, allocation = _laid_out(array, copy)
        terms = self._terms(state, group, access, retain, once, linger, timeout)
        if allocation is None:
            published = self._core.publish_copy(name, dense, _arrays.address_of(array), array.nbytes, terms, bool(immutable))
        elif immutable:
            raise InvalidArgumentError("immutable=True is for copy=True; else say it to client.allocate()")
        else:
            with _showing_what_is_sealed([(array, allocation)]):
                published = self._core.publish(name, dense, allocation, terms)
        return self._published(name, array, allocation, state, published, group)

    def publish_fds(
        self,
        name,
        fds,
        shape=None,
        dtype=None,
        *,
        descriptor=None,
        placements=None,
        group=None,
        access=None,
        retain=1,
        once=False,
        linger=False,
        timeout=0.0,
        on_release=None,
        on_open=None,
        on_take=None,
    ) -> Publication:
        """Publish memory that this program has made itself, without a copy: sealed memfds, or dma-bufs.

        `fds` is a descriptor of a file, something with `fileno()`, or a list of them; they stay the caller's and may be closed at
        once. What lies in them: a row-major array of `shape` and `dtype`, or whatever an encoded `descriptor` says, whose buffer
        i is in `fds[placements[i][0]]` from byte `placements[i][1]` on. Without `placements` each buffer begins a descriptor of
        its own.

        A memfd needs all of its pages reserved (`os.posix_fallocate`) and the seals SHRINK, GROW, SEAL and, to be written again
        through a mapping made before, FUTURE_WRITE; or WRITE, to be immutable. A dma-buf has no seals, so it goes only to those
        who `attach(..., allow_unsealed=True)`. Anything else is refused: InvalidArgumentError says what is missing.

        `access` says who may read it, as in `allocate`; one file has one access for as long as something lies in it. `group`, `retain`,
        `once`, `linger`, `timeout` and the callbacks are as for `publish`.

        Nobody may write to it before the publication has ended and is `reusable`.
        """
        name = None if name is None else _arguments.text("name", name)
        if (descriptor is None) == (shape is None) or (shape is None) != (dtype is None):
            raise InvalidArgumentError("say shape and dtype, or descriptor, for what lies in the memory")
        if descriptor is None:
            dtype = _arrays.to_dtype(dtype)
            descriptor = _hurray.encode_dense(_arrays.row_major(_arguments.shape(shape), dtype))
        else:
            descriptor = _arguments.bytes_like("descriptor", descriptor)
        numbers = _arguments.file_descriptors(fds)  # `fds` stays: an object that only the caller's list held would close its file
        state = _PublicationState(on_release, on_open, on_take)
        published = self._core.publish_fds(
            name,
            descriptor,
            numbers,
            _arguments.placements(placements),
            self._terms(state, group, access, retain, once, linger, timeout),
        )
        return self._published(name, None, None, state, published, group)

    def publish_many(self, arrays, *, copy=False, group=None, access=None, on_release=None, on_open=None) -> dict[str, Publication]:
        """Publish a whole model, all of it at once or not at all, in a small part of the time that `publish` of each takes.

        `arrays` maps names to arrays, at most 4,096; see `publish` for what they may be, and for the rest. Without a `group` they
        are a group of their own: consumers see all of them at once when this returns, and none of them if it raises. With one
        of this client's they are there once that is committed; abort it if this raises. Arrays of `allocate` may have been
        taken by a call that raises: they stay readable, and can be published with `copy=True`.
        """
        if not isinstance(arrays, Mapping):
            raise TypeError(f"arrays must be a mapping of names to arrays, not {type(arrays).__name__}")
        if group is None:
            with self.group() as group:
                return self.publish_many(
                    arrays, copy=copy, group=group, access=access, on_release=on_release, on_open=on_open
                )
        number = self._number_of(group)
        batch, items = [], []
        for name, array in arrays.items():
            state = _PublicationState(on_release, on_open)
            array, dense, allocation = _laid_out(array, copy)
            address = _arrays.address_of(array) if allocation is None else 0
            batch.append((name, array, allocation, state))
            items.append(_hurray.ToPublish(_arguments.text("name", name), dense, allocation, address, array.nbytes, state.on_event))
        with _showing_what_is_sealed([(array, allocation) for _, array, allocation, _ in batch]):
            published = self._core.publish_many(
                items, (on_open is not None, on_release is not None), number, access_numbers(access)
            )
        return {
            name: self._published(name, array, allocation, state, told, group)
            for (name, array, allocation, state), told in zip(batch, published, strict=True)
        }

    def _terms(self, state, group, access, retain, once, linger, timeout) -> _hurray.PublishTerms:
        wanted = (state.on_open is not None, state.on_release is not None or bool(once))
        return _hurray.PublishTerms(
            state.on_event,
            wanted,
            self._number_of(group),
            access_numbers(access),
            min(_arguments.integer("retain", retain, 1), 2**64 - 1),  # the library says at how many it ends
            bool(once),
            _arguments.linger_ms(linger),
            _arguments.milliseconds("timeout", timeout),
        )

    def _number_of(self, group) -> int:
        if group is None:
            return 0
        if not isinstance(group, Group):
            raise TypeError(f"group must be a Group, not {type(group).__name__}")
        if group._client is not self:
            raise InvalidArgumentError("the group is another client's")
        return group._use()

    def _published(self, name, array, allocation, state, published, group) -> Publication:
        if allocation is not None:
            _arrays.make_read_only(array, allocation)
        with self._lock:
            self._publications.add(state)
            if self._gone.is_set():  # it was told to those who were there
                state.done.set()
        publication = Publication(self, name, state, *published)
        if group is not None:
            group._publications.append(publication)
        return publication

    def withdraw(self, what) -> None:
        """Retire a capsule: nobody can attach it any more, those who hold it go on reading.

        `what` is a Publication, a Capsule, a Tensor, or a name: its newest version then.
        """
        capsule = getattr(what, "capsule", None)
        if capsule is None:
            name = _arguments.text("name", what)
            found = [entry for entry in self.list(name) if entry.name == name and not entry.retired]
            if not found:
                raise NotFoundError(f"there is no capsule named {name!r}")
            capsule = max(found, key=lambda entry: entry.version).capsule
        self._core.withdraw(capsule)

    # -- Consuming ----------------------------------------------------------------------------------------------------

    def attach(
        self, what, *, timeout=0.0, version=None, newer_than=None, immutable_only=False, allow_unsealed=False
    ) -> _hurray.Tensor:
        """Attach a published tensor: read-only, without a copy.

        `what` is a name, or a Capsule or Publication for exactly that one. Of a name, the newest version is taken, or
        `version`, or the first that is newer than `newer_than` (0: any). `timeout` says how many seconds to wait for it to be
        published: 0 raises NotFoundError at once, None waits for ever; TimeoutError once it has run out. Ctrl-C ends
        the wait.

        What memory it lies in does not decide which version that is: with `immutable_only=True` one that its producer may
        write to again is refused, without `allow_unsealed=True` one in a dma-buf, which others may write to while it is read:
        UnsupportedError, at once or when that version comes.
        """
        capsule = getattr(what, "capsule", None)
        name = _arguments.text("name", what) if capsule is None else None
        milliseconds = _arguments.milliseconds("timeout", timeout)
        return self._core.attach(
            name,
            capsule,
            _arguments.version("version", version, 1),
            _arguments.version("newer_than", newer_than, 0),
            milliseconds,
            bool(immutable_only),
            bool(allow_unsealed),
        )

    def attach_many(
        self, what, *, timeout=0.0, immutable_only=False, allow_unsealed=False
    ) -> list[_hurray.Tensor]:
        """Attach several published tensors, all of them or none, in a small part of the time that `attach` of each takes.

        `what` are names, Capsules and Publications, each as for `attach`; the tensors come in that order. `timeout` is for
        all of them together; `immutable_only` and `allow_unsealed` are for each, as for `attach`. What is raised names the first that could not be had; none is held then.
        """
        if isinstance(what, str) or not hasattr(what, "__iter__"):
            raise TypeError(f"what must be several, as [{what!r}] is")
        wanted = []
        for one in what:
            capsule = getattr(one, "capsule", None)
            wanted.append((_arguments.text("name", one) if capsule is None else None, capsule))
        return self._core.attach_many(wanted, _arguments.milliseconds("timeout", timeout), bool(immutable_only), bool(allow_unsealed))

    def take(self, what, *, timeout=0.0) -> _hurray.Tensor:
        """Take what was published `once`: the oldest under a name, for this client alone.

            while True:
                with client.take("jobs", timeout=None) as job:
                    work(job)

        The producer is told that it is done when the tensor is closed and the last view of it is gone: let none outlive `work`.

        `what` and `timeout` are as for `attach`; a Capsule or Publication is taken itself, whatever is queued before it. If
        this program dies before the call returns, the next taker gets it; from then on it is this program's alone.
        """
        capsule = getattr(what, "capsule", None)
        name = _arguments.text("name", what) if capsule is None else None
        return self._core.take(name, capsule, _arguments.milliseconds("timeout", timeout))

    # -- Looking around -----------------------------------------------------------------------------------------------

    def list(self, pattern="") -> list[Capsule]:
        """The capsules that this user may read. `pattern`: a name, a prefix that ends in "/", or "" for all."""
        return [
            Capsule(*entry, Access(*access), *kinds, expires_ms / 1000 if expires_ms else None)
            for *entry, access, (kinds, expires_ms) in self._core.list(_arguments.text("pattern", pattern))
        ]

    def watch(self, pattern="", callback=None) -> Watch:
        """What there is ("present", then "snapshot-end"), and from then on what changes.

        Without `callback` the result is an iterator: `for event in client.watch("model/"): ...`. With one,
        `callback(event)` is called on a thread of the client's, until the watch or the client is closed.

        It goes on when the daemon is restarted: what is new is told at once; what is gone, and then one "gap", when the daemon's resume
        window ends, since until then it may come back.
        """
        return Watch(self, _arguments.text("pattern", pattern), _arguments.callback("callback", callback))

    def status(self) -> dict:
        """The daemon's counters and this client's."""
        return json.loads(self._core.status_json())

    # -- Life ---------------------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._core.closed

    def hold(self, stop=None) -> None:
        """Serve until Ctrl-C, until the client is closed, or until `stop` (a threading.Event) is set.

        ConnectionLostError, at that moment, if the client has given up reaching the daemon (see `connect`): its publications have ended then.
        """
        _check_stop(stop)
        self._check_process()
        if stop is None:
            hold(self._gone)
        else:
            try:
                while not stop.wait(_BETWEEN_LOOKS_S) and not self._gone.is_set():
                    pass
            except KeyboardInterrupt:
                pass
        if self._gone.is_set() and not self.closed:
            self._raise_gone()

    def close(self) -> None:
        """End the connection's use: its publications end, waiting calls raise ClosedError, watches end.

        A `take` that has got something already returns it, within seconds: what is taken is nobody else's any more.

        Tensors and arrays stay valid. Waits for callbacks that are running, so hold no lock that they need. Closing
        twice is fine.
        """
        self._core.close()
        self._wake_all()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc) -> None:
        self.close()

    def __reduce__(self):
        raise TypeError("a Client can't be copied or sent to another process: connect there")

    def __repr__(self) -> str:
        return f"<hurray.Client{', closed' if self.closed else ''}>"

    def _wake_all(self) -> None:
        self._gone.set()
        with self._lock:
            watches, publications = list(self._watches), list(self._publications)
        for watch in watches:
            watch._wake()
        for state in publications:
            state.done.set()

    def _check_process(self) -> None:
        # In a forked child nothing wakes who waits here: the client's thread is the parent's.
        if os.getpid() != self._process:
            raise ForkedError("this client belongs to the parent process: connect again in the child")

    def _wait(self, event: threading.Event, timeout) -> None:
        self._check_process()
        event.wait(_arguments.seconds("timeout", timeout))

    def _raise_gone(self):
        if self.closed:
            raise ClosedError("the client is closed")
        raise ConnectionLostError("the connection to the daemon has ended")


@contextlib.contextmanager
def _showing_what_is_sealed(arrays):
    """Turns arrays of immutable allocations read-only that were sealed and then refused."""
    try:
        yield
    except BaseException:
        for array, allocation in arrays:
            if allocation is not None and allocation.read_only:
                _arrays.make_read_only(array, allocation)
        raise


def _laid_out(array, copy):
    """The array that is published, how it lies, and its allocation; None if it is copied."""
    array = np.asanyarray(array)
    _arrays.element_type_of(array.dtype)  # the first thing to be told about, copied or not
    if copy:
        return *_arrays.compact(array), None
    allocation = _arrays.allocation_of(array)
    if allocation is None:
        raise InvalidArgumentError(
            "the array is not in shared memory: fill an array from client.allocate() instead, or pass copy=True"
        )
    if allocation.published:
        raise InvalidArgumentError("the array's memory was published before, which works once: pass copy=True")
    return array, _arrays.lies_in(array, allocation), allocation


def _event(kind, capsule, version, remaining, name) -> Event:
    return Event(_KINDS.get(kind, f"kind-{kind}"), name, capsule, version, remaining)


def _listener(callback):
    def on_event(kind, status, capsule, version, remaining, flags, name):
        callback(_event(kind, capsule, version, remaining, name))

    return on_event


def _unwatch(core, number) -> None:
    try:
        core.unwatch(number)
    except (ClosedError, ConnectionLostError, ForkedError, NotFoundError):
        pass  # it ended with its client, or is the parent process's


# Before the interpreter goes, callbacks end and waiting calls return: see gate.hpp.
atexit.register(_hurray.at_exit)
os.register_at_fork(after_in_child=_hurray.after_fork_in_child)
