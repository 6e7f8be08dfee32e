"""Who may do what with a tensor."""

from __future__ import annotations

import grp
from typing import NamedTuple

from . import _arguments
from ._errors import InvalidArgumentError

_OWN_GROUP = 0xFFFFFFFF  # HURRAY_GID_OWN


class Access(NamedTuple):
    """Who may do what with a tensor, as of a file: `mode` has a digit for its publisher's user, one for `group`, one for others.

    Read (4): attach, list and watch it; to whoever may not read it it does not exist. Write (2), together with read: replace and withdraw
    it. `group` is a name or a number of one of the publisher's groups, or None for its own.
    """

    mode: int = 0o600
    group: str | int | None = None


def access_numbers(access) -> tuple[int, int] | None:
    """A group and a mode as numbers, of what a caller means."""
    if access is None:
        return None
    if isinstance(access, tuple) and len(access) != 2:
        raise InvalidArgumentError(f"access is {access}: it must be an Access, a mode, or both a mode and a group")
    mode, group = access if isinstance(access, tuple) else (access, None)
    if group is None:
        gid = _OWN_GROUP
    elif isinstance(group, str):
        try:
            gid = grp.getgrnam(group).gr_gid
        except KeyError:
            raise InvalidArgumentError(f"there is no group named {group!r}") from None
    else:
        gid = _arguments.integer("the group of access", group, 0, _OWN_GROUP - 1)
    mode = _arguments.integer("the mode of access", mode)
    if mode != mode & 0o666:
        raise InvalidArgumentError(f"the mode of access is {mode:#o}: reading and writing can be granted, 0 to 0o666")
    return gid, mode
