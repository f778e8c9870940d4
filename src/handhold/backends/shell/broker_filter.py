"""The seccomp filter of a brokered command: which system calls wait for the broker, and which are refused.

It comes in addition to the filter that every command has (`seccomp.py`). A call that neither lists runs as usual; if it
changes a file by its path, Landlock refuses it.
"""

import errno
import os
import platform
from functools import cache

from handhold.backends.seccomp_bpf import (
    ARCHITECTURES,
    ARGS_OFFSET,
    BPF_JUMP_ANY_BIT,
    BPF_JUMP_EQUAL,
    BPF_JUMP_GREATER_EQUAL,
    NR_OFFSET,
    SECCOMP_RET_ALLOW,
    SECCOMP_RET_ERRNO,
    jump_if,
    load_word,
    mask_bits,
    return_action,
)
from handhold.backends.shell.seccomp_notify import FLAGS_ARGUMENT, RET_USER_NOTIF, SYSCALLS, WRITE_FLAGS

# Numbers on x86_64 and aarch64; None if there is no such call.
METADATA_SYSCALLS: dict[str, tuple[int | None, int | None]] = {
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "lchown": (94, None),
    "fchown": (93, 55),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "umask": (95, 166),
}
# What acts on other processes, with the arguments that mean the caller itself: those do not wait for the broker.
PROCESS_SYSCALLS: dict[str, tuple[tuple[int, int], tuple[int, ...]]] = {
    "prlimit64": ((302, 261), (0,)),
    "sched_setparam": ((142, 118), (0,)),
    "sched_setscheduler": ((144, 119), (0,)),
    "sched_setaffinity": ((203, 122), (0,)),
    "sched_setattr": ((314, 274), (0,)),
    "setpriority": ((141, 140), (0, 0)),
    "ioprio_set": ((251, 30), (1, 0)),
}
# System V IPC belongs to the whole machine: the broker allows what the command created itself. Detaching is harmless.
IPC_SYSCALLS = {
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
}
# POSIX queues are those of the machine, too, and hardly any program uses them.
QUEUE_SYSCALLS = {
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "mq_timedsend": (242, 182),
    "mq_timedreceive": (243, 183),
    "mq_notify": (244, 184),
    "mq_getsetattr": (245, 185),
}
SOCKET_SYSCALLS = {"socket": (41, 198), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201)}
SEND_SYSCALLS = {"sendto": ((44, 206), 3), "sendmsg": ((46, 211), 2), "sendmmsg": ((307, 269), 3)}  # and their flags
EXEC_SYSCALLS = {"execve": (59, 221), "execveat": (322, 281)}
PRCTL, IOCTL, SOCKETPAIR, SETSOCKOPT = (157, 167), (16, 29), (53, 199), (54, 208)
MSG_FASTOPEN = 0x20000000  # connects without connect
# Level and options that would lead a socket off the loopback interface, or past the broker.
REFUSED_OPTIONS = {
    1: (25, 36, 62),  # SO_BINDTODEVICE, SO_MARK, SO_BINDTOIFINDEX
    0: (4, 15, 19),  # IP_OPTIONS, IP_FREEBIND, IP_TRANSPARENT
    6: (19, 30, 31),  # TCP_REPAIR, TCP_FASTOPEN_CONNECT, TCP_ULP
    41: (1, 57, 75, 78),  # IPV6_ADDRFORM, IPV6_RTHDR, IPV6_TRANSPARENT, IPV6_FREEBIND
}
# SO_REUSEPORT: with a listener of others on the same port, some connections would reach it. Set without effect.
IGNORED_OPTION = (1, 15)
FIRST_UNKNOWN_SYSCALL = 463  # setxattrat; newer calls may change files in ways that nobody here knows
PR_SET_DUMPABLE = 4  # a process that is not dumpable could not be served
AF_UNIX = 1
CONNECTED_TYPES = (1, 5)  # stream and seqpacket: a datagram could be sent to any address
SOCKET_TYPE_MASK = 0xF
# ioctls that change a file through a descriptor that was opened for reading: everything of these kinds but the listed.
IOCTL_KIND_MASK = 0xFF00
FILE_IOCTL_KINDS = (0x6600, 0x5800, 0x7600, 0x9400)
HARMLESS_FILE_IOCTLS = (
    0x80086601,  # FS_IOC_GETFLAGS
    0x80087601,  # FS_IOC_GETVERSION
    0x801C581F,  # FS_IOC_FSGETXATTR
    0xC020660B,  # FS_IOC_FIEMAP
    0x40049409,  # FICLONE, into a descriptor that was opened for writing
    0x4020940D,  # FICLONERANGE
)


