"""Search with ripgrep, which is fastest; its hits are verified before they are shown.

It is started in the folder of the search, by descriptor, and reports names relative to it. Newest first needs a full
scan, but only matching files are checked for their age. In path order it is stopped as soon as a page is full.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from errno import ENAMETOOLONG, ENOENT

from handhold.backends.files.workspace import Workspace
from handhold.backends.search.events import FoundLine, group_by_file
from handhold.backends.search.line_matcher import LineMatcher, make_reader
from handhold.backends.search.pages import LinePage
from handhold.backends.search.ripgrep_binary import RipgrepBinary
from handhold.backends.search.ripgrep_command import PATH_PREFIX, RipgrepCommand, build_file_options
from handhold.backends.search.search_folder import HitSkipped, open_search_folder
from handhold.backends.search.search_process import Deadline, split_at_nul
from handhold.backends.search.search_run import MAX_FILE_BYTES, CountedFiles, LinesByFile, SearchCoverage
from handhold.backends.search.skip_report import SkipReport
from handhold.core.facts import SearchHit, SearchOutcome, SkippedFiles
from handhold.core.plans import Search
from handhold.core.ports.files import HiddenPaths
from handhold.core.requests import Glob, Grep

MAX_BATCH_FILES = 256  # files whose lines are requested at a time

FILES_OPTIONS = ("--files-with-matches", "--null")
COUNT_OPTIONS = ("--count", "--null", "--with-filename")
SORT_BY_PATH = "--sort=path"
SINGLE_THREAD = "--threads=1"  # files given by name are then searched in that order
COUNT_LINE = re.compile(rb"([^\0]+)\0(\d+)\n")
ALL_LINES = 1 << 60


class RipgrepSearch:
    def __init__(self, workspace: Workspace, program: RipgrepBinary) -> None:
        self._workspace = workspace
        self._program = program

    def search(
        self, search: Search, visible: Callable[[str], bool], until: float, hidden_paths: HiddenPaths | None = None
    ) -> SearchOutcome:
        assert isinstance(search.request, Glob | Grep)
        with (
            open_search_folder(self._workspace, search.place, visible, hidden_paths) as (folder, name),
            folder.open_tree() as tree,
        ):
            if isinstance(search.request, Grep) and not name:
                # Letting ripgrep itself skip larger ones would cost a sixth of the time of every search.
                folder.max_file_bytes = MAX_FILE_BYTES
            return RipgrepSearchRun(folder, name, search.request, until, self._program, tree).run(search)


@dataclass
class RipgrepSearchRun(RipgrepCommand):
    """A search by ripgrep."""

    def measure_coverage(self, *, no_hits: bool) -> SearchCoverage:
        report = SkipReport(self) if no_hits else None
        skipped = (*self._iter_skipped(), *(report.skipped if report else ()))
        return SearchCoverage(report.searched_count if report else None, skipped, self.error_counts[ENOENT])

    # --- ripgrep's results

    def find_files(self, deadline: Deadline) -> CountedFiles:
        options = () if self.needs_all_files else (SORT_BY_PATH,)
        match self.request:
            case Glob():
                return self._list_names(deadline, "--files", "--null", *options)
            case Grep(mode="count"):
                return self._list_counts(deadline, *COUNT_OPTIONS, *options)
            case _:
                return self._list_names(deadline, *FILES_OPTIONS, *options)

    def _list_names(self, deadline: Deadline, *options: str) -> CountedFiles:
        every = self.request.flags_decide
        with closing(self.stream_matches(deadline, options)) as output:
            for names in split_at_nul(output):
                yield [  # a name without .git is checked only if there is more to check: there may be a million
                    (name.removeprefix(PATH_PREFIX), 0)
                    for name in names
                    if (not every and b".git" not in name) or self.is_shown(name)
                ]

    def _list_counts(self, deadline: Deadline, *options: str) -> CountedFiles:
        with closing(self.stream_matches(deadline, options)) as output:
            rest = b""
            for piece in output:
                *lines, rest = COUNT_LINE.split(rest + piece)
                counted = zip(lines[1::3], lines[2::3], strict=True)
                yield [(name.removeprefix(PATH_PREFIX), int(count)) for name, count in counted if self.is_shown(name)]

    def find_lines(self, page: LinePage, deadline: Deadline, files: Sequence[bytes] | None = None) -> LinesByFile:
        if files is None:
            yield from self._list_lines(page, deadline, () if self.needs_all_files else (SORT_BY_PATH,))
        else:
            for at in range(0, len(files), MAX_BATCH_FILES):
                yield from self._list_lines(page, deadline, (SINGLE_THREAD,), files[at : at + MAX_BATCH_FILES])

    # --- verification

    def confirm_hits(self, hits: Sequence[SearchHit], until: float) -> Generator[SearchHit]:
        """Search each file again, by descriptor: it may not be the one that ripgrep read."""
        if not isinstance(self.request, Grep):
            yield from hits
            return
        deadline, together = Deadline(until), MAX_BATCH_FILES if self.request.regex else 1
        for at in range(0, len(hits), together):
            deadline.check_remaining()
            some = hits[at : at + together]
            with ExitStack() as stack:
                fds = [self._open_hit(hit, stack) for hit in some]
                there = [fd for fd in fds if fd is not None]
                counts = self._count_by_regex(there, deadline) if self.request.regex else self._count_by_literal(there)
                for hit, fd in zip(some, fds, strict=True):
                    if count := counts.get(fd, 0) if fd is not None else 0:
                        yield replace(hit, count=count if hit.count else 0)
                    elif fd is not None:
                        self.folder.unstable_count += 1

    def _open_hit(self, hit: SearchHit, stack: ExitStack) -> int | None:
        try:
            fd = self.folder.open(os.fsencode(hit.place.removeprefix(self.folder.to_place(b""))))
        except HitSkipped:
            return None
        stack.callback(os.close, fd)
        return fd

    def _count_by_literal(self, fds: Sequence[int]) -> dict[int, int]:
        """The number of matching lines of open files; at most one each, unless they are counted."""
        assert isinstance(self.request, Grep)
        matcher, max_lines = LineMatcher(self.request), ALL_LINES if self.request.mode == "count" else 1
        sizes = {fd: os.fstat(fd).st_size for fd in fds}
        return {
            fd: matcher.search(make_reader(fd, size), explicit=bool(self.name), max_lines=max_lines, is_hit=True).count
            for fd, size in sizes.items()
        }

    def _count_by_regex(self, fds: Sequence[int], deadline: Deadline) -> dict[int, int]:
        """The same by ripgrep: a regular expression may mean something else to us, or take forever."""
        if not fds:
            return {}
        options = [*self._build_options(), *COUNT_OPTIONS]
        with closing(self.stream_output(deadline, options, fds, Counter())) as output:
            counted = COUNT_LINE.findall(b"".join(output))
        return {int(path.rpartition(b"/")[2]): int(count) for path, count in counted}

    def search_again(self, fd: int, lines: Sequence[FoundLine]) -> Sequence[FoundLine]:
        assert isinstance(self.request, Grep)
        options = [*self._build_options(), *build_context_options(self.request), f"--max-count={len(lines)}"]
        with closing(self.stream_output(Deadline(self.until), options, [fd], Counter())) as output:
            return [line for _, found in group_by_file(output, explicit=bool(self.name)) for line in found]

    # --- running ripgrep

    def _list_lines(
        self, page: LinePage, deadline: Deadline, options: Sequence[str], files: Sequence[bytes] = ()
    ) -> LinesByFile:
        max_count = f"--max-count={page.skip + page.limit + 1}"  # no file can contribute more to this page
        with closing(
            self.stream_matches(deadline, (*build_context_options(page.request), max_count, *options), files)
        ) as output:
            for name, lines in group_by_file(output, explicit=bool(self.name)):
                if self.is_shown(name):
                    yield name.removeprefix(PATH_PREFIX), lines

    def stream_matches(
        self, deadline: Deadline, options: Sequence[str], files: Sequence[bytes] = ()
    ) -> Generator[bytes]:
        """ripgrep's output for this request, for the folder or for some files in it."""
        error_counts: Counter[int] = Counter()
        try:
            yield from self.stream_output(
                deadline, [*self._build_options(), *options], files or (self.name,), error_counts
            )
        finally:
            if not files:
                self.error_counts = error_counts  # of the last full pass; earlier ones met the same errors

    def _build_options(self) -> list[str]:
        """What to search for, and in which files."""
        request = self.request
        if isinstance(request, Glob):
            # Relative to the folder: without the slash it would match at any depth.
            return build_file_options(request, glob=f"/{request.pattern}")
        options = [f"--regexp={request.pattern}"]
        if not request.regex:
            options.append("--fixed-strings")
        if request.ignore_case:
            options.append("--ignore-case")
        return [*options, *build_file_options(request, glob=request.glob)]

    def _iter_skipped(self) -> Generator[SkippedFiles]:
        """What it could not open. A folder counts as one, since its contents are unknown."""
        deep = self.error_counts[ENAMETOOLONG]
        unreadable = self.error_counts.total() - deep - self.error_counts[ENOENT]
        if self.folder.too_large:
            yield SkippedFiles("too large", self.folder.too_large)
        if deep:
            yield SkippedFiles("too deep", deep, at_least=True)
        if unreadable:
            yield SkippedFiles("unreadable", unreadable, at_least=True)


def build_context_options(request: Grep) -> tuple[str, ...]:
    return ("--json", f"--before-context={request.before}", f"--after-context={request.after}")
