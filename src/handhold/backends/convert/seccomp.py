"""The system calls that a decoder needs to compute, read its input and write its output; all others are refused."""

import errno
import platform
from functools import cache

from handhold.backends.seccomp_bpf import (
    ARCH_OFFSET,
    ARCHITECTURES,
    BPF_JUMP_EQUAL,
    NR_OFFSET,
    SECCOMP_RET_ALLOW,
    SECCOMP_RET_ERRNO,
    jump_if,
    load_word,
    return_action,
)

# Numbers on x86_64 and aarch64; None if there is no such call.
ALLOWED_SYSCALLS: dict[str, tuple[int, int | None]] = {
    "read": (0, 63),
    "pread64": (17, 67),
    "write": (1, 64),
    "lseek": (8, 62),
    "fstat": (5, 80),
    "newfstatat": (262, 79),  # used by the C library to stat a descriptor
    "close": (3, 57),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "munmap": (11, 215),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "brk": (12, 214),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132),
    "setitimer": (38, 103),
    "futex": (202, 98),
    "sched_yield": (24, 124),
    "getpid": (39, 172),
    "gettid": (186, 178),
    "getrandom": (318, 278),
    "getrusage": (98, 165),
    "times": (100, 153),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "gettimeofday": (96, 169),
    "time": (201, None),
    "sysinfo": (99, 179),
    "restart_syscall": (219, 128),
    "exit": (60, 93),
    "exit_group": (231, 94),
}


@cache
def build_filter(machine: str = "") -> bytes:
    """The filter for a processor architecture, by default this machine's; empty if it is not supported."""
    kind = ARCHITECTURES.get(machine or platform.machine())
    if kind is None:
        return b""
    refused = return_action(SECCOMP_RET_ERRNO | errno.EPERM)
    steps = [load_word(ARCH_OFFSET), jump_if(BPF_JUMP_EQUAL, kind.audit_arch, 1, 0), refused, load_word(NR_OFFSET)]
    for numbers in ALLOWED_SYSCALLS.values():
        if (number := numbers[kind.column]) is not None:
            steps += [jump_if(BPF_JUMP_EQUAL, number, 0, 1), return_action(SECCOMP_RET_ALLOW)]
    return b"".join([*steps, refused])
