"""Exchange what is at a path with what is in its slot.

If the file system can exchange names, that is one step. Otherwise, or if an entry cannot be renamed (a directory in an
image layer below an overlay fails with EXDEV), the old entry is moved aside first, as `<slot>.old`. After an
interruption the inodes tell which is which, so that rolling back works from every state, repeatedly. (Without
NOREPLACE, an entry being moved has two names for a moment, one of which is then dropped.)
"""

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from handhold.backends.files.commit.directory_metadata import apply_folder_metadata, chmod_at, is_before_or_after
from handhold.backends.files.commit.entry_checks import OWNER_RWX, is_intact, is_same_entry, is_unchanged
from handhold.backends.files.commit.file_metadata import file_id, lstat_at
from handhold.backends.files.commit.file_ops import FileOps
from handhold.backends.files.commit.slots import Slots, permission_bits
from handhold.backends.files.commit.tree_copier import copy_tree
from handhold.backends.files.staging_area import remove_tree
from handhold.core.errors import ContentDropped, NotDirectory, NotFound, Stale
from handhold.core.plans import DirectoryMetadata, FileChange, StagedContent

OLD_SUFFIX = ".old"  # after a slot's name: the complete old entry, on its way to the slot or back
PARTIAL_SUFFIX = ".part"  # an incomplete copy of it

SwapSide = Literal["old", "new", "other"]


@dataclass(slots=True)
class SwapStep:
    """The two sides of an exchange; one may be absent."""

    path: str
    before: StagedContent | None
    after: StagedContent | None
    slot: str
    unverified: bool = False  # it could not be verified because a parent directory was not accessible
    started: bool = False  # something may have to be rolled back

    @classmethod
    def from_change(cls, change: FileChange) -> "SwapStep":
        before, after = change.before, change.after
        assert before is None or isinstance(before, StagedContent)
        assert after is None or isinstance(after, StagedContent)
        content = after or before
        assert content is not None
        return cls(change.path, before, after, content.slot)


