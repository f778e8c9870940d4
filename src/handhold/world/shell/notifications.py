"""Seccomp notifications: which calls the kernel hands to us, and how they are answered."""

import ctypes
import os
import platform
import struct
from functools import cache
from typing import NamedTuple

from handhold.world.filters import ALLOW, ANY_BIT, ARGS, EQUAL, MACHINES, NR, answer, load, test
from handhold.world.landlock import TRUNCATION_SINCE

CLONE_FS = 0x200
CAPABILITY_VERSION = 0x20080522
NOTIFY = 0x7FC00000
RECEIVE, SEND, IS_VALID, ADD_FD = 0xC0502100, 0xC0182101, 0x40082102, 0x40182103
NOTIFICATION, RESPONSE, ADDED = struct.Struct("=QIIiIQ6Q"), struct.Struct("=QqiI"), struct.Struct("=QIIII")
CONTINUE, SEND_TOO = 1, 2
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

# Each with its number on x86_64 and on aarch64; None where there is no such call.
CALLS: dict[str, tuple[int | None, int | None]] = {
    "open": (2, None),
    "creat": (85, None),
    "openat": (257, 56),
    "openat2": (437, 437),
    "mkdir": (83, None),
    "mkdirat": (258, 34),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "rename": (82, None),
    "renameat": (264, 38),
    "renameat2": (316, 276),
    "link": (86, None),
    "linkat": (265, 37),
    "symlink": (88, None),
    "symlinkat": (266, 36),
    "truncate": (76, 45),
    "unlink": (87, None),
    "unlinkat": (263, 35),
    "rmdir": (84, None),
}
FLAGS_OF = {"open": 1, "openat": 2}  # the argument that tells whether an open is for writing


class Asked(NamedTuple):
    """A call that waits for us. `pid` is the thread's."""

    id: int
    pid: int
    name: str
    arguments: tuple[int, ...]


@cache
def numbers(machine: str = "") -> dict[int, str]:
    """The calls that are carried out for a command; none if we have no numbers for this kind of processor."""
    kind = MACHINES.get(machine or platform.machine())
    columns = ((name, each[kind.column]) for name, each in CALLS.items()) if kind else ()
    return {number: name for name, number in columns if number is not None}


@cache
def program(machine: str = "") -> bytes:
    """The filter that hands those calls to us."""
    steps = [load(NR)]
    for number, name in numbers(machine).items():
        if name in FLAGS_OF:
            at = ARGS + 8 * FLAGS_OF[name]
            steps += [test(EQUAL, number, 0, 4), load(at), test(ANY_BIT, WRITES, 0, 1), answer(NOTIFY), answer(ALLOW)]
        else:
            steps += [test(EQUAL, number, 0, 1), answer(NOTIFY)]
    return b"".join((*steps, answer(ALLOW)))


def is_guarded(asked: Asked, landlock: int) -> bool:
    """Whether this version of Landlock refuses a call in our places: the second does not know truncation."""
    if landlock >= TRUNCATION_SINCE:
        return True
    if asked.name in FLAGS_OF:
        flags = asked.arguments[FLAGS_OF[asked.name]]
        return not flags & os.O_TRUNC or flags & os.O_ACCMODE in (os.O_WRONLY, os.O_RDWR)
    return asked.name != "truncate"


def give_up_rights() -> None:
    """This thread acts for a command, which has no capabilities; and it has an umask of its own from now on."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_FS):
        raise OSError(ctypes.get_errno(), "unshare")
    header = struct.pack("=Ii", CAPABILITY_VERSION, 0)
    held = ctypes.create_string_buffer(24)
    if libc.capget(header, held) == 0:
        words = list(struct.unpack("=6I", held.raw))
        words[0] = words[3] = 0  # in effect: none
        if libc.capset(header, struct.pack("=6I", *words)):
            raise OSError(ctypes.get_errno(), "capset")
