"""Taking things out of a layer: into slots of the shelf, or to where a version that did not count can be read.

By a rename, which brings along all that belongs to a thing; where the layer lies on another file system, by copying.
"""

import errno
import os
import stat
from pathlib import Path

from handhold.world.files.commit.copies import Copies
from handhold.world.files.manifest import LIST, Thing, thing
from handhold.world.files.shelf import remove_tree
from handhold.world.state.folder import private

MOST_ASIDE = 32  # commands whose versions are kept; the oldest go first


class Taking:
    """The slots of one command on one shelf."""

    def __init__(self, folder: int, command: str, aside: Path) -> None:
        """`folder` is the command's on the shelf; what is kept goes below `aside`, which is made when it is needed."""
        self._folder = folder
        self._command = command
        self._aside = aside
        self._last = 0
        self._kept = 0
        self._copies = Copies(folder)

    def reserve(self) -> str:
        """An empty slot."""
        self._last += 1
        return f"{self._command}/{self._last}"

    def take(self, directory: int, name: str, what: Thing) -> tuple[str, Thing]:
        """Move what stands there into a slot; which one, and what it is there."""
        slot = self.reserve()
        to = str(self._last)
        if moved(directory, name, self._folder, to, mode=what.mode if what.kind == "tree" else None):
            return slot, what
        self._copies.copy(directory, name, to)
        copied = thing(to, dir_fd=self._folder)
        assert copied is not None
        return slot, copied

    def keep(self, directory: int, name: str, to: str = "") -> str:
        """Move what stands there aside, under another name if told; its path there."""
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if not self._kept:
            _make_room(private(self._aside))
        self._kept += 1
        while (self._aside / self._command / str(self._kept)).exists():
            self._kept += 1
        folder = private(self._aside / self._command / str(self._kept))
        fd = os.open(folder, LIST)
        try:
            mode = stat.S_IMODE(found.st_mode) if stat.S_ISDIR(found.st_mode) else None
            if not moved(directory, name, fd, to or name, mode=mode):
                Copies(fd).copy(directory, name, to or name)
        finally:
            os.close(fd)
        return str(folder / (to or name))


def moved(directory: int, name: str, to_directory: int, to: str, *, mode: int | None) -> bool:
    """Rename; False if that cannot be, between two file systems. `mode` is a directory's."""
    try:
        os.rename(name, to, src_dir_fd=directory, dst_dir_fd=to_directory)
    except PermissionError:
        if mode is None or mode & stat.S_IWUSR:
            raise
        # What must not be written must not be moved elsewhere either: its `..` is something in it.
        os.chmod(name, mode | stat.S_IWUSR, dir_fd=directory)
        if not moved(directory, name, to_directory, to, mode=None):
            return False
        os.chmod(to, mode, dir_fd=to_directory)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        return False
    return True


def _make_room(aside: Path) -> None:
    fd = os.open(aside, LIST)
    try:
        kept = sorted(os.listdir(fd), key=lambda name: os.stat(name, dir_fd=fd, follow_symlinks=False).st_mtime_ns)
        for name in kept[: max(0, len(kept) - MOST_ASIDE + 1)]:
            remove_tree(name, fd)
    except FileNotFoundError:
        pass  # somebody else makes room
    finally:
        os.close(fd)
