"""Errors of the machine in the state folder, as tool errors."""

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from handhold.backends.descriptor_pool import EXHAUSTED_ERRNOS, to_exhausted_error
from handhold.core.errors import NoSpace, PermissionDenied, SystemFailure, ToolError


def to_state_error(error: OSError, path: str) -> ToolError:
    because = os.strerror(error.errno or 0)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return NoSpace(path, because)
    if isinstance(error, PermissionError):
        return PermissionDenied(path, because)
    if error.errno in EXHAUSTED_ERRNOS:
        return to_exhausted_error(error, path)
    return SystemFailure(path, because)


@contextmanager
def translate_state_errors(path: Path) -> Generator[None]:
    """Translate every OSError in the state folder to a tool error."""
    try:
        yield
    except OSError as error:
        raise to_state_error(error, str(path)) from error
