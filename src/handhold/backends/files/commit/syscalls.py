"""System calls that Python does not provide. If the system lacks one, the commit works without it."""

import ctypes
import errno
import os
import struct
from collections.abc import Callable

RENAME_NOREPLACE = 1
RENAME_EXCHANGE = 2
FALLOC_KEEP_SIZE = 1
UNSUPPORTED_ERRNOS = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)

AT_SYMLINK_NOFOLLOW = 0x100
AT_EMPTY_PATH = 0x1000
STATX_BTIME = 0x800
STATX = struct.Struct("=I76xqI164x")  # which fields are known, and the time of birth

_libc = ctypes.CDLL(None, use_errno=True)
_renameat2 = getattr(_libc, "renameat2", None)
_statx = getattr(_libc, "statx", None)
_syncfs = getattr(_libc, "syncfs", None)
HAS_SYNCFS = _syncfs is not None
_fallocate = getattr(_libc, "fallocate", None)
if _fallocate is not None:
    _fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_longlong, ctypes.c_longlong)


def _check_call(function: Callable[..., int], *arguments: object) -> None:
    while function(*arguments) != 0:
        error = ctypes.get_errno()
        if error != errno.EINTR:
            raise OSError(error, os.strerror(error))


def renameat2(directory: int, name: str, to: str, flags: int, *, into: int | None = None) -> bool:
    """Rename, optionally into another directory; False if the file system does not support the flags."""
    if _renameat2 is None:
        return False
    target = directory if into is None else into
    try:
        _check_call(_renameat2, directory, os.fsencode(name), target, os.fsencode(to), flags)
    except OSError as error:
        if error.errno in UNSUPPORTED_ERRNOS:
            return False
        raise
    return True


def read_birth(directory: int, name: str = "") -> int:
    """When an inode was created, in nanoseconds; 0 if it is not known. Without a name, that of a descriptor."""
    data = ctypes.create_string_buffer(STATX.size)
    flags = AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH
    if _statx is None or _statx(directory, os.fsencode(name), flags, STATX_BTIME, data):
        return 0
    known, seconds, nanoseconds = STATX.unpack(data)
    return seconds * 1_000_000_000 + nanoseconds if known & STATX_BTIME else 0


def sync_file_system(fd: int) -> None:
    """Sync one file system; all of them if the system cannot sync one."""
    if _syncfs is None:
        return os.sync()
    return _check_call(_syncfs, fd)


def preallocate(fd: int, size: int) -> None:
    """Allocate space without changing the file's size."""
    # Not os.posix_fallocate: without support by the file system, it writes to every block.
    if _fallocate is None:
        return
    try:
        _check_call(_fallocate, fd, FALLOC_KEEP_SIZE, 0, size)
    except OSError as error:
        if error.errno not in UNSUPPORTED_ERRNOS:
            raise
