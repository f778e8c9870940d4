"""Roll back a brokered command that was interrupted: its broker or Handhold was killed."""

import fcntl
import os
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from handhold.backends.files.commit.rollback import Rollback
from handhold.backends.files.commit.syscalls import read_birth
from handhold.backends.files.staging_area import KEEP_FILE, UNDO_LOG
from handhold.backends.files.undo_log import OTHER_ROOT_PREFIX, read_undo_log
from handhold.backends.marked_processes import kill_marked
from handhold.core.errors import NotRestored, SystemFailure, ToolError
from handhold.core.text.path_escaping import escape_ambiguous
from handhold.logs import warn_once

BROKER_TIMEOUT_SECONDS = 10.0  # for a broker to end after its Handhold process was killed
POLL_SECONDS = 0.01
KEPT_SUFFIX = "-kept"  # after the name of a command's folder: the folder of what could not be restored


def try_recover_command(folder: str) -> None:
    """`recover_command`; if it fails, the log stays, and so the next brokered command tries again or is refused."""
    try:
        recover_command(folder)
    except (OSError, ToolError) as error:
        warn_once("files", f"An interrupted command could not be rolled back: {error}")


def recover_command(folder: str) -> None:
    """Restore what the command with this folder in a staging area changed, and remove its undo log.

    The log of a command with several roots is in the folder of the first one; the others have a link to it.
    """
    link = Path(folder, UNDO_LOG)
    log = Path(os.path.realpath(link))
    with suppress(FileNotFoundError):
        outcome = roll_back(log)
        if outcome.conflicts:
            listed = ", ".join(outcome.conflicts[:5])
            warn_once("files", f"An interrupted command was rolled back, except where others changed files: {listed}")
        if outcome.error:
            warn_once("files", f"An interrupted command was rolled back, but not completely: {outcome.error}")
    for path in (log, link):
        path.unlink(missing_ok=True)


@dataclass(frozen=True)
class RollbackOutcome:
    conflicts: Sequence[str]  # paths that somebody else changed; theirs is there
    denied: Sequence[str]  # paths of others, whose mode, owner or time is not what it was
    error: NotRestored | None  # what could not be restored, and where its old content is
    dropped_slots: bool  # the disk was full, so what the command left is gone


def roll_back(log: Path, shared: Collection[tuple[int, int]] = (), *, is_alone: bool = False) -> RollbackOutcome:
    """Restore what can be restored. `shared` inodes stay as they are.

    Unless the command `is_alone`, a file that it wrote gets a new inode if somebody still could write to it.
    """
    fd = os.open(log, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _wait_for_broker(fd, log)
        records = read_undo_log(log)
        if all(record.kind != "ended" for record in records[-1:]) and not kill_marked(log.parent.name):
            raise SystemFailure(str(log.parent), "a process of an interrupted command cannot be killed")
        folders = [log.parent, *map(Path.readlink, log.parent.glob(f"{OTHER_ROOT_PREFIX}*"))]
        rollback = Rollback(records, folders, shared, read_birth(fd), is_alone=is_alone)
        rollback.run()
        error = _keep_copies(rollback.unrestored) if rollback.unrestored else None
        return RollbackOutcome(rollback.conflicts, rollback.denied, error, rollback.dropped_slots)
    finally:
        os.close(fd)


def _keep_copies(unrestored: Mapping[str, tuple[str, str]]) -> NotRestored:
    """Move the old contents of these paths to where no sweep removes them, next to the folder of the command."""
    kept: list[str] = []
    for _, copy in unrestored.values():
        if copy and os.path.lexists(copy):
            command = Path(copy).parent.parent
            folder = command.with_name(f"{command.name}{KEPT_SUFFIX}")
            folder.mkdir(mode=0o700, exist_ok=True)
            (folder / KEEP_FILE).touch(mode=0o600)
            kept.append(str(Path(copy).rename(folder / os.path.basename(copy))))
    return NotRestored(tuple(map(escape_ambiguous, unrestored)), tuple(kept), next(iter(unrestored.values()))[0])


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
