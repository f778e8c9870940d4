"""Makes system calls that no command should be allowed, and prints the results: `name: ERRNO`, or `name: allowed`.

Runs inside the sandbox, with the system's Python. A call that succeeds is harmless: its arguments are empty or invalid.
"""

import ctypes
import errno
import os
import socket
from collections.abc import Callable

libc = ctypes.CDLL(None, use_errno=True)
HERE = os.open(".", os.O_RDONLY)


def call(number: int, *arguments: object) -> Callable[[], None]:
    def ask() -> None:
        ctypes.set_errno(0)
        if libc.syscall(number, *arguments) < 0:
            raise OSError(ctypes.get_errno(), "")

    return ask


def open_(path: str, flags: int = os.O_RDWR) -> Callable[[], None]:
    return lambda: os.close(os.open(path, flags))


def list_folder(path: str) -> Callable[[], None]:
    def ask() -> None:
        os.listdir(path)

    return ask


def make(family: int, kind: int, protocol: int = 0) -> Callable[[], None]:
    return lambda: socket.socket(family, kind, protocol).close()


# System call numbers on x86_64.
PROBES: dict[str, Callable[[], None]] = {
    "mount": call(165, b"none", b"/tmp", b"tmpfs", 0, None),
    "umount2": call(166, b"/nothing", 0),
    "move_mount": call(429, -1, b"", -1, b"", 0),
    "fsopen": call(430, b"tmpfs", 0),
    "open_tree": call(428, -100, b".", 1),
    "mount_setattr": call(442, -1, b"", 0, None, 0),
    "chroot": call(161, b"."),
    "pivot_root": call(155, b".", b"."),
    "unshare, user": call(272, 0x10000000),
    "unshare, mount": call(272, 0x20000),
    "setns": call(308, HERE, 0),
    "clone with a new namespace": call(56, 0x10000011, 0, 0, 0, 0),
    "clone3": call(435, None, 0),
    "ptrace": call(101, 0, 0, 0, 0),
    "process_vm_writev": call(311, 1, None, 0, None, 0, 0),
    "process_vm_readv": call(310, 1, None, 0, None, 0, 0),
    "pidfd_getfd": call(438, -1, 0, 0),
    "kcmp": call(312, 1, 1, 0, 0, 0),
    "/proc/1/mem": open_("/proc/1/mem"),
    "/proc/1/root": list_folder("/proc/1/root/"),
    "io_uring_setup": call(425, 1, None),
    "keyctl": call(250, 0, 0, 0, 0, 0),
    "add_key": call(248, None, None, None, 0, 0),
    "bpf": call(321, 0, None, 0),
    "userfaultfd": call(323, 0),
    "perf_event_open": call(298, None, 0, -1, -1, 0),
    "kexec_load": call(246, 0, 0, None, 0),
    "init_module": call(175, None, 0, None),
    "finit_module": call(313, -1, b"", 0),
    "swapon": call(167, b"/nothing", 0),
    "reboot": call(169, 0, 0, 0, None),
    "quotactl": call(179, 0, None, 0, None),
    "open_by_handle_at": call(304, -1, None, 0),
    "personality, executable data": call(135, 0x0400000),
    "openat2": call(437, -100, b".", None, 0),
    "set-user-id file": lambda: os.close(os.open("made", os.O_CREAT | os.O_WRONLY, 0o4755)),
    "set-user-id by chmod": lambda: os.chmod("made", 0o4755),
    "device": lambda: os.mknod("device", 0o60600, os.makedev(254, 0)),
    "TIOCSTI": call(16, 0, 0x5412, b"x"),
    "raw socket": make(socket.AF_INET, socket.SOCK_RAW, 1),
    "packet socket": make(17, socket.SOCK_RAW, 0),
    "vsock socket": make(40, socket.SOCK_STREAM),
    "netlink of the kernel's audit": make(16, socket.SOCK_RAW, 9),
    "/dev/kmsg": open_("/dev/kmsg"),
    "/dev/mem": open_("/dev/mem"),
}

if __name__ == "__main__":
    with open("made", "w"):
        pass
    for name, probe in PROBES.items():
        try:
            probe()
            answer = "allowed"
        except OSError as error:
            answer = errno.errorcode.get(error.errno or 0, str(error.errno))
        print(f"{name}: {answer}", flush=True)
