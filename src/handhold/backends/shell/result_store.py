"""Outputs too long to be shown, kept as files: a bounded folder of the state, shown to a model as one of its own.

A file is locked while its command runs, so whoever makes room, in any process, takes only what is finished.
"""

import fcntl
import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from handhold.backends.shell.host_paths import RESULTS_PATH

MAX_KEPT_BYTES = 1024**3  # bytes, of all outputs together and of one


@dataclass
class SpillFile:
    """The file of one output, open until it is finished. What the disk does not take is not kept."""

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
        """At its end. A note is ours: it does not count as kept."""
        data = memoryview(data)
        while data and not self._full:
            try:
                written = os.pwrite(self.fd, data, self._position)
            except OSError:  # no room: the command goes on, and what was kept stays
                self._full = True
                return
            self._position += written
            self.kept_bytes += 0 if is_note else written
            data = data[written:]

    def read(self, start: int, size: int) -> bytes:
        """Of what is there, which may be nothing: a finished one can have made room for others."""
        try:
            fd = os.open(self.folder / self.name, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return b""
        try:
            return os.pread(fd, size, start)
        finally:
            os.close(fd)

    def close(self) -> None:
        """Twice is as good as once."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


@dataclass(frozen=True)
class ResultStore:
    """The folder of offloaded outputs. The oldest go first once they hold more than `max_bytes` together."""

    folder: Path
    max_bytes: int = field(default=MAX_KEPT_BYTES)

    def create(self) -> SpillFile | None:
        """A file for an output; None where none can be made."""
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
            return None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # a file system without locks: nobody will make room at its cost in the seconds it is young
            pass
        return spill

    def finish(self, spill: SpillFile) -> None:
        """It is whole: the others make room for it."""
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
    except FileNotFoundError:  # somebody else made room
        return None


def _try_unlink(path: Path) -> bool:
    """Whether it could go: the output of a running command stays."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink(missing_ok=True)
        return True
    except OSError:
        return False
    finally:
        os.close(fd)
