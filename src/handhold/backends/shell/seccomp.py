"""A seccomp filter against system calls that commands do not need.

The filter kills nothing: a refused call returns EPERM, as for any unprivileged user, so that programs which only try it
continue. Namespaces and dropped capabilities forbid most of this already; the filter keeps commands away from kernel
code where such confinement has failed before.
"""

import errno
import platform
from functools import cache

from handhold.backends.seccomp_bpf import (
    ARCH_OFFSET,
    ARCHITECTURES,
    ARGS_OFFSET,
    BPF_JUMP_ANY_BIT,
    BPF_JUMP_EQUAL,
    BPF_JUMP_GREATER_EQUAL,
    NR_OFFSET,
    SECCOMP_RET_ALLOW,
    SECCOMP_RET_ERRNO,
    Architecture,
    jump_if,
    load_word,
    return_action,
)

X32_SYSCALL_BIT = 0x40000000

NAMESPACE_FLAGS = 0x7E020080  # every CLONE_NEW… flag
CLONE_NAMESPACE_FLAGS = NAMESPACE_FLAGS & ~0xFF  # the low byte of clone's flags is the signal for the parent
# 32 bit, Linux 2.6, no randomization; and the query.
ALLOWED_PERSONALITIES = (0, 0x8, 0x20000, 0x20008, 0x40000, 0xFFFFFFFF)
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
NETLINK_ROUTE = 0  # the only netlink protocol that ordinary programs use, to list addresses
TIOCSTI, TIOCLINUX = 0x5412, 0x541C  # inject input into a terminal


# Numbers on x86_64 and aarch64; None if there is no such call.
REFUSED_SYSCALLS: dict[str, tuple[int, int | None]] = {
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "setns": (308, 268),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_by_handle_at": (304, 265),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "syslog": (103, 116),
    "lookup_dcookie": (212, 18),
    "vhangup": (153, 58),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "uselib": (134, None),
}
# What a debugger needs; the kernel checks the permission to trace for each of them.
TRACING_SYSCALLS = ("ptrace", "process_vm_readv", "process_vm_writev")
# Calls that depend on their arguments.
SET_USER_ID, SET_GROUP_ID = 0o4000, 0o2000
CREATE_FLAGS = 0o20000100  # O_CREAT and the own bit of O_TMPFILE: without them, open takes no mode
# With the position of the mode among the arguments; flags, if any, come right before it.
CHANGE_MODE_SYSCALLS: dict[str, tuple[tuple[int, int | None], int]] = {
    "chmod": ((90, None), 1),
    "fchmod": ((91, 52), 1),
    "fchmodat": ((268, 53), 2),
    "fchmodat2": ((452, 452), 2),
}
MAKE_FILE_SYSCALLS: dict[str, tuple[tuple[int, int | None], int]] = {
    "creat": ((85, None), 1),
    "mknod": ((133, None), 1),
    "mknodat": ((259, 33), 2),
}
OPEN_FILE_SYSCALLS: dict[str, tuple[tuple[int, int | None], int]] = {"open": ((2, None), 2), "openat": ((257, 56), 3)}
OPENAT2 = (437, 437)
CLONE, CLONE3, UNSHARE, PERSONALITY, SOCKET, IOCTL = (56, 220), (435, 435), (272, 97), (135, 92), (41, 198), (16, 29)


@cache
def build_filter(machine: str = "", *, direct: bool = False, tracing: bool = False) -> bytes:
    """The filter for a processor architecture, by default this machine's; empty if it is not supported.

    No file may be made set-user-id. Set-group-id is left to chmod, because many folders have it and the filter cannot
    tell them from files; a file that has it needs approval when the effects are applied. With `direct`, nothing is
    checked afterwards, so it is refused too. `tracing` allows what a debugger needs.
    """
    kind = ARCHITECTURES.get(machine or platform.machine())
    return b"".join(_build_steps(kind, direct=direct, tracing=tracing)) if kind else b""


