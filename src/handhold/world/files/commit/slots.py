"""The slots of the commands that a transaction is about, and a note beside them: how the directories around were.

Exchanging a name changes the times of the directory it is in, and one that may not be written must be opened for
the moment. The note says how each of them was before, so that taking back, or recovery, leaves them so.
"""

import json
import os
import stat
from collections.abc import Collection, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from handhold.core.errors import ContentDropped
from handhold.core.ports import Contents
from handhold.world.files.commit.hands import Tree
from handhold.world.files.shelf import LEFT, Shelf

NOTE = "note"
WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC

Parents = dict[str, tuple[int, int]]  # by path: permission bits and mtime


@dataclass
class Note:
    """What is known of the directories around a command's changes."""

    transaction: str = ""  # the last one that began
    now: Parents = field(default_factory=Parents)  # as they were when it did
    before: dict[str, int] = field(default_factory=dict[str, int])  # mtimes before the command counted
    after: dict[str, int] = field(default_factory=dict[str, int])  # and afterwards

    @classmethod
    def read(cls, directory: int) -> "Note":
        try:
            with os.fdopen(os.open(NOTE, READ, dir_fd=directory), "rb") as file:
                facts: dict[str, Any] = json.loads(file.read())
        except (FileNotFoundError, ValueError):
            return cls()
        now = {path: (mode, mtime) for path, (mode, mtime) in facts["now"].items()}
        return cls(facts["transaction"], now, facts["before"], facts["after"])

    def write(self, directory: int) -> None:
        fd = os.open(f"{NOTE}.new", WRITE, 0o600, dir_fd=directory)
        with os.fdopen(fd, "wb") as file:
            file.write(json.dumps(self.__dict__).encode())
        os.rename(f"{NOTE}.new", NOTE, src_dir_fd=directory, dst_dir_fd=directory)

    def was(self, path: str) -> int | None:
        """The mtime that a directory gets back, if nobody else has changed it since we did."""
        mtime = self.now[path][1]
        if mtime == self.after.get(path):
            return self.before.get(path)
        return self.after.get(path) if mtime == self.before.get(path) else None


class Slots:
    """The folders of commands on the shelves, as descriptors."""

    def __init__(self, tree: Tree, contents: Contents) -> None:
        self._tree = tree
        self._contents = contents
        self._open: dict[str, int] = {}  # by command: no two have one name
        self._shelves: dict[str, Shelf] = {}

    @contextmanager
    def closing(self) -> Generator["Slots"]:
        try:
            yield self
        finally:
            while self._open:
                os.close(self._open.popitem()[1])

    def folder(self, path: str, slot: str) -> tuple[int, str]:
        """The folder that the slot of this path is in, and its name there."""
        command, _, name = slot.partition("/")
        if command not in self._open:
            shelf = self._tree.shelf_at(path)
            if shelf is None:
                raise ContentDropped((path,))
            try:
                self._open[command] = shelf.open(command)
            except FileNotFoundError:
                raise ContentDropped((path,)) from None
            self._shelves[command] = shelf
        return self._open[command], name

    def hand_over(self) -> None:
        for command, shelf in self._shelves.items():
            shelf.hand_over(command)

    def sweep(self) -> None:
        """Remove what had to go meanwhile. What others left is swept when a shelf is opened: that takes longer."""
        if gone := self._contents.gone():
            for shelf in self._tree.shelves:
                shelf.sweep(self._contents.slots, gone)

    def leave(self) -> None:
        """Mark them as holding what nobody could place: they are not swept."""
        for fd in self._open.values():
            os.close(os.open(LEFT, WRITE, 0o600, dir_fd=fd))

    @property
    def descriptors(self) -> Collection[int]:
        return self._open.values()


def set_mtime(fd: int, mtime: int) -> None:
    found = os.fstat(fd)
    if found.st_mtime_ns != mtime:
        with suppress(PermissionError):  # of a directory that is not ours to date
            os.utime(fd, ns=(found.st_atime_ns, mtime))


def mode_of(found: os.stat_result) -> int:
    return stat.S_IMODE(found.st_mode)