class EffectsSwapper:
    """Exchanges steps forwards and back.

    Directories that are not writable are made writable until `restore_directory_modes`.
    """

    def __init__(self, ops: FileOps, slots: Slots) -> None:
        self._ops = ops
        self._slots = slots
        self.original_modes: dict[str, int] = {}  # of directories that were made writable

    # --- forwards

    def verify(self, step: SwapStep) -> None:
        """Raise Stale unless the path is its `before` and the slot is the new entry; ContentDropped if it is empty."""
        try:
            is_unmoved = self.is_before(step)
        except (NotFound, NotDirectory):
            is_unmoved = False
        if not is_unmoved:
            raise Stale(step.path)
        folder, slot = self._slots.open_folder(step.path, step.slot)
        in_slot = lstat_at(folder, slot)
        if step.after is None:
            if in_slot is not None:
                raise Stale(step.path)
        elif in_slot is None:
            raise ContentDropped((step.path,))
        elif not is_intact(folder, slot, step.after):
            raise Stale(step.path)

    def is_before(self, step: SwapStep) -> bool:
        directory, name = self._ops.open_parent(step.path)
        if step.before is None:
            return lstat_at(directory, name) is None
        return is_unchanged(directory, name, step.before)

    def swap_in(self, step: SwapStep) -> None:
        """Raise Stale if somebody else changed the path meanwhile: the entry that came out shows that."""
        directory, name = self._ops.open_parent(step.path)
        folder, slot = self._slots.open_folder(step.path, step.slot)
        try:
            try:
                self._swap_in(step, directory, name, folder, slot)
            except PermissionError:
                if not self._make_writable(step):
                    raise
                self._swap_back(step, self._identify(directory, name, step), directory, name, folder, slot)
                self._swap_in(step, directory, name, folder, slot)
                self._restore_tree_modes(step)
        except (FileExistsError, FileNotFoundError):
            raise Stale(step.path) from None
        if step.before is not None and not is_intact(folder, slot, step.before):
            raise Stale(step.path)

    def _swap_in(self, step: SwapStep, directory: int, name: str, folder: int, slot: str) -> None:
        ops = self._ops
        if step.before is None:
            return ops.move(folder, slot, name, into=directory)
        try:
            if step.after is None:
                return ops.move(directory, name, slot, into=folder)
            if ops.swap(directory, name, slot, into=folder):
                return None
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
        self._move_aside(directory, name, folder, slot)
        if step.after is not None:
            ops.move(folder, slot, name, into=directory)
        return ops.move(folder, slot + OLD_SUFFIX, slot)

    def _move_aside(self, directory: int, name: str, folder: int, slot: str) -> None:
        try:
            return self._ops.move(directory, name, slot + OLD_SUFFIX, into=folder)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
        copy_tree(directory, name, folder, slot + PARTIAL_SUFFIX)
        self._ops.move(folder, slot + PARTIAL_SUFFIX, slot + OLD_SUFFIX)
        remove_tree(name, directory)
        return None

    # --- back

    def swap_back(self, step: SwapStep, *, deep: bool) -> bool:
        """Whether the path is its `before` again. What somebody else put there stays.

        `deep` compares a whole tree before moving it: time has passed, and somebody may have worked in it.
        """
        directory, name = self._ops.open_parent(step.path)
        folder, slot = self._slots.open_folder(step.path, step.slot)
        if lstat_at(folder, slot + PARTIAL_SUFFIX) is not None:
            remove_tree(slot + PARTIAL_SUFFIX, folder)
        self._restore_tree_modes(step)
        side = self._identify(directory, name, step, deep=deep)
        try:
            return self._swap_back(step, side, directory, name, folder, slot)
        except PermissionError:
            if not self._make_writable(step):
                raise
        is_restored = self._swap_back(step, side, directory, name, folder, slot)
        self._restore_tree_modes(step)
        return is_restored

    def _swap_back(
        self, step: SwapStep, side: SwapSide | None, directory: int, name: str, folder: int, slot: str
    ) -> bool:
        ops = self._ops
        in_slot, moved_aside = lstat_at(folder, slot), lstat_at(folder, slot + OLD_SUFFIX)
        if in_slot and moved_aside and file_id(in_slot) == file_id(moved_aside):
            os.unlink(slot + OLD_SUFFIX, dir_fd=folder)
            moved_aside = None
        if moved_aside is not None:
            if side == "new":
                self._move_to_slot(directory, name, folder, slot)
            elif side == "old":
                remove_tree(name, directory)  # what is left of it: the complete entry is aside
            return side != "other" and self._try_move_back(directory, name, folder, slot + OLD_SUFFIX)
        if side == "new":
            if step.before is None:
                self._move_to_slot(directory, name, folder, slot)
            elif in_slot is None:
                return False
            elif not ops.swap(directory, name, slot, into=folder):
                ops.move(folder, slot, slot + OLD_SUFFIX)
                self._move_to_slot(directory, name, folder, slot)
                ops.move(folder, slot + OLD_SUFFIX, name, into=directory)
            return True
        if side is None:
            if step.before is None:
                return True
            wanted = step.after is None or self._identify(folder, slot, step) != "new"
            return in_slot is not None and wanted and self._try_move_back(directory, name, folder, slot)
        if in_slot is not None and file_id(in_slot) == file_id(os.stat(name, dir_fd=directory, follow_symlinks=False)):
            os.unlink(slot, dir_fd=folder)  # a second name from moving it out
        return side == "old"

    def _move_to_slot(self, directory: int, name: str, folder: int, slot: str) -> None:
        here, there = lstat_at(directory, name), lstat_at(folder, slot)
        if here and there and file_id(here) == file_id(there):
            os.unlink(name, dir_fd=directory)
        else:
            self._ops.move(directory, name, slot, into=folder)

    def _try_move_back(self, directory: int, name: str, folder: int, slot: str) -> bool:
        try:
            self._ops.move(folder, slot, name, into=directory)
        except FileExistsError:
            return False
        return True

    def _identify(self, directory: int, name: str, step: SwapStep, *, deep: bool = False) -> SwapSide | None:
        found = lstat_at(directory, name)
        if found is None:
            return None
        sides: tuple[tuple[SwapSide, StagedContent | None], ...] = (("old", step.before), ("new", step.after))
        for side, content in sides:
            if content is not None and file_id(found) == content.inode:
                if not is_same_entry(found, content) or (
                    deep and side == "new" and content.kind == "tree" and not is_unchanged(directory, name, content)
                ):
                    return "other"
                return side
        for side, content in sides:
            if content is not None and is_unchanged(directory, name, content):
                return side
        return "other"

    # --- permission to move

    def _make_writable(self, step: SwapStep) -> bool:
        """Make directories writable if we own them; return whether that changed anything."""
        directory, _ = self._ops.open_parent(step.path)
        found = os.fstat(directory)
        opened = False
        if found.st_uid == os.geteuid() and permission_bits(found) & OWNER_RWX != OWNER_RWX:
            self.original_modes.setdefault(os.path.dirname(step.path), permission_bits(found))
            os.fchmod(directory, permission_bits(found) | OWNER_RWX)
            opened = True
        for fd, at, there, tree in self._find_trees(step):
            if there.st_uid == os.geteuid() and permission_bits(there) & OWNER_RWX != OWNER_RWX:
                chmod_at(fd, at, tree.mode | OWNER_RWX)
                opened = True
        return opened

    def _restore_tree_modes(self, step: SwapStep) -> None:
        for fd, at, there, tree in self._find_trees(step):
            if permission_bits(there) != tree.mode:
                chmod_at(fd, at, tree.mode)

    def _find_trees(self, step: SwapStep) -> Iterator[tuple[int, str, os.stat_result, StagedContent]]:
        """Those of the two entries that are trees, wherever they are now."""
        trees = [content for content in (step.before, step.after) if content is not None and content.kind == "tree"]
        if trees:
            folder, slot = self._slots.open_folder(step.path, step.slot)
            directory, name = self._ops.open_parent(step.path)
            for fd, at in ((directory, name), (folder, slot), (folder, slot + OLD_SUFFIX)):
                there = lstat_at(fd, at)
                for tree in trees:
                    if there is not None and is_same_entry(there, tree):
                        yield fd, at, there, tree

    def restore_directory_modes(self) -> None:
        while self.original_modes:
            path, mode = next(iter(self.original_modes.items()))
            self._ops.chmod_directory(path, mode)
            del self.original_modes[path]

    # --- directories that stay

    def make_folders_writable(self, changes: list[FileChange]) -> None:
        """So that their contents can be reached."""
        for change in sorted(changes, key=lambda each: each.path):
            found = self._ops.stat_directory(change.path)
            if found and found.st_uid == os.geteuid() != 0 and permission_bits(found) & OWNER_RWX != OWNER_RWX:
                self._ops.chmod_directory(change.path, permission_bits(found) | OWNER_RWX)

    def apply_folder_changes(self, changes: list[FileChange], *, undo: bool) -> list[str]:
        """Apply or revert their metadata; return those that somebody else changed."""
        others: list[str] = []
        for change in sorted(changes, key=lambda each: each.path, reverse=True):
            assert isinstance(change.before, DirectoryMetadata)
            assert isinstance(change.after, DirectoryMetadata)
            if self._ops.stat_directory(change.path) is None:
                others.append(change.path)
                continue
            with self._ops.open_proc_path(change.path) as place:
                if is_before_or_after(place, change.before, change.after, OWNER_RWX):
                    apply_folder_metadata(place, change.before if undo else change.after)
                else:
                    others.append(change.path)
        return others