def _build_steps(kind: Architecture, *, direct: bool, tracing: bool) -> list[bytes]:
    """Linear: a test that fails continues with the next one."""
    column = kind.column
    refused = return_action(SECCOMP_RET_ERRNO | errno.EPERM)
    steps = [load_word(ARCH_OFFSET), jump_if(BPF_JUMP_EQUAL, kind.audit_arch, 1, 0), refused, load_word(NR_OFFSET)]
    if column == 0:  # the x32 ABI has its own numbers, above all others
        steps += [jump_if(BPF_JUMP_GREATER_EQUAL, X32_SYSCALL_BIT, 0, 1), refused]
    for number in (CLONE3[column], OPENAT2[column]):  # their flags and modes are in memory, where no filter can look
        steps += _match_syscall(number, [return_action(SECCOMP_RET_ERRNO | errno.ENOSYS)])
    steps += _build_mode_checks(column, CHANGE_MODE_SYSCALLS, SET_USER_ID | (SET_GROUP_ID if direct else 0), refused)
    steps += _build_mode_checks(column, MAKE_FILE_SYSCALLS, SET_USER_ID | SET_GROUP_ID, refused)
    steps += _build_mode_checks(column, OPEN_FILE_SYSCALLS, SET_USER_ID | SET_GROUP_ID, refused, flags=CREATE_FLAGS)
    steps += _match_syscall(
        CLONE[column],
        [
            load_word(ARGS_OFFSET),
            jump_if(BPF_JUMP_ANY_BIT, CLONE_NAMESPACE_FLAGS, 0, 1),
            refused,
            return_action(SECCOMP_RET_ALLOW),
        ],
    )
    steps += _match_syscall(
        UNSHARE[column],
        [
            load_word(ARGS_OFFSET),
            jump_if(BPF_JUMP_ANY_BIT, NAMESPACE_FLAGS, 0, 1),
            refused,
            return_action(SECCOMP_RET_ALLOW),
        ],
    )
    steps += _match_syscall(
        PERSONALITY[column], [load_word(ARGS_OFFSET), *_allow_values(ALLOWED_PERSONALITIES), refused]
    )
    steps += _match_syscall(
        IOCTL[column],
        [load_word(ARGS_OFFSET + 8), *_refuse_values((TIOCSTI, TIOCLINUX), refused), return_action(SECCOMP_RET_ALLOW)],
    )
    steps += _match_syscall(
        SOCKET[column],
        [
            *(load_word(ARGS_OFFSET), *_allow_values((AF_UNIX, AF_INET, AF_INET6))),
            *(jump_if(BPF_JUMP_EQUAL, AF_NETLINK, 1, 0), return_action(SECCOMP_RET_ERRNO | errno.EAFNOSUPPORT)),
            *(
                load_word(ARGS_OFFSET + 16),
                *_allow_values((NETLINK_ROUTE,)),
                return_action(SECCOMP_RET_ERRNO | errno.EPROTONOSUPPORT),
            ),
        ],
    )
    for name, numbers in REFUSED_SYSCALLS.items():
        if (number := numbers[column]) is not None and not (tracing and name in TRACING_SYSCALLS):
            steps += [jump_if(BPF_JUMP_EQUAL, number, 0, 1), refused]
    return [*steps, return_action(SECCOMP_RET_ALLOW)]


def _build_mode_checks(
    column: int, calls: dict[str, tuple[tuple[int, int | None], int]], bits: int, refused: bytes, *, flags: int = 0
) -> list[bytes]:
    """Refuse calls with one of these bits in the mode; with `flags`, the mode is checked only if one of them is set."""
    steps: list[bytes] = []
    for numbers, at in calls.values():
        if (number := numbers[column]) is not None:
            counts = (
                [
                    load_word(ARGS_OFFSET + 8 * (at - 1)),
                    jump_if(BPF_JUMP_ANY_BIT, flags, 1, 0),
                    return_action(SECCOMP_RET_ALLOW),
                ]
                if flags
                else []
            )
            mode = [
                load_word(ARGS_OFFSET + 8 * at),
                jump_if(BPF_JUMP_ANY_BIT, bits, 0, 1),
                refused,
                return_action(SECCOMP_RET_ALLOW),
            ]
            steps += _match_syscall(number, [*counts, *mode])
    return steps


def _match_syscall(number: int, steps: list[bytes]) -> list[bytes]:
    return [jump_if(BPF_JUMP_EQUAL, number, 0, len(steps)), *steps]


def _allow_values(values: tuple[int, ...]) -> list[bytes]:
    """Allow if the value is one of these."""
    return [
        step for value in values for step in (jump_if(BPF_JUMP_EQUAL, value, 0, 1), return_action(SECCOMP_RET_ALLOW))
    ]


def _refuse_values(values: tuple[int, ...], refused: bytes) -> list[bytes]:
    return [step for value in values for step in (jump_if(BPF_JUMP_EQUAL, value, 0, 1), refused)]
