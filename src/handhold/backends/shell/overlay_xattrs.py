"""The markers that an overlay leaves on entries of a layer, and how they are removed.

The markers are attributes named `user.overlay.*`, and devices numbered 0:0 for deleted entries. A later overlay would
obey them, so nothing leaves a layer with one. If a command sets such an attribute, the kernel stores it under a longer
name; those are removed as well.
"""

import os
import stat
from collections.abc import Callable, Iterable, Sequence

from handhold.backends.files.commit.file_metadata import list_xattrs
from handhold.backends.files.commit.tree_copier import force_open
from handhold.backends.files.manifest import EntryState, read_entry_state
from handhold.backends.files.roots import split_names
from handhold.backends.files.staging_area import remove_tree

XATTR_PREFIX = "user.overlay."
OPAQUE_XATTR = f"{XATTR_PREFIX}opaque"  # hides the directory below
ORIGIN_XATTR = f"{XATTR_PREFIX}origin"  # copied from below
WHITEOUT_XATTR = f"{XATTR_PREFIX}whiteout"  # on an empty file: a deleted entry
CAPABILITY_XATTR = "security.capability"
PARTIAL_COPY_XATTRS = frozenset((f"{XATTR_PREFIX}redirect", f"{XATTR_PREFIX}metacopy"))  # the content is not here

DIRECTORY_FLAGS = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def is_privileged(mode: int, attributes: Iterable[str]) -> bool:
    """Whether it is a program that grants privileges to whoever starts it, or a device."""
    if stat.S_ISREG(mode):
        return bool(mode & (stat.S_ISUID | stat.S_ISGID)) or CAPABILITY_XATTR in attributes
    return stat.S_ISCHR(mode) or stat.S_ISBLK(mode)


def is_whiteout(found: os.stat_result) -> bool:
    return found.st_rdev == 0 and stat.S_ISCHR(found.st_mode)


def get_owner_ids(found: os.stat_result) -> tuple[int, int]:
    return found.st_uid, found.st_gid


def is_opaque(fd: int, found: os.stat_result) -> bool:
    """Whether a folder with that marker hides the one below. Its mode is changed if necessary, and restored."""
    if found.st_mode & stat.S_IRUSR:
        return os.getxattr(fd, OPAQUE_XATTR) == b"y"
    os.fchmod(fd, stat.S_IMODE(found.st_mode) | stat.S_IRUSR)
    try:
        return os.getxattr(fd, OPAQUE_XATTR) == b"y"
    finally:
        os.fchmod(fd, stat.S_IMODE(found.st_mode))


def strip_xattrs(fd: int, attributes: Iterable[str], found: os.stat_result) -> None:
    """Remove the markers from a file or directory. Its mode is changed if necessary, and restored."""
    ours = [name for name in attributes if name.startswith(XATTR_PREFIX)]
    if not ours:
        return
    try:
        os.removexattr(fd, ours[0])
    except PermissionError:
        mode = stat.S_IMODE(found.st_mode)
        os.fchmod(fd, mode | stat.S_IWUSR)
        try:
            for name in ours:
                os.removexattr(fd, name)
        finally:
            os.fchmod(fd, mode)
    else:
        for name in ours[1:]:
            os.removexattr(fd, name)


KeepEntry = Callable[[str, int, Sequence[str]], bool]


def clean_tree(directory: int, name: str, keep_entry: KeepEntry) -> EntryState:
    """Remove the markers from an entry and everything in it; return its state.

    `keep_entry` gets the relative path and mode of each entry and, for a file, the names of its attributes. Entries for
    which it returns False are removed.
    """
    return _TreeCleaner(directory, name, keep_entry).run()


class _TreeCleaner:
    def __init__(self, directory: int, name: str, keep_entry: KeepEntry) -> None:
        self.open_directory = directory
        self.name = name
        self.keep_entry = keep_entry
        self.unreadable: list[tuple[str, int]] = []  # directories that were not accessible, and their modes

    def run(self) -> EntryState:
        found = os.stat(self.name, dir_fd=self.open_directory, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode):
            self._strip(self.open_directory, self.name, found)
        if stat.S_ISDIR(found.st_mode):
            self._make_readable(self.open_directory, self.name, "", found)
        try:
            cleaned = read_entry_state(self.name, dir_fd=self.open_directory, accept=self._visit, whole=True)
        finally:
            for rel_path, mode in reversed(self.unreadable):
                self._restore_mode(rel_path, mode)
        if self.unreadable:  # the state as seen with the original modes
            cleaned = read_entry_state(self.name, dir_fd=self.open_directory, whole=True)
        assert cleaned is not None
        return cleaned

    def _visit(self, directory: int, name: str, rel_path: str, found: os.stat_result, fd: int) -> bool:
        mode = found.st_mode
        attributes: list[str] = []
        if stat.S_ISREG(mode):
            attributes = list_xattrs(fd) if fd >= 0 else self._strip(directory, name, found)
            if attributes:
                if WHITEOUT_XATTR in attributes and not found.st_size:
                    return self._remove(directory, name)
                if fd >= 0:
                    strip_xattrs(fd, attributes, found)
        elif stat.S_ISDIR(mode):
            self._strip(directory, name, found)
            self._make_readable(directory, name, rel_path, found)
        elif is_whiteout(found):
            return self._remove(directory, name)
        if self.keep_entry(rel_path, mode, attributes):
            return True
        return self._remove_tree(directory, name, rel_path) if stat.S_ISDIR(mode) else self._remove(directory, name)

    def _strip(self, directory: int, name: str, found: os.stat_result) -> list[str]:
        fd = force_open(directory, name, found)
        try:
            attributes = list_xattrs(fd)
            strip_xattrs(fd, attributes, found)
        finally:
            os.close(fd)
        return attributes

    def _remove(self, directory: int, name: str) -> bool:
        """Remove without changing the directory's mtime."""
        found = os.fstat(directory)
        try:
            os.unlink(name, dir_fd=directory)
        except PermissionError:
            os.fchmod(directory, 0o700)
            os.unlink(name, dir_fd=directory)
            os.fchmod(directory, stat.S_IMODE(found.st_mode))
        os.utime(directory, ns=(found.st_atime_ns, found.st_mtime_ns))
        return False

    def _remove_tree(self, directory: int, name: str, rel_path: str) -> bool:
        found = os.fstat(directory)
        remove_tree(name, directory)
        self.unreadable = [each for each in self.unreadable if each[0] != rel_path]
        os.utime(directory, ns=(found.st_atime_ns, found.st_mtime_ns))
        return False

    def _make_readable(self, directory: int, name: str, rel_path: str, found: os.stat_result) -> None:
        mode = stat.S_IMODE(found.st_mode)
        if mode & 0o500 != 0o500:
            os.chmod(name, 0o700, dir_fd=directory)
            self.unreadable.append((rel_path, mode))

    def _restore_mode(self, rel_path: str, mode: int) -> None:
        *above, name = [self.name, *split_names(rel_path)]
        fd = os.dup(self.open_directory)
        try:
            for each in above:
                fd, parent = os.open(each, DIRECTORY_FLAGS, dir_fd=fd), fd
                os.close(parent)
            os.chmod(name, mode, dir_fd=fd)
        finally:
            os.close(fd)
