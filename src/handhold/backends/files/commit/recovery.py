"""Roll back a brokered command that was interrupted: its broker or Handhold was killed."""

import fcntl
import os
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from handhold.backends.files.commit.rollback import Rollback
from handhold.backends.files.staging_area import UNDO_LOG
from handhold.backends.files.undo_log import REMOVED_FOLDER, read_undo_log
from handhold.backends.marked_processes import kill_marked
from handhold.core.errors import SystemFailure
from handhold.logs import warn_once

BROKER_TIMEOUT_SECONDS = 10.0  # for a broker to end after its Handhold process was killed
POLL_SECONDS = 0.01


def recover_command(folder: str) -> None:
    """Restore what the command with this folder in a staging area changed, and remove its undo log.

    The log of a command with several roots is in the folder of the first one; the others have a link to it.
    """
    link = Path(folder, UNDO_LOG)
    log = Path(os.path.realpath(link))
    with suppress(FileNotFoundError):
        conflicts = roll_back(log)
        if conflicts:
            listed = ", ".join(conflicts[:5])
            warn_once("files", f"An interrupted command was rolled back, except where others changed files: {listed}")
    for path in (log, link):
        path.unlink(missing_ok=True)


def roll_back(log: Path, shared: Collection[tuple[int, int]] = ()) -> list[str]:
    """The paths that could not be restored, because somebody else changed them. `shared` inodes stay as they are."""
    fd = os.open(log, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _wait_for_broker(fd, log)
        records = read_undo_log(log)
        if all(record.kind != "ended" for record in records[-1:]) and not kill_marked(log.parent.name):
            raise SystemFailure(str(log.parent), "a process of an interrupted command cannot be killed")
        rollback = Rollback(records, log.parent / REMOVED_FOLDER, shared)
        rollback.run()
        return rollback.conflicts
    finally:
        os.close(fd)


def _wait_for_broker(fd: int, log: Path) -> None:
    """The broker holds a lock on its log."""
    until = time.monotonic() + BROKER_TIMEOUT_SECONDS
    while True:
        try:
            return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise SystemFailure(str(log.parent), "the broker of an interrupted command does not end") from None
        time.sleep(POLL_SECONDS)
