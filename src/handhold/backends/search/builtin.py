"""The built-in search without ripgrep: the same results, slower, and in a defined order."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from handhold.backends.files.directory_tree import DiskTree
from handhold.backends.files.workspace import Workspace
from handhold.backends.search.batch_reader import BatchResult, FileBatch, SearchTask, make_batches, read_batches
from handhold.backends.search.exclusions import FileCounts, count_files, iter_skipped, limit_coverage
from handhold.backends.search.ignore_rules import load_parent_rules
from handhold.backends.search.pages import LinePage
from handhold.backends.search.search_folder import open_search_folder
from handhold.backends.search.search_process import Deadline, EngineFailed
from handhold.backends.search.search_run import MAX_FILE_BYTES, CountedFiles, LinesByFile, SearchCoverage, SearchRun
from handhold.backends.search.tree_walk import DirectoryFiles, TreeWalk, build_walk
from handhold.core.errors import SystemFailure
from handhold.core.facts import SearchOutcome, SkippedFiles
from handhold.core.plans import Search
from handhold.core.ports.files import HiddenPaths
from handhold.core.requests import Glob, Grep
from handhold.core.text.ignore import IgnoreRules
from handhold.version import VERSION

ALL_LINES = 1 << 60


class BuiltinSearch:
    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def search(
        self,
        search: Search,
        visible: Callable[[str], bool],
        until: float,
        fallback_reason: str,
        hidden_paths: HiddenPaths | None = None,
    ) -> SearchOutcome:
        """What ripgrep would find; `fallback_reason` says why it was not used."""
        assert isinstance(search.request, Glob | Grep)
        with (
            open_search_folder(self._workspace, search.place, visible, hidden_paths) as (folder, name),
            folder.open_tree() as tree,
        ):
            rules = (
                IgnoreRules()
                if search.request.ignored or name
                else load_parent_rules(self._workspace, search.place, folder.can_show_place)
            )
            search_run = BuiltinSearchRun(
                folder, name, search.request, until, tree, search.place, rules, search.max_entries
            )
            try:
                return search_run.run(search, fallback_reason)
            except EngineFailed as broken:
                raise SystemFailure(search.place, str(broken)) from None


@dataclass
class BuiltinSearchRun(SearchRun):
    """A built-in search."""

    tree: DiskTree
    place: str
    rules: IgnoreRules
    max_entries: int | None = None  # how many entries are visited
    totals: BatchResult = field(default_factory=BatchResult)
    walks: list[TreeWalk] = field(default_factory=list[TreeWalk])

    @property
    def engine(self) -> str:
        return f"the built-in search of handhold {VERSION}"

    # --- results

    def find_files(self, deadline: Deadline) -> CountedFiles:
        if isinstance(self.request, Glob):
            for rel_path, names in self._iter_visible_files(deadline):
                yield [(rel_path + name, 0) for name in names]
            return
        counts = self.request.mode == "count"
        task = self._make_task(self.request, ALL_LINES if counts else 1, with_lines=False)
        with closing(self._read_all(task, deadline)) as answers:
            for answer in answers:
                yield [(name, count if counts else 0) for name, count, _ in answer.matches]

    def find_lines(self, page: LinePage, deadline: Deadline, files: Sequence[bytes] | None = None) -> LinesByFile:
        task = self._make_task(page.request, page.skip + page.limit + 1, with_lines=True)
        again = None if files is None else read_batches(self.tree, task, make_batches(map(split_path, files)), deadline)
        with closing(again or self._read_all(task, deadline)) as answers:
            for answer in answers:
                yield from ((name, lines) for name, _, lines in answer.matches)

    def _read_all(self, task: SearchTask, deadline: Deadline) -> Generator[BatchResult]:
        """Search all files, and reset the counts: there may be a second pass."""
        self.totals, self.walks = BatchResult(), []
        with closing(read_batches(self.tree, task, self._make_batches(deadline), deadline)) as answers:
            for answer in answers:
                self.totals.add_counts(answer)
                yield answer

    def _make_task(self, request: Grep, max_lines: int, *, with_lines: bool) -> SearchTask:
        mode = request.mode if with_lines or request.mode == "count" else "files_with_matches"
        return SearchTask(
            replace(request, mode=mode), bool(self.name), max_lines, None if self.name else MAX_FILE_BYTES
        )

    def _make_batches(self, deadline: Deadline) -> Iterator[FileBatch]:
        return iter((FileBatch([(b"", self.name)]),)) if self.name else make_batches(self._iter_visible_files(deadline))

    def _iter_visible_files(self, deadline: Deadline) -> Iterator[DirectoryFiles]:
        walk = build_walk(self.tree, self.place, self.rules, self.request, deadline)
        walk.max_entries = self.max_entries
        self.walks.append(walk)
        visible, place = self.folder.visible, self.folder.to_place
        for run in walk.iter_files():
            names = [name for name in run.names if visible(place(run.rel_path + name))]
            if names:
                yield DirectoryFiles(run.rel_path, names)

    # --- coverage

    def measure_coverage(self, *, no_hits: bool) -> SearchCoverage:
        counts = self._count_files() if no_hits and not self.name else None
        searched = self.totals.searched if isinstance(self.request, Grep) else counts and counts.visible
        unsteady = self.totals.vanished + sum(walk.unstable_count for walk in self.walks)
        return SearchCoverage(searched, self._iter_skipped(counts, no_hits=no_hits), unsteady)

    def _count_files(self) -> FileCounts | None:
        until = limit_coverage(self.until)
        return count_files(self.tree, self.place, self.rules, self.request, self.folder.visible, until)

    def _iter_skipped(self, counts: FileCounts | None, *, no_hits: bool) -> Iterator[SkippedFiles]:
        deep = sum(walk.too_deep for walk in self.walks)
        unreadable = self.totals.unreadable + sum(walk.unreadable for walk in self.walks)
        if deep:
            yield SkippedFiles("too deep", deep, at_least=True)
        if unreadable:
            yield SkippedFiles("unreadable", unreadable, at_least=True)
        if too_large := self.totals.too_large + self.folder.too_large:
            yield SkippedFiles("too large", too_large)
        if counts and counts.denied:
            yield SkippedFiles("denied", counts.denied)
        if no_hits and self.totals.binary:
            yield SkippedFiles("binary", self.totals.binary)
        if no_hits and not self.name:
            until = limit_coverage(self.until)
            yield from iter_skipped(self.tree, self.place, self.rules, self.request, self.folder.visible, until)


def split_path(name: bytes) -> tuple[bytes, list[bytes]]:
    rel_path, slash, last = name.rpartition(b"/")
    return rel_path + slash, [last]
