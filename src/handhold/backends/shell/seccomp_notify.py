"""Seccomp notifications: which system calls the kernel passes to us, and how they are answered."""

import ctypes
import os
import platform
import struct
from functools import cache
from typing import NamedTuple

from handhold.backends.landlock import TRUNCATE_ABI_VERSION
from handhold.backends.seccomp_bpf import (
    ARCHITECTURES,
    ARGS_OFFSET,
    BPF_JUMP_ANY_BIT,
    BPF_JUMP_EQUAL,
    NR_OFFSET,
    SECCOMP_RET_ALLOW,
    jump_if,
    load_word,
    return_action,
)

CLONE_FS = 0x200
CAPABILITY_VERSION = 0x20080522
RET_USER_NOTIF = 0x7FC00000
IOCTL_NOTIF_RECV, IOCTL_NOTIF_SEND, IOCTL_NOTIF_ID_VALID, IOCTL_NOTIF_ADDFD = (
    0xC0502100,
    0xC0182101,
    0x40082102,
    0x40182103,
)
NOTIF_STRUCT, RESPONSE_STRUCT, ADDFD_STRUCT = (
    struct.Struct("=QIIiIQ6Q"),
    struct.Struct("=QqiI"),
    struct.Struct("=QIIII"),
)
RESPONSE_FLAG_CONTINUE, ADDFD_FLAG_SEND = 1, 2
WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

# Numbers on x86_64 and aarch64; None if there is no such call.
SYSCALLS: dict[str, tuple[int | None, int | None]] = {
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
FLAGS_ARGUMENT = {"open": 1, "openat": 2}  # the argument that says whether an open is for writing


class SyscallNotification(NamedTuple):
    """A system call that waits for our answer. `pid` is that of the thread."""

    id: int
    pid: int
    name: str
    arguments: tuple[int, ...]


@cache
def get_syscall_names(machine: str = "") -> dict[int, str]:
    """The calls that are made on behalf of a command; none on an unsupported architecture."""
    kind = ARCHITECTURES.get(machine or platform.machine())
    columns = ((name, each[kind.column]) for name, each in SYSCALLS.items()) if kind else ()
    return {number: name for name, number in columns if number is not None}


@cache
def build_notify_filter(machine: str = "") -> bytes:
    """The filter that passes those calls to us."""
    steps = [load_word(NR_OFFSET)]
    for number, name in get_syscall_names(machine).items():
        if name in FLAGS_ARGUMENT:
            at = ARGS_OFFSET + 8 * FLAGS_ARGUMENT[name]
            steps += [
                jump_if(BPF_JUMP_EQUAL, number, 0, 4),
                load_word(at),
                jump_if(BPF_JUMP_ANY_BIT, WRITE_FLAGS, 0, 1),
                return_action(RET_USER_NOTIF),
                return_action(SECCOMP_RET_ALLOW),
            ]
        else:
            steps += [jump_if(BPF_JUMP_EQUAL, number, 0, 1), return_action(RET_USER_NOTIF)]
    return b"".join((*steps, return_action(SECCOMP_RET_ALLOW)))


def is_refused_by_landlock(notification: SyscallNotification, landlock: int) -> bool:
    """Whether this Landlock version denies the call in supervised folders: version 2 does not cover truncation."""
    if landlock >= TRUNCATE_ABI_VERSION:
        return True
    if notification.name in FLAGS_ARGUMENT:
        flags = notification.arguments[FLAGS_ARGUMENT[notification.name]]
        return not flags & os.O_TRUNC or flags & os.O_ACCMODE in (os.O_WRONLY, os.O_RDWR)
    return notification.name != "truncate"


def drop_capabilities() -> None:
    """Drop this thread's capabilities, since it acts for a command without any, and give it its own umask."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_FS):
        raise OSError(ctypes.get_errno(), "unshare")
    header = struct.pack("=Ii", CAPABILITY_VERSION, 0)
    capabilities = ctypes.create_string_buffer(24)
    if libc.capget(header, capabilities) == 0:
        words = list(struct.unpack("=6I", capabilities.raw))
        words[0] = words[3] = 0  # effective: none
        if libc.capset(header, struct.pack("=6I", *words)):
            raise OSError(ctypes.get_errno(), "capset")
