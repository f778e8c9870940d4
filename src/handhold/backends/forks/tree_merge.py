"""Three-way merge of a fork into one root: what the fork started from, what it has now, and what the root has now.

Where only the fork changed a path, its version is placed; where only the root did, the root's stays. Where both did,
texts are merged line by line, and everything else is a conflict. Nothing is written here.
"""

import os
import stat
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Literal, NamedTuple

from handhold.backends.forks.ancestors import ABSENT, Ancestor, RootAncestors, is_unchanged
from handhold.backends.forks.entries import Entry, Metadata, TreeReader
from handhold.backends.forks.fork_layer import LayerItem
from handhold.backends.forks.text_merge import MergedText

Side = Literal["fork", "base", ""]
# By the hash of the ancestor, with the side that decides conflicts; None: it is not kept.
MergeTexts = Callable[[str, bytes, bytes, Side], MergedText | None]


class Placement(NamedTuple):
    """What a merge puts at a path: an entry of the fork, a merged content, or nothing."""

    entry: Entry | None  # None: the path is deleted
    data: bytes | None = None  # the content, if the fork does not have it


class PathConflict(NamedTuple):
    """A path that was changed in the fork and in the root."""

    rel: str
    reason: str
    text: str = ""  # a text with both sides


class TreeMerge:
    """The merge of one root. `placements` and `conflicts` are complete after `run`."""

    def __init__(
        self,
        layer: TreeReader,
        items: Sequence[LayerItem],
        base: TreeReader,
        ancestors: RootAncestors,
        merge_texts: MergeTexts,
        take: Callable[[str], Side],
    ) -> None:
        self._layer = layer
        self._items = {item.rel: item for item in items}
        self._base = base
        self._ancestors = ancestors
        self._merge_texts = merge_texts
        self._take = take
        self.placements: dict[str, Placement] = {}
        self.conflicts: dict[str, PathConflict] = {}

    @property
    def paths(self) -> list[str]:
        """Every path that the fork may have changed."""
        return sorted({*self._items, *self._ancestors.records})

    def run(self, paths: Collection[str]) -> None:
        for rel in sorted(paths):
            self._decide(rel)
        self._place_parents()
        self._check_replaced_folders()
        self._keep_filled_folders()

    def read_fork(self, rel: str, *, hashed: bool = True) -> Entry | None:
        item = self._items.get(rel)
        return None if item is None or item.is_deletion else self._layer.read(rel, item.found, hashed=hashed)

    # --- one path

    def _decide(self, rel: str) -> None:
        ancestor, found = self._ancestors.get(rel), self._base.stat(rel)
        if ancestor == ABSENT and found is None:
            if (new := self.read_fork(rel, hashed=False)) is not None:
                self.placements[rel] = Placement(new)
            return
        theirs = ancestor.entry if is_unchanged(ancestor, found) else self._base.read(rel, found)
        ours = self.read_fork(rel)
        if ours == theirs or (ancestor.is_known and ours == ancestor.entry):
            return
        if ancestor.is_known and theirs == ancestor.entry:
            self.placements[rel] = Placement(ours)
            return
        merged = self._merge(rel, ancestor, ours, theirs)
        if isinstance(merged, PathConflict):
            self._resolve(merged, ours)
        elif not self._is_there(rel, merged, theirs):
            self.placements[rel] = merged

    def _is_there(self, rel: str, placed: Placement, theirs: Entry | None) -> bool:
        """Whether the root has it already, as after a merge that was killed before it removed the fork."""
        if not placed.entry or not theirs or placed.entry.metadata != theirs.metadata:
            return False
        return placed.data is None or placed.data == self._base.read_bytes(rel)

    def _merge(
        self, rel: str, ancestor: Ancestor, ours: Entry | None, theirs: Entry | None
    ) -> Placement | PathConflict:
        old = ancestor.entry
        if ours is None or theirs is None:
            return PathConflict(rel, "deleted in the fork" if ours is None else "deleted in the workspace")
        if old is None or old.kind != ours.kind or old.kind != theirs.kind:
            return PathConflict(rel, "changed in both" if ancestor != ABSENT else "created in both")
        metadata = _merge_metadata(old.metadata, ours.metadata, theirs.metadata)
        if metadata is None:
            return PathConflict(rel, "its mode, owner or attributes were changed in both")
        if old.kind == "folder":
            return Placement(Entry("folder", metadata))
        if old.kind != "file":
            return PathConflict(rel, "changed in both")
        if ours.hash == theirs.hash or old.hash == ours.hash:
            return Placement(Entry("file", metadata, theirs.hash), self._base.read_bytes(rel))
        if old.hash == theirs.hash:
            return Placement(Entry("file", metadata, ours.hash), self._layer.read_bytes(rel))
        texts = old.hash, self._layer.read_bytes(rel), self._base.read_bytes(rel)
        merged = self._merge_texts(*texts, "")
        if merged and merged.has_conflicts and (side := self._take(rel)):
            merged = self._merge_texts(*texts, side)  # the side decides the lines that conflict, and no others
        if merged is None:
            return PathConflict(rel, "changed in both, and not a text whose original is kept")
        if merged.has_conflicts:
            return PathConflict(rel, "the same lines were changed in both", merged.data.decode(errors="replace"))
        return Placement(Entry("file", metadata), merged.data)

    def _resolve(self, conflict: PathConflict, ours: Entry | None) -> bool:
        """Take the side that was asked for, or report the conflict; return whether the fork's side was taken."""
        side = self._take(conflict.rel)
        if side == "fork":
            self.placements[conflict.rel] = Placement(ours)
        elif side == "base":
            self.placements.pop(conflict.rel, None)
        else:
            self.conflicts.setdefault(conflict.rel, conflict)
        return side == "fork"

    # --- paths together

    def _place_parents(self) -> None:
        """A new entry needs a folder around it, also where the root has none any more."""
        for rel in sorted(rel for rel, placed in self.placements.items() if placed.entry is not None):
            for above in iterate_parents(rel) if rel in self.placements else ():
                placed = self.placements.get(above)
                if (placed and placed.entry and placed.entry.kind == "folder") or self._is_base_folder(above):
                    break
                ours = self.read_fork(above)
                if self._base.stat(above) is not None:
                    conflict = PathConflict(above, "a folder in the fork, and changed in the workspace")
                    if not self._resolve(conflict, ours):
                        self._remove_below(above)
                        break
                self.placements[above] = Placement(ours)

    def _check_replaced_folders(self) -> None:
        """A folder of the root is replaced by something else only if everything in it goes."""
        for rel, placed in sorted(self.placements.items()):
            if placed.entry is None or placed.entry.kind == "folder" or rel not in self.placements:
                continue
            if self._is_base_folder(rel):
                if self._is_kept(rel):
                    conflict = PathConflict(rel, "the workspace has a folder there with other files in it")
                    self._resolve(conflict, placed.entry)
                self._remove_below(rel)

    def _keep_filled_folders(self) -> None:
        """A folder is deleted only if everything in it is; what is in it then needs no placement of its own."""
        deleted = sorted((rel for rel, placed in self.placements.items() if placed.entry is None), reverse=True)
        for rel in deleted:
            if self._is_base_folder(rel) and self._is_kept(rel):
                del self.placements[rel]
        gone = {rel for rel, placed in self.placements.items() if placed.entry is None}
        for rel in [rel for rel in gone if not gone.isdisjoint(iterate_parents(rel))]:
            del self.placements[rel]

    def _remove_below(self, rel: str) -> None:
        """Remove the placements in a folder: it stays as the root has it, or goes as a whole."""
        for inner in [each for each in self.placements if each.startswith(f"{rel}/")]:
            del self.placements[inner]

    def _is_base_folder(self, rel: str) -> bool:
        found = self._base.stat(rel)
        return found is not None and stat.S_ISDIR(found.st_mode)

    def _is_kept(self, rel: str) -> bool:
        """Whether something in this folder of the root stays."""
        return any(self._stays(f"{rel}/{name}") for name in self._base.list_names(rel))

    def _stays(self, rel: str) -> bool:
        placed = self.placements.get(rel)
        return placed is None or placed.entry is not None or (self._is_base_folder(rel) and self._is_kept(rel))


def _merge_metadata(old: Metadata, ours: Metadata, theirs: Metadata) -> Metadata | None:
    if ours in (theirs, old):
        return theirs
    return ours if theirs == old else None


def iterate_parents(rel: str) -> Iterator[str]:
    """The folders above a path, the nearest first, without the root."""
    while rel := os.path.dirname(rel):
        yield rel
