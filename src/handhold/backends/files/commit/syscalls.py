"""System calls that Python does not provide. If the system lacks one, the commit works without it."""

import ctypes
import errno
import os
from collections.abc import Callable

RENAME_NOREPLACE = 1
RENAME_EXCHANGE = 2
FALLOC_KEEP_SIZE = 1
UNSUPPORTED_ERRNOS = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)

_libc = ctypes.CDLL(None, use_errno=True)
_renameat2 = getattr(_libc, "renameat2", None)
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
