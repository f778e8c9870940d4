"""The merge of a fork into all roots of a workspace: decided here, committed by the caller."""

import os
import stat
from collections.abc import Iterator, Mapping, Sequence

from handhold.backends.forks.ancestors import RootAncestors
from handhold.backends.forks.fork_mount import MountedFork
from handhold.backends.forks.merged_ancestors import Call
from handhold.backends.forks.root_merge import ChosenSides, MergeReport, RootMerge, Take
from handhold.core.errors import ForkUnavailable, MergeConflict


class WorkspaceMerge:
    """One merge. `report` is complete after `fill`, except for what the caller commits."""

    def __init__(
        self, mounted: MountedFork, reals: Sequence[str], known: Mapping[str, RootAncestors], take: Take
    ) -> None:
        """`reals` are the roots, `known` what the fork started from."""
        self._folder = mounted.fork
        self._reals = reals
        self.report = MergeReport(self._folder.name)
        self._sides = ChosenSides(take, reals[0])
        self._merges = {real: RootMerge(mounted, real, known, self._sides, self.report) for real in reals}

    def fill(self, uppers: Mapping[str, str], *, include_ignored: bool) -> None:
        """Fill the layers of the merge, by root.

        MergeConflict if both changed a path and no side was chosen; ForkUnavailable if one was chosen for another path.
        """
        conflicts = [
            (os.path.join(real, conflict.rel), conflict)
            for real, merge in self._merges.items()
            for conflict in merge.fill(uppers[real], include_ignored=include_ignored)
        ]
        if conflicts:
            raise MergeConflict(
                self._folder.name,
                tuple(path for path, _ in conflicts),
                tuple(conflict.reason for _, conflict in conflicts),
                tuple(conflict.text for _, conflict in conflicts),
            )
        if unused := ", ".join(sorted(self._sides.unused)):
            raise ForkUnavailable(self._folder.name, f"a side was chosen for {unused}, where there is no conflict")
        self.report.notes += (*self._note_outside_commits(), *self._note_modes())

    def add_objects(self) -> None:
        """Add the commits that the new refs name to the repositories, before the refs."""
        for merge in self._merges.values():
            merge.add_objects()

    def record(self, call: Call | None) -> None:
        """Let the fork, which is kept, start from what was merged. `call` is the merge in the journal."""
        merged = {real: merge.read_merged() for real, merge in self._merges.items()}
        self._folder.merged_ancestors.record(merged, call)

    def _note_outside_commits(self) -> Iterator[str]:
        for n, real in enumerate(self._folder.info.roots):
            if real not in self._reals and self._has_changes(n):
                yield (
                    f"commits and other changes in {real} stay in the fork, because it is outside the workspace; "
                    f"to merge them, open it as a second root (--root {real}) before you fork"
                )

    def _note_modes(self) -> Iterator[str]:
        for n, (real, old) in enumerate(zip(self._folder.info.roots, self._folder.info.modes, strict=False)):
            mode = self._folder.read_mode(n)
            if mode not in (old, stat.S_IMODE(os.stat(real).st_mode)):
                yield f"the mode {mode:o} of {real} itself is not merged; to have it, chmod it and merge again"

    def _has_changes(self, n: int) -> bool:
        with self._folder.open_layer(n) as layer:
            return bool(self._folder.list_items(n, layer))
