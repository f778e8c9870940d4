"""The merge of a fork into one root, with its repositories and without what git ignores."""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from handhold.backends.files.os_errors import translate_os_errors
from handhold.backends.forks.ancestors import ABSENT, Ancestor, RootAncestors, keep_text
from handhold.backends.forks.fork_folder import open_base
from handhold.backends.forks.fork_mount import MountedFork
from handhold.backends.forks.git_objects import add_objects
from handhold.backends.forks.ignored_files import find_git_folder, find_ignored
from handhold.backends.forks.merge_layer import MergeLayer
from handhold.backends.forks.repositories import ForkedRepository, find_base_repositories, find_unmerged_pointers
from handhold.backends.forks.text_merge import MergedText, merge_texts
from handhold.backends.forks.tree_merge import PathConflict, Placement, Side, TreeMerge
from handhold.backends.programs import CompletedProcess
from handhold.core.text.path_escaping import format_path

MAX_NAMED = 5  # paths in a note

# Which side wins a conflict, by path: relative to the first root, or absolute. "" is for all others.
Take = Mapping[str, Side]


@dataclass
class MergeReport:
    """What a merge did."""

    fork: str
    paths: list[str] = field(default_factory=list[str])  # that it changed
    branches: list[str] = field(default_factory=list[str])  # git refs that the fork's branches have now
    ignored: list[str] = field(default_factory=list[str])  # that git ignores, and that were therefore left in the fork
    notes: list[str] = field(default_factory=list[str])
    dropped: bool = False  # whether the fork is gone: nothing was left in it


class ChosenSides:
    """The sides that somebody chose. `unused` are paths at which no conflict was found so far."""

    def __init__(self, take: Take, first: str) -> None:
        self._sides: Take = {os.path.normpath(os.path.join(first, path)): take[path] for path in take if path}
        self._default: Side = take.get("", "")
        self.unused = {*self._sides}

    def choose(self, path: str) -> Side:
        self.unused.discard(path)
        return self._sides.get(path, self._default)


class RootMerge:
    """The merge of one root's layer."""

    def __init__(
        self,
        mounted: MountedFork,
        real: str,
        known: Mapping[str, RootAncestors],
        sides: ChosenSides,
        report: MergeReport,
    ) -> None:
        self._mounted = mounted
        self._folder = mounted.fork
        self._n = self._folder.info.roots.index(real)
        self._real = real
        self._ancestors = known.get(real, RootAncestors())
        self._sides = sides
        self._report = report
        self._objects: list[str] = []
        self._merged: set[str] = set()  # paths; not what git ignores, nor repositories

    def fill(self, upper: str, *, include_ignored: bool) -> Collection[PathConflict]:
        """Fill the layer of the merge; returns the conflicts, if there are any."""
        real = self._real
        with self._folder.open_layer(self._n) as layer, open_base(real) as base, translate_os_errors(real):
            items = self._folder.list_items(self._n, layer)

            def take(rel: str) -> Side:
                return self._sides.choose(os.path.join(real, rel))

            merge = TreeMerge(layer, items, base, self._ancestors, self._merge_texts, take)
            repositories = find_base_repositories(items, base)
            inside = {rel for rel in merge.paths if find_git_folder(rel) in repositories}
            pointers = {*find_unmerged_pointers(items, layer, base, repositories, real)}
            paths = {*merge.paths} - inside - pointers
            if not include_ignored:
                ignored = find_ignored(self._folder.name, real, sorted(paths), layer, base, self._mounted.capture)
                self._report.ignored += self._list_changed(merge, ignored)
                paths -= ignored
            self._merged = paths
            merge.run(paths)
            placements = merge.placements
            for each in repositories:
                placements |= self._merge_repository(ForkedRepository(each, items, layer, base, self._capture), each)
            self._note_left([*pointers])
            if not merge.conflicts:
                fd = os.open(upper, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                try:
                    MergeLayer(fd, layer, base).fill(placements)
                finally:
                    os.close(fd)
            return merge.conflicts.values()

    def _merge_repository(self, repository: ForkedRepository, folder: str) -> dict[str, Placement]:
        found = repository.merge(self._folder.name)
        self._objects += found.objects
        self._report.branches += found.branches
        self._note_left(found.left)
        if found.is_incomplete:
            self._report.notes.append(
                f"the fork's branches in {folder} stay there: here, their commits would be broken"
            )
        return found.placements

    def _note_left(self, left: Sequence[str]) -> None:
        if left:
            shown = ", ".join(map(format_path, left[:MAX_NAMED])) + (" and more" if len(left) > MAX_NAMED else "")
            self._report.notes.append(f"{shown}: not merged, because a repository is not merged file by file")

    def _capture(self, command: Sequence[str], folder: str, data: bytes) -> CompletedProcess[bytes]:
        return self._mounted.capture(command, os.path.join(self._real, folder), data)

    def add_objects(self) -> None:
        """Add the new objects to the root's repositories."""
        real = self._real
        with self._folder.open_layer(self._n) as layer, open_base(real) as base, translate_os_errors(real):
            add_objects(self._objects, layer, base)

    def read_merged(self) -> dict[str, Ancestor]:
        """What the fork has at the paths that were merged. Texts are kept, to be merged with later versions."""
        found = dict.fromkeys(self._merged, ABSENT)
        with self._folder.open_layer(self._n) as layer, translate_os_errors(self._real):
            for item in self._folder.list_items(self._n, layer):
                if item.rel in found and not item.is_deletion and (entry := layer.read(item.rel, item.found)):
                    found[item.rel] = Ancestor(entry)
                    if entry.kind == "file":
                        keep_text(layer, item.rel, entry, item.found, self._folder.texts)
        return found

    def _list_changed(self, merge: TreeMerge, ignored: Collection[str]) -> list[str]:
        """Those of the ignored paths that are files, and other ones than in the workspace."""
        found = ((rel, merge.read_fork(rel, hashed=False)) for rel in sorted(ignored))
        return [os.path.join(self._real, rel) for rel, entry in found if entry is None or entry.kind != "folder"]

    def _merge_texts(self, ancestor: str, fork: bytes, base: bytes, take: Side) -> MergedText | None:
        kept = self._folder.texts / ancestor
        return merge_texts(kept, fork, base, self._folder.folder, take) if kept.exists() else None
