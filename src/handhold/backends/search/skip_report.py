"""What a ripgrep search left out: when nothing is found, that is half the answer.

ripgrep reports which files it searches, which exist, and which contain a NUL; our own rules tell why the others are
left out. All of this may take half a second, or twice as long as the search itself.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from time import monotonic

from handhold.backends.search.exclusions import count_by_rule, limit_coverage
from handhold.backends.search.ripgrep_command import PATH_PREFIX, RipgrepCommand, build_file_options
from handhold.backends.search.search_process import Deadline, DeadlineExceeded, EngineFailed, split_at_nul
from handhold.core.facts import SkippedFiles
from handhold.core.requests import Glob, Grep
from handhold.logs import log_swallowed

MAX_NAMES = 200_000  # with more files, names are not collected


class SkipReport:
    """How many files were searched, and what was left out; None and incomplete if time ran out."""

    def __init__(self, run: RipgrepCommand) -> None:
        self.searched_count: int | None = None
        self.skipped: list[SkippedFiles] = []
        self._run = run
        self._deadline = Deadline(limit_coverage(run.until, search_seconds=monotonic() - run.started))
        if run.name:
            self.searched_count = 1
            return
        try:
            self._build(run.request)
        except (DeadlineExceeded, EngineFailed):
            log_swallowed()

    def _build(self, request: Glob | Grep) -> None:
        glob = request.glob if isinstance(request, Grep) else ""
        folder_errors: Counter[int] = Counter()  # no file is opened here, so these are folders
        options = build_file_options(request, glob=glob)
        listed = self._list_names("--files", *options, error_counts=folder_errors)
        names = set(islice(filter(self._run.is_shown, listed), MAX_NAMES))
        if len(names) == MAX_NAMES:
            return
        seen = sum(map(self._is_visible, names))
        if denied := self._count_denied(request) if glob else len(names) - seen:
            self.skipped.append(SkippedFiles("denied", denied))
        if not (request.hidden and request.ignored):
            self._add_skips_by_rule(request, names)
        self.searched_count = seen
        if isinstance(request, Grep) and seen:
            self.searched_count -= self._count_binary(request) + max(
                0, self._run.error_counts.total() - folder_errors.total()
            )

    def _count_denied(self, request: Glob | Grep) -> int:
        """Counts all names: otherwise a glob would reveal which names the policy hides."""
        return sum(
            not self._is_visible(name) for name in self._list_names("--files", *build_file_options(request, glob=""))
        )

    def _add_skips_by_rule(self, request: Glob | Grep, names: set[bytes]) -> None:
        """Why the others are not among `names`; for a glob, only files that it would have matched count."""
        everything = ["--files", "--hidden", "--no-ignore"]
        wanted = request.glob if isinstance(request, Grep) else f"/{request.pattern}"
        if wanted:
            everything.append(f"--glob={wanted}")
        others = [
            name
            for name in self._list_names(*everything, "--glob=!.git")
            if name not in names and self._is_visible(name)
        ]
        ways = (name.rpartition(b"/") for name in others)
        files = ((way + slash, name) for way, slash, name in ways)
        self.skipped += count_by_rule(files, self._run.classifier, self._deadline)

    def _count_binary(self, request: Grep) -> int:
        """Files that contain a NUL."""
        found, late = 0, False
        try:
            for name in self._list_names(
                "--files-with-matches", "--text", r"--regexp=\x00", *build_file_options(request, glob=request.glob)
            ):
                found += self._is_visible(name)
        except DeadlineExceeded:
            late = True
        if found or late:
            self.skipped.append(SkippedFiles("binary", found, at_least=late))
        return found

    def _is_visible(self, name: bytes) -> bool:
        return self._run.folder.visible(self._run.folder.to_place(name))

    def _list_names(self, *options: str, error_counts: Counter[int] | None = None) -> Iterator[bytes]:
        error_counts = Counter() if error_counts is None else error_counts
        with closing(self._run.stream_output(self._deadline, ["--null", *options], [b""], error_counts)) as output:
            for names in split_at_nul(output):
                yield from (name.removeprefix(PATH_PREFIX) for name in names)
