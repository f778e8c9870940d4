"""Whether somebody has a review page open: a lock that the page's server holds, and that ends with its process.

While it is held, a call that needs approval waits for an answer instead of being refused.
"""

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from handhold.backends.state.state_folder import ensure_private_folder
from handhold.logs import log_swallowed

LOCK_FILE = "review.lock"


class ReviewPresence:
    """Without a folder, nobody is ever there."""

    def __init__(self, state: Path | None) -> None:
        self._file = None if state is None else state / LOCK_FILE

    def is_open(self) -> bool:
        """Two that ask at once may take each other for a page, for a moment."""
        if self._file is None:
            return False
        try:
            fd = os.open(self._file, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            log_swallowed()
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        else:
            return False
        finally:
            os.close(fd)

    @contextmanager
    def hold(self) -> Generator[None]:
        """Several pages may be open at once."""
        if self._file is None:
            yield
            return
        ensure_private_folder(self._file.parent)
        fd = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_SH)
            yield
        finally:
            os.close(fd)
