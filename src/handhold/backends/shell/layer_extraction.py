"""Move entries out of a layer: into slots of the staging area, or aside, where a conflicting version can be read.

By rename, which keeps all metadata; by copying if the layer is on another file system.
"""

import errno
import os
import stat
from pathlib import Path

from handhold.backends.files.commit.tree_copier import TreeCopier
from handhold.backends.files.manifest import LIST_FLAGS, EntryState, read_entry_state
from handhold.backends.files.staging_area import remove_tree
from handhold.backends.state.state_folder import ensure_private_folder

MAX_ASIDE_COMMANDS = 32  # commands whose versions are kept; the oldest are removed first


class LayerExtractor:
    """The slots of one command in one staging area."""

    def __init__(self, slots_fd: int, command: str, aside: Path) -> None:
        """`slots_fd` holds the command's slots; kept versions go below `aside`, which is created when needed."""
        self._slots_fd = slots_fd
        self._command = command
        self._aside = aside
        self._last_slot = 0
        self._aside_count = 0
        self._copies = TreeCopier(slots_fd)

    def reserve_slot(self) -> str:
        """An empty slot."""
        self._last_slot += 1
        return f"{self._command}/{self._last_slot}"

    def move_to_slot(self, directory: int, name: str, entry: EntryState) -> tuple[str, EntryState]:
        """Move an entry into a slot; return the slot and the entry's state there."""
        slot = self.reserve_slot()
        slot_name = str(self._last_slot)
        if try_rename(directory, name, self._slots_fd, slot_name, mode=entry.mode if entry.kind == "tree" else None):
            return slot, entry
        self._copies.copy(directory, name, slot_name)
        copied = read_entry_state(slot_name, dir_fd=self._slots_fd, whole=True)
        assert copied is not None
        return slot, copied

    def move_aside(self, directory: int, name: str, new_name: str = "") -> str:
        """Move an entry aside, optionally under another name; return its path."""
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if not self._aside_count:
            _remove_oldest(ensure_private_folder(self._aside))
        self._aside_count += 1
        while (self._aside / self._command / str(self._aside_count)).exists():
            self._aside_count += 1
        folder = ensure_private_folder(self._aside / self._command / str(self._aside_count))
        fd = os.open(folder, LIST_FLAGS)
        try:
            mode = stat.S_IMODE(found.st_mode) if stat.S_ISDIR(found.st_mode) else None
            if not try_rename(directory, name, fd, new_name or name, mode=mode):
                TreeCopier(fd).copy(directory, name, new_name or name)
        finally:
            os.close(fd)
        return str(folder / (new_name or name))


def try_rename(directory: int, name: str, to_directory: int, new_name: str, *, mode: int | None) -> bool:
    """Rename; False if the target is on another file system. `mode` is that of a directory."""
    try:
        os.rename(name, new_name, src_dir_fd=directory, dst_dir_fd=to_directory)
    except PermissionError:
        if mode is None or mode & stat.S_IWUSR:
            raise
        # Moving a directory changes its `..` entry, which needs write permission on it.
        os.chmod(name, mode | stat.S_IWUSR, dir_fd=directory)
        if not try_rename(directory, name, to_directory, new_name, mode=None):
            return False
        os.chmod(new_name, mode, dir_fd=to_directory)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        return False
    return True


def _remove_oldest(aside: Path) -> None:
    fd = os.open(aside, LIST_FLAGS)
    try:
        kept = sorted(os.listdir(fd), key=lambda name: os.stat(name, dir_fd=fd, follow_symlinks=False).st_mtime_ns)
        for name in kept[: max(0, len(kept) - MAX_ASIDE_COMMANDS + 1)]:
            remove_tree(name, fd)
    except FileNotFoundError:
        pass  # another process makes room
    finally:
        os.close(fd)
