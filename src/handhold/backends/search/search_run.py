"""Fill a page, with any engine: in path order until it is full, or with the newest of all.

An engine provides two streams: matching files, and files with their lines. The newest need a complete stream, as
far as time allows. Lines are held until all files are known; if there are too many, files are searched first.
"""

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import takewhile
from time import monotonic
from typing import NamedTuple

from handhold.backends.search.events import FoundLine
from handhold.backends.search.pages import FilePage, LinePage, NewestFiles
from handhold.backends.search.search_folder import SearchFolder
from handhold.backends.search.search_process import Deadline, DeadlineExceeded, EntryLimitReached
from handhold.core.facts import AbortReason, SearchHit, SearchOutcome, SkippedFiles
from handhold.core.plans import Search
from handhold.core.requests import Glob, Grep

MAX_FILE_BYTES = 1 << 30  # a larger file is searched only if it is given explicitly
CONFIRM_TIME_SHARE = 0.5  # of the time of a search
MAX_HELD_LINES = 1_000  # beyond a page, until all files are known
MAX_HELD_BYTES = 8 << 20  # of those lines
FILES_TIME_SHARE = 0.7  # of the remaining time, for finding the files; then their lines are requested

CountedFiles = Generator[list[tuple[bytes, int]]]
LinesByFile = Generator[tuple[bytes, list[FoundLine]]]


class SearchCoverage(NamedTuple):
    """What an engine searched, and what it skipped."""

    searched_count: int | None
    skipped: Iterable[SkippedFiles]
    unstable_count: int = 0  # files that disappeared before they could be shown


