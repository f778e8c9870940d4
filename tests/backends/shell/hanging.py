"""A FUSE file system with one file, which can stop responding: `python hanging.py FOLDER OWNER`.

Killed, it leaves a disconnected mount; stopped, it fetches no requests; after SIGUSR1 it fetches them
and drops them, and then the process that made the request cannot even be killed.
"""

import ctypes
import errno
import os
import signal
import stat
import struct
import sys
from collections.abc import Callable

NAME, CONTENT = b"file", b"from afar\n"
LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, FLUSH, INIT = 1, 2, 3, 14, 15, 17, 18, 25, 26
OPENDIR, READDIR, RELEASEDIR, INTERRUPT, BATCH_FORGET = 27, 28, 29, 36, 42
ROOT, FILE = 1, 2
PR_SET_PDEATHSIG = 1
HEADER = struct.Struct("<IIQQIIII")

swallows = False


def attributes(node: int) -> bytes:
    """Valid for zero seconds, so that every stat is a request."""
    size = len(CONTENT) if node == FILE else 0
    mode = stat.S_IFREG | 0o666 if node == FILE else stat.S_IFDIR | 0o777
    return struct.pack("<6Q10I", node, size, 1, 0, 0, 0, 0, 0, 0, mode, 1, OWNER, OWNER, 0, 4096, 0)


def looked_up(node: int, body: bytes) -> bytes | int:
    if node != ROOT or body.rstrip(b"\0") != NAME:
        return errno.ENOENT
    return struct.pack("<4Q2I", FILE, 1, 0, 0, 0, 0) + attributes(FILE)


def read(node: int, body: bytes) -> bytes:
    _, offset, size = struct.unpack_from("<QQI", body)
    return CONTENT[offset : offset + size]


def listed(node: int, body: bytes) -> bytes:
    _, offset, _ = struct.unpack_from("<QQI", body)
    return b"" if offset else struct.pack("<QQII", FILE, 1, len(NAME), 8) + NAME.ljust(8, b"\0")


ANSWERS: dict[int, Callable[[int, bytes], bytes | int]] = {
    INIT: lambda *_: struct.pack("<4I2H2I36x", 7, 31, 65536, 0, 16, 12, 65536, 1),
    LOOKUP: looked_up,
    GETATTR: lambda node, _: struct.pack("<QII", 0, 0, 0) + attributes(node),
    OPEN: lambda *_: struct.pack("<QII", 0, 1, 0),
    OPENDIR: lambda *_: struct.pack("<QII", 0, 1, 0),
    READ: read,
    READDIR: listed,
    STATFS: lambda *_: struct.pack("<5Q4I24x", 1, 0, 0, 2, 0, 4096, 255, 4096, 0),
    RELEASE: lambda *_: b"",
    RELEASEDIR: lambda *_: b"",
    FLUSH: lambda *_: b"",
}


def swallow(*_: object) -> None:
    global swallows  # noqa: PLW0603 — a program of its own
    swallows = True


def main(folder: str) -> None:
    signal.signal(signal.SIGUSR1, swallow)
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"hanging", os.fsencode(folder), b"fuse", 0, options.encode()) != 0:
        sys.exit(os.strerror(ctypes.get_errno()))
    os.setresgid(OWNER, OWNER, OWNER)
    os.setresuid(OWNER, OWNER, OWNER)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # whatever happens to the test
    os.write(1, b"mounted\n")
    while True:
        try:
            request = os.read(device, 1 << 20)
        except OSError as error:
            if error.errno == errno.ENODEV:  # no longer mounted
                return
            continue
        _, code, unique, node, *_ = HEADER.unpack_from(request)
        if swallows or code in (FORGET, INTERRUPT, BATCH_FORGET):
            continue
        answer = ANSWERS.get(code, lambda *_: errno.ENOSYS)(node, request[HEADER.size :])
        body, error = (b"", -answer) if isinstance(answer, int) else (answer, 0)
        try:
            os.write(device, struct.pack("<IiQ", 16 + len(body), error, unique) + body)
        except FileNotFoundError:
            pass  # the process that made the request was killed


if __name__ == "__main__":
    OWNER = int(sys.argv[2])
    main(sys.argv[1])