@cache
def build_broker_filter(machine: str = "", *, network: bool = False, reads: bool = False) -> bytes:
    """The filter for a processor architecture, by default this machine's; empty if it is not supported.

    With `reads`, opening for reading and executing wait for the broker, too: something is hidden in the workspace.
    """
    kind = ARCHITECTURES.get(machine or platform.machine())
    if kind is None:
        return b""
    column = kind.column
    notify, allow = return_action(RET_USER_NOTIF), return_action(SECCOMP_RET_ALLOW)
    steps = [load_word(NR_OFFSET)]
    steps += [jump_if(BPF_JUMP_GREATER_EQUAL, FIRST_UNKNOWN_SYSCALL, 0, 1), _refuse(errno.ENOSYS)]
    for name, numbers in (SYSCALLS | METADATA_SYSCALLS).items():
        number = numbers[column]
        if number is None:
            continue
        if name in FLAGS_ARGUMENT:
            wanted = (
                [jump_if(BPF_JUMP_ANY_BIT, os.O_PATH, 1, 0)]
                if reads
                else [jump_if(BPF_JUMP_ANY_BIT, WRITE_FLAGS, 0, 1)]
            )
            steps += _match(number, [load_word(ARGS_OFFSET + 8 * FLAGS_ARGUMENT[name]), *wanted, notify, allow])
        else:
            steps += _match(number, [notify])
    for numbers, own in PROCESS_SYSCALLS.values():
        steps += _match(numbers[column], [*_build_argument_checks(own, [notify]), allow])
    for numbers in IPC_SYSCALLS.values():
        steps += _match(numbers[column], [notify])
    for numbers in QUEUE_SYSCALLS.values():
        steps += _match(numbers[column], [_refuse(errno.ENOSYS)])
    for numbers in EXEC_SYSCALLS.values() if reads else ():
        steps += _match(numbers[column], [notify])
    pretend = [load_word(ARGS_OFFSET), jump_if(BPF_JUMP_EQUAL, PR_SET_DUMPABLE, 0, 1), _refuse(0), allow]
    steps += _match(PRCTL[column], pretend)
    steps += _match(IOCTL[column], _build_ioctl_steps(allow))
    if network:  # the machine's Unix sockets are no part of the network, and some obey whoever reaches them
        is_unix = [load_word(ARGS_OFFSET), jump_if(BPF_JUMP_EQUAL, AF_UNIX, 0, 1), _refuse(errno.EAFNOSUPPORT), allow]
        steps += _match(SOCKET_SYSCALLS["socket"][column], is_unix)
    else:
        for numbers in SOCKET_SYSCALLS.values():
            steps += _match(numbers[column], [notify])
        for numbers, argument in SEND_SYSCALLS.values():
            flags = [load_word(ARGS_OFFSET + 8 * argument), jump_if(BPF_JUMP_ANY_BIT, MSG_FASTOPEN, 0, 1)]
            steps += _match(numbers[column], [*flags, _refuse(errno.EOPNOTSUPP), allow])
        steps += _match(SETSOCKOPT[column], _build_option_steps(allow))
    connected = [
        *(load_word(ARGS_OFFSET), jump_if(BPF_JUMP_EQUAL, AF_UNIX, 1, 0), _refuse(errno.EAFNOSUPPORT)),
        *(load_word(ARGS_OFFSET + 8), mask_bits(SOCKET_TYPE_MASK)),
        *(step for each in CONNECTED_TYPES for step in (jump_if(BPF_JUMP_EQUAL, each, 0, 1), allow)),
        _refuse(errno.EPROTONOSUPPORT),
    ]
    steps += _match(SOCKETPAIR[column], connected)
    return b"".join((*steps, allow))


def _build_argument_checks(values: tuple[int, ...], otherwise: list[bytes]) -> list[bytes]:
    """Continue if the first arguments have these values."""
    steps: list[bytes] = []
    for at, value in enumerate(values):
        steps += [load_word(ARGS_OFFSET + 8 * at), jump_if(BPF_JUMP_EQUAL, value, len(otherwise), 0), *otherwise]
    return steps


def _build_option_steps(allow: bytes) -> list[bytes]:
    steps: list[bytes] = []
    answers = [(level, option, errno.EPERM) for level, options in REFUSED_OPTIONS.items() for option in options]
    for level, option, error in (*answers, (*IGNORED_OPTION, 0)):
        is_option = [load_word(ARGS_OFFSET + 16), *_match(option, [_refuse(error)])]
        steps += [load_word(ARGS_OFFSET + 8), *_match(level, is_option)]
    return [*steps, allow]


def _build_ioctl_steps(allow: bytes) -> list[bytes]:
    request = ARGS_OFFSET + 8
    harmless = [step for each in HARMLESS_FILE_IOCTLS for step in (jump_if(BPF_JUMP_EQUAL, each, 0, 1), allow)]
    kinds = [step for each in FILE_IOCTL_KINDS for step in (jump_if(BPF_JUMP_EQUAL, each, 0, 1), _refuse(errno.EPERM))]
    return [load_word(request), *harmless, mask_bits(IOCTL_KIND_MASK), *kinds, allow]


def _refuse(error: int) -> bytes:
    """Return an error; 0 pretends that the call succeeded."""
    return return_action(SECCOMP_RET_ERRNO | error)


def _match(number: int, steps: list[bytes]) -> list[bytes]:
    return [jump_if(BPF_JUMP_EQUAL, number, 0, len(steps)), *steps]