@dataclass
class SearchRun(ABC):
    """One search, of a folder or of the file `name` in it."""

    folder: SearchFolder
    name: bytes
    request: Glob | Grep
    until: float
    started: float = field(default_factory=monotonic, init=False)
    abort_reason: AbortReason = field(default="", init=False)

    @property
    def needs_all_files(self) -> bool:
        """Whether everything is searched before anything is shown; otherwise names come in path order."""
        return self.request.sort == "modified"

    @property
    @abstractmethod
    def engine(self) -> str: ...

    @abstractmethod
    def find_files(self, deadline: Deadline) -> CountedFiles:
        """Matching files, each with the count of its lines if requested, otherwise 0. Raise DeadlineExceeded."""

    @abstractmethod
    def find_lines(self, page: LinePage, deadline: Deadline, files: Sequence[bytes] | None = None) -> LinesByFile:
        """Files with as many of their lines as the page can take: all that match, or `files` in order.

        Raise DeadlineExceeded when time runs out.
        """

    def search_again(self, fd: int, lines: Sequence[FoundLine]) -> Sequence[FoundLine]:
        """Lines of the open file, after `lines` were found by name; unchanged if the engine opens files as we do."""
        return lines

    def confirm_hits(self, hits: Sequence[SearchHit], until: float) -> Iterable[SearchHit]:
        """Confirm matching files. Raise DeadlineExceeded after `until`: what is not confirmed by then is not shown."""
        return hits

    @abstractmethod
    def measure_coverage(self, *, no_hits: bool) -> SearchCoverage:
        """Full coverage if nothing was found, otherwise what costs nothing."""

    def run(self, search: Search, fallback_reason: str = "") -> SearchOutcome:
        """Run the search; `fallback_reason` says why no better engine was used."""
        if isinstance(self.request, Grep) and self.request.mode == "content":
            page = LinePage(
                self.folder, self.request, search.start, self.request.limit, self.search_again, bool(self.name)
            )
            self._fill_newest_lines(page) if self.needs_all_files else self._fill_lines(page)
        else:
            page = FilePage(self.folder, search.start, self.request.limit)
            self._fill_newest_files(page) if self.needs_all_files else self._fill_files(page)
            page.hits = self._confirm_in_time(page.hits)
        late = self.abort_reason == "deadline"
        partly = late or self.abort_reason == "entries"
        coverage = self.measure_coverage(no_hits=not page.hits and not search.start and not partly)
        return SearchOutcome(
            hits=tuple(page.hits),
            engine=self.engine,
            fallback_reason=fallback_reason,
            order="modified" if self.needs_all_files else "path",
            abort_reason=self.abort_reason,
            has_more=page.has_more or partly,
            searched_count=coverage.searched_count,
            skipped=tuple(coverage.skipped),
            changed_since_cursor=search.checksum not in (None, page.checksum) and not (self.needs_all_files and late),
            checksum=page.checksum,
            is_checksum_of_all=self.needs_all_files,
            unstable_count=self._count_unstable(coverage.unstable_count),
        )

    def _confirm_in_time(self, hits: Sequence[SearchHit]) -> list[SearchHit]:
        """Confirm hits, for up to half as long again as the search, so that what was found in time is not lost."""
        confirmed: list[SearchHit] = []
        with self._record_abort():
            confirmed.extend(self.confirm_hits(hits, self.until + (self.until - self.started) * CONFIRM_TIME_SHARE))
        return confirmed

    def _count_unstable(self, lost: int) -> int:
        """How many hits were left out. 0 if something is hidden: if a link leads there for a moment, an engine lists
        that folder, and each name would count."""
        count = self.folder.unstable_count + lost
        return 0 if count and self.folder.has_denied_places else count

    # --- files

    def _fill_files(self, page: FilePage) -> None:
        with self._record_abort(), closing(self.find_files(Deadline(self.until))) as found:
            for some in found:
                for name, count in some:
                    if not page.offer(name, count):
                        self.abort_reason = "limit"
                        return

    def _fill_newest_files(self, page: FilePage) -> None:
        newest = self._collect_newest(Deadline(self.until), page.skip + page.limit + 1)
        for name, count in newest.list_newest():
            page.offer(name, count)
        page.checksum = newest.checksum

    def _collect_newest(self, deadline: Deadline, max_files: int) -> NewestFiles:
        newest = NewestFiles(self.folder, max_files)
        with self._record_abort(), closing(self.find_files(deadline)) as found:
            for some in found:
                newest.add(some)
        return newest

    # --- lines

    def _fill_lines(self, page: LinePage) -> None:
        with self._record_abort(), closing(self.find_lines(page, Deadline(self.until))) as found:
            for name, lines in found:
                if not page.offer(name, lines):
                    self.abort_reason = "limit"
                    return

    def _fill_newest_lines(self, page: LinePage) -> None:
        """Files and lines together if there are few; otherwise the files first, then lines of the newest."""
        held: dict[bytes, list[FoundLine]] = {}
        wanted, count, size = page.skip + page.limit, 0, 0
        with self._record_abort(), closing(self.find_lines(page, Deadline(self.until))) as found:
            for name, lines in found:
                held[name] = lines
                count += sum(line.start >= 0 for line in lines)
                size += sum(len(line.data or b"") for line in lines)
                if count > wanted + MAX_HELD_LINES or size > MAX_HELD_BYTES:
                    break
            else:
                return self._offer_held_lines(page, held)
        return self._offer_held_lines(page, held) if self.abort_reason else self._fill_lines_of_newest(page)

    def _offer_held_lines(self, page: LinePage, held: dict[bytes, list[FoundLine]]) -> None:
        newest = NewestFiles(self.folder, len(held))
        newest.add([(name, 0) for name in held])
        with self._record_abort():  # a file may have to be searched again, after the time ran out
            for name, _ in newest.list_newest():
                if not page.offer(name, held[name]):
                    break
        page.checksum = newest.checksum

    def _fill_lines_of_newest(self, page: LinePage) -> None:
        first = Deadline(monotonic() + FILES_TIME_SHARE * (self.until - monotonic()))
        newest = self._collect_newest(first, page.skip + page.limit + 1)
        names = [name for name, _ in newest.list_newest()]
        with self._record_abort(), closing(self.find_lines(page, Deadline(self.until), names)) as found:
            self._offer_in_turn(page, iter(names), found)
        page.checksum = newest.checksum

    def _offer_in_turn(self, page: LinePage, names: Iterator[bytes], found: LinesByFile) -> None:
        """Offer files in order. A name that is skipped matched a moment ago."""
        for name, lines in found:
            self.folder.unstable_count += sum(1 for _ in takewhile(name.__ne__, names))
            if not page.offer(name, lines):
                return
        self.folder.unstable_count += sum(1 for _ in names)

    @contextmanager
    def _record_abort(self) -> Generator[None]:
        try:
            yield
        except DeadlineExceeded:
            self.abort_reason = "deadline"
        except EntryLimitReached:
            self.abort_reason = "entries"
