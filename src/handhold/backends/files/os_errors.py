"""Translate errors of the operating system to tool errors."""

import errno
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager

from handhold.core.errors import (
    AlreadyExists,
    BadPath,
    IsDirectory,
    NoSpace,
    NotDirectory,
    NotFound,
    OutsideWorkspace,
    PermissionDenied,
    ReadOnly,
    SymlinkLoop,
    SystemFailure,
    ToolError,
)

ERRORS_BY_ERRNO: dict[int, Callable[[str, str], ToolError]] = {
    errno.ENOENT: lambda path, _: NotFound(path),
    errno.ENOTDIR: lambda path, _: NotDirectory(path),
    errno.EISDIR: lambda path, _: IsDirectory(path),
    errno.EEXIST: lambda path, _: AlreadyExists(path),
    errno.ELOOP: lambda path, _: SymlinkLoop(path),
    errno.EXDEV: lambda path, _: OutsideWorkspace(path),
    errno.EROFS: lambda path, _: ReadOnly(path),
    errno.ENAMETOOLONG: BadPath,
    errno.EACCES: PermissionDenied,
    errno.EPERM: PermissionDenied,
    errno.ENOSPC: NoSpace,
    errno.EDQUOT: NoSpace,
}


def to_tool_error(error: OSError, path: str) -> ToolError:
    """The tool error for an OSError on this path."""
    number = error.errno or 0
    because = os.strerror(number) if number else str(error)
    if make_error := ERRORS_BY_ERRNO.get(number):
        return make_error(path, because)
    return SystemFailure(path, f"{errno.errorcode.get(number, 'error')}: {because}")


@contextmanager
def translate_os_errors(path: str) -> Generator[None]:
    """Translate every OSError in this block to a tool error for `path`."""
    try:
        yield
    except OSError as error:
        raise to_tool_error(error, path) from error
