"""Outputs too long to show, kept as files in a bounded folder of the state that the model can read.

A file is locked while its command runs, so that any process that makes room removes only finished ones.
"""

import fcntl
import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from handhold.core.ports.files import RESULTS_PATH
from handhold.logs import log_swallowed

MAX_KEPT_BYTES = 1024**3  # for all outputs together, and for one


@dataclass
class SpillFile:
    """The file of one output, open until it is finished. If the disk is full, the rest is not kept."""

    folder: Path
    name: str
    fd: int
    kept_bytes: int = 0
    _position: int = 0
    _full: bool = False

    @property
    def handle(self) -> str:
        return f"{RESULTS_PATH}/{self.name}"

    def write(self, data: memoryview | bytes, *, is_note: bool = False) -> None:
        """Append. A note is our own text and does not count as kept output."""
        data = memoryview(data)
        while data and not self._full:
            try:
                written = os.pwrite(self.fd, data, self._position)
            except OSError:  # disk full: the command continues, and what was kept stays
                self._full = True
                return
            self._position += written
            self.kept_bytes += 0 if is_note else written
            data = data[written:]

    def read(self, start: int, size: int) -> bytes:
        """Read what is there, possibly nothing: a finished file may have been removed to make room."""
        try:
            fd = os.open(self.folder / self.name, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            log_swallowed()
            return b""
        try:
            return os.pread(fd, size, start)
        finally:
            os.close(fd)

    def close(self) -> None:
        """Idempotent."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


@dataclass(frozen=True)
class ResultStore:
    """The folder of kept outputs. The oldest are removed once all together exceed `max_bytes`."""

    folder: Path
    max_bytes: int = field(default=MAX_KEPT_BYTES)

    def create(self) -> SpillFile | None:
        """A file for an output; None if it cannot be created."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            while True:
                name = f"{secrets.token_hex(4)}.txt"
                try:
                    fd = os.open(self.folder / name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                except FileExistsError:
                    continue
                spill = SpillFile(self.folder, name, fd)
                break
        except OSError:
            log_swallowed()
            return None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # no locks on this file system: as the youngest file it is unlikely to be removed
            pass
        return spill

    def finish(self, spill: SpillFile) -> None:
        """Close a complete output, and make room for it."""
        spill.close()
        self.make_room(keep_name=spill.name)

    def drop(self, spill: SpillFile) -> None:
        spill.close()
        (self.folder / spill.name).unlink(missing_ok=True)

    def make_room(self, keep_name: str = "") -> None:
        with os.scandir(self.folder) as there:
            files = [
                (status.st_mtime_ns, entry.name, status.st_size) for entry in there if (status := _stat_file(entry))
            ]
        total = sum(size for *_, size in files)
        for _, name, size in sorted(files):
            if total <= self.max_bytes:
                break
            if name != keep_name and _try_unlink(self.folder / name):
                total -= size


def _stat_file(entry: "os.DirEntry[str]") -> os.stat_result | None:
    try:
        return entry.stat(follow_symlinks=False) if entry.is_file(follow_symlinks=False) else None
    except FileNotFoundError:  # another process made room
        return None


def _try_unlink(path: Path) -> bool:
    """Remove it unless its command is still running."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        log_swallowed()
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink(missing_ok=True)
        return True
    except OSError:
        log_swallowed()
        return False
    finally:
        os.close(fd)
