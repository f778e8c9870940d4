"""System calls that Python does not offer. Where the system has none of them, the commit does without."""

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
    """Rename, in one directory or from one into another; False where the file system does not know these flags."""
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
    """All of it; where the system cannot name one, every one."""
    if _syncfs is None:
        return os.sync()
    return _check_call(_syncfs, fd)


def preallocate(fd: int, size: int) -> None:
    """Set space aside; the file grows only when it is written."""
    # Not os.posix_fallocate: where the file system cannot, it writes into every block instead.
    if _fallocate is None:
        return
    try:
        _check_call(_fallocate, fd, FALLOC_KEEP_SIZE, 0, size)
    except OSError as error:
        if error.errno not in UNSUPPORTED_ERRNOS:
            raise
