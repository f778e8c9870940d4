"""The slots of a transaction's commands, and a record of the parent directories.

Exchanging a name changes the mtime of its directory, and a directory that is not writable must be made so temporarily.
The record stores the previous state, so that undo and recovery restore it.
"""

import json
import os
import stat
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from handhold.backends.files.commit.file_ops import CommitTree
from handhold.backends.files.staging_area import KEEP_FILE, RemovalBudget, StagingArea
from handhold.core.errors import ContentDropped
from handhold.core.plans import FileChange, StagedContent
from handhold.core.ports.contents import ContentStore

PARENT_RECORD_FILE = "note"
REMOVAL_PORTION = 300  # entries of dropped slots that one change removes at least
MAX_REMOVED_COMMANDS = 100  # at a time
WRITE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC

ParentStates = dict[str, tuple[int, int]]  # by path: permission bits and mtime


@dataclass
class ParentRecord:
    """What is known about the parent directories of a command's changes."""

    transaction: str = ""  # the last one that began
    now: ParentStates = field(default_factory=ParentStates)  # the state when it began
    before: dict[str, int] = field(default_factory=dict[str, int])  # mtimes before the command was applied
    after: dict[str, int] = field(default_factory=dict[str, int])  # mtimes afterwards

    @classmethod
    def read(cls, directory: int) -> "ParentRecord":
        try:
            with os.fdopen(os.open(PARENT_RECORD_FILE, READ_FLAGS, dir_fd=directory), "rb") as file:
                facts: dict[str, Any] = json.loads(file.read())
        except (FileNotFoundError, ValueError):
            return cls()
        now = {path: (mode, mtime) for path, (mode, mtime) in facts["now"].items()}
        return cls(facts["transaction"], now, facts["before"], facts["after"])

    def write(self, directory: int) -> None:
        fd = os.open(f"{PARENT_RECORD_FILE}.new", WRITE_FLAGS, 0o600, dir_fd=directory)
        with os.fdopen(fd, "wb") as file:
            file.write(json.dumps(self.__dict__).encode())
        os.rename(f"{PARENT_RECORD_FILE}.new", PARENT_RECORD_FILE, src_dir_fd=directory, dst_dir_fd=directory)

    def mtime_to_restore(self, path: str) -> int | None:
        """The mtime to restore, unless somebody else has changed the directory since."""
        mtime = self.now[path][1]
        if mtime == self.after.get(path):
            return self.before.get(path)
        return self.after.get(path) if mtime == self.before.get(path) else None


class Slots:
    """The commands' folders in the staging areas, as descriptors."""

    def __init__(self, tree: CommitTree) -> None:
        self._tree = tree
        self._fds: dict[str, int] = {}  # by command; names are unique
        self._staging_areas: dict[str, StagingArea] = {}

    @contextmanager
    def close_on_exit(self) -> Generator["Slots"]:
        try:
            yield self
        finally:
            while self._fds:
                os.close(self._fds.popitem()[1])

    def open_folder(self, path: str, slot: str) -> tuple[int, str]:
        """The folder that contains the slot of this path, and its name there."""
        command, _, name = slot.partition("/")
        if command not in self._fds:
            area = self._tree.find_staging_area(path)
            if area is None:
                raise ContentDropped((path,))
            try:
                self._fds[command] = area.open_folder(command)
            except FileNotFoundError:
                raise ContentDropped((path,)) from None
            self._staging_areas[command] = area
        return self._fds[command], name

    def release(self) -> None:
        for command, area in self._staging_areas.items():
            area.release(command)

    def mark_kept(self) -> None:
        """Mark them as holding content that could not be identified: they are not swept."""
        for fd in self._fds.values():
            os.close(os.open(KEEP_FILE, WRITE_FLAGS, 0o600, dir_fd=fd))

    @property
    def descriptors(self) -> Collection[int]:
        return self._fds.values()


def remove_dropped(tree: CommitTree, contents: ContentStore, changes: Sequence[FileChange]) -> None:
    """Remove a portion of the slots that were dropped: more after a larger change, or if they take too much space."""
    sides = (side for each in changes for side in (each.before, each.after))
    added = sum(side.entry_count for side in sides if isinstance(side, StagedContent))
    budget = RemovalBudget(REMOVAL_PORTION + 2 * max(added, len(changes)))
    while commands := contents.dropped_slots(MAX_REMOVED_COMMANDS):
        removed = list(takewhile(lambda each: _remove(tree, each, budget), commands))
        contents.forget_dropped_slots(removed)
        if budget.left <= 0:
            if contents.can_removal_wait():
                return
            budget.left = REMOVAL_PORTION


def _remove(tree: CommitTree, command: str, budget: RemovalBudget) -> bool:
    """Whether nothing is left of it. A slot does not name its root, so it may be in any staging area."""
    budget.left -= 1
    return all(area.remove(command, budget) for area in tree.staging_areas)


def set_mtime(fd: int, mtime: int) -> None:
    found = os.fstat(fd)
    if found.st_mtime_ns != mtime:
        with suppress(PermissionError):  # of a directory that is not ours
            os.utime(fd, ns=(found.st_atime_ns, mtime))


def permission_bits(status: os.stat_result) -> int:
    return stat.S_IMODE(status.st_mode)
