"""Build the layer of a merge: as if a command had made, on the root as it is now, what the merge decided.

So a merge becomes a change set in the same way as a command: by reading its layer. Entries are copied out of the fork,
which stays as it is until the change set is committed.
"""

import errno
import os
import stat
from collections.abc import Mapping
from contextlib import suppress

from handhold.backends.files.commit.file_metadata import copy_metadata, list_xattrs
from handhold.backends.files.commit.tree_copier import CREATE_FLAGS, TreeCopier, force_open
from handhold.backends.forks.entries import LIST_FLAGS, TreeReader
from handhold.backends.forks.tree_merge import Placement, iterate_parents
from handhold.backends.shell.overlay_xattrs import WHITEOUT_XATTR, strip_xattrs


class MergeLayer:
    """Fills an empty layer, whose own folder has the metadata of the root."""

    def __init__(self, upper: int, fork: TreeReader, base: TreeReader) -> None:
        self._upper = upper
        self._fork = fork
        self._base = base
        self._copier = TreeCopier(upper)
        # Those made so far, with the side whose metadata they get.
        self._folders: list[tuple[str, TreeReader, os.stat_result]] = []

    def fill(self, placements: Mapping[str, Placement]) -> None:
        found = os.fstat(self._upper)
        for rel in sorted(placements):  # folders before what they contain
            self._make_parents(rel)
            self._place(rel, placements[rel])
        changed = {os.path.dirname(rel) for rel, placed in placements.items() if self._adds_or_removes(rel, placed)}
        for rel, side, status in reversed(self._folders):
            os.chmod(rel, stat.S_IMODE(status.st_mode), dir_fd=self._upper)
            if side is self._fork or rel not in changed:
                os.utime(rel, ns=(status.st_atime_ns, status.st_mtime_ns), dir_fd=self._upper)
        if "" not in changed:
            os.utime(self._upper, ns=(found.st_atime_ns, found.st_mtime_ns))

    def _adds_or_removes(self, rel: str, placed: Placement) -> bool:
        """Whether a name comes or goes: then the folder around it has a new time, as after any other change."""
        return placed.entry is None or self._base.stat(rel) is None

    def _make_parents(self, rel: str) -> None:
        for above in reversed([*iterate_parents(rel)]):
            with suppress(FileExistsError):
                os.mkdir(above, 0o700, dir_fd=self._upper)
                self._copy_folder_metadata(self._base, self._find_model(above), above)

    def _place(self, rel: str, placed: Placement) -> None:
        above, name = os.path.split(rel)
        if placed.entry is None:
            fd = os.open(rel, CREATE_FLAGS, 0o600, dir_fd=self._upper)
            try:
                os.setxattr(fd, WHITEOUT_XATTR, b"y")
            finally:
                os.close(fd)
        elif placed.entry.kind == "folder":
            os.mkdir(rel, 0o700, dir_fd=self._upper)
            self._copy_folder_metadata(self._fork, rel, rel)
        elif placed.data is not None:
            self._write(rel, placed, placed.data)
        else:
            self._copier.copy(self._fork.open_folder(above), name, rel)
            if placed.entry.kind == "file":
                self._strip(rel)

    def _write(self, rel: str, placed: Placement, data: bytes) -> None:
        """A merged text or a new ref, with the metadata that the merge chose."""
        assert placed.entry is not None
        metadata = placed.entry.metadata
        sides = (side for side in (self._fork, self._base) if (entry := side.read(rel)) and entry.metadata == metadata)
        target = os.open(rel, CREATE_FLAGS, 0o600, dir_fd=self._upper)
        with os.fdopen(target, "wb") as file:
            file.write(data)
            file.flush()
            if side := next(sides, None):
                with os.fdopen(side.open(rel), "rb") as source:
                    _copy_or_fail(source.fileno(), target)
            else:
                if os.geteuid() == 0:
                    os.fchown(target, *metadata.owner)
                os.fchmod(target, metadata.mode)
        self._strip(rel)

    def _find_model(self, rel: str) -> str:
        """The folder of the root whose metadata a folder gets: that at its path, or the nearest one above."""
        return next(each for each in (rel, *iterate_parents(rel), "") if self._base.open_folder(each) >= 0)

    def _copy_folder_metadata(self, side: TreeReader, model: str, rel: str) -> None:
        source = side.open(model)
        try:
            target = os.open(rel, LIST_FLAGS, dir_fd=self._upper)
            try:
                self._folders.append((rel, side, _copy_or_fail(source, target)))
                os.fchmod(target, 0o700)  # until it is filled
            finally:
                os.close(target)
        finally:
            os.close(source)
        self._strip(rel)

    def _strip(self, rel: str) -> None:
        """Remove what an overlay noted in the fork's layer."""
        status = os.stat(rel, dir_fd=self._upper, follow_symlinks=False)
        fd = force_open(self._upper, rel, status)
        try:
            strip_xattrs(fd, list_xattrs(fd), status)
        finally:
            os.close(fd)


def _copy_or_fail(source: int, target: int) -> os.stat_result:
    status = os.fstat(source)
    if not copy_metadata(source, target, status):
        raise PermissionError(errno.EPERM, "a copy would not have the owner and the attributes of the original")
    return status
