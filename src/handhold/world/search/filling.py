"""How a page is filled, whichever engine looks: in the order of paths until it is full, or with the newest of all.

An engine gives two streams: files that match, and files with their lines. The newest need the whole of one, unless
time is short; lines are held until all files are known, and where there are too many for that, files come first.
"""

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import takewhile
from time import monotonic
from typing import NamedTuple

from handhold.core.facts import Aborted, Hit, Scan, Skipped
from handhold.core.plans import Search
from handhold.core.requests import Glob, Grep
from handhold.world.search.checked import Folder
from handhold.world.search.events import Found
from handhold.world.search.pages import FilePage, LinePage, Newest
from handhold.world.search.running import Deadline, Late, Spent

MOST_BYTES = 1 << 30  # of a file that is searched without having been named
CONFIRMING = 0.5  # of the time of a search
SOFT = 1.5  # seconds, after which a full page of the newest so far is as good as one of all
MOST_LINES = 1_000  # matching lines beyond a page that are held until all files are known
MOST_HELD = 8 << 20  # bytes of them
FIRST_SHARE = 0.7  # of the time left, for finding the files whose lines are asked for then

Counted = Generator[list[tuple[bytes, int]]]
ByFile = Generator[tuple[bytes, list[Found]]]


class Account(NamedTuple):
    """What an engine looked at, and what not."""

    searched: int | None
    skipped: Iterable[Skipped]
    unsteady: int = 0  # files that went away before they could be shown


@dataclass
class Filling(ABC):
    """One search, of a folder or of the file `name` in it."""

    folder: Folder
    name: bytes
    request: Glob | Grep
    until: float
    began: float = field(default_factory=monotonic, init=False)
    aborted: Aborted = field(default="", init=False)

    @property
    def whole(self) -> bool:
        """Whether everything is looked at before anything is shown; else names come in the order of paths."""
        return self.request.sort == "modified"

    @property
    @abstractmethod
    def engine(self) -> str: ...

    @abstractmethod
    def counted(self, deadline: Deadline) -> Counted:
        """Files that match, each with a count of its lines where that was asked for, else with 0. Late."""

    @abstractmethod
    def by_file(self, page: LinePage, deadline: Deadline, files: Sequence[bytes] | None = None) -> ByFile:
        """Files with as many of their lines as the page can take: all that match, or `files` in their order. Late."""

    def search_again(self, fd: int, lines: Sequence[Found]) -> Sequence[Found]:
        """The lines of an open file, where `lines` were found by its name; the same if the engine opens as we do."""
        return lines

    def confirmed(self, hits: Sequence[Hit], until: float) -> Iterable[Hit]:
        """The same for files that match. Late after `until`: what is not confirmed by then is not shown."""
        return hits

    @abstractmethod
    def account(self, *, missed: bool) -> Account:
        """Everything if the search missed, else what comes for nothing."""

    def scan(self, search: Search, because: str = "") -> Scan:
        """What was found, and how; `because` says why no better engine was asked."""
        if isinstance(self.request, Grep) and self.request.mode == "content":
            page = LinePage(
                self.folder, self.request, search.start, self.request.limit, self.search_again, bool(self.name)
            )
            self._newest_lines(page) if self.whole else self._lines(page)
        else:
            page = FilePage(self.folder, search.start, self.request.limit)
            self._newest_files(page) if self.whole else self._files(page)
            page.hits = self._confirmed(page.hits)
        late = self.aborted == "deadline"
        partly = late or self.aborted == "entries"
        account = self.account(missed=not page.hits and not search.start and not partly)
        return Scan(
            hits=tuple(page.hits),
            engine=self.engine,
            weaker=because,
            order="modified" if self.whole else "path",
            aborted=self.aborted,
            more=page.more or partly,
            searched=account.searched,
            skipped=tuple(account.skipped),
            changed=search.state not in (None, page.state) and not (self.whole and late),
            state=page.state,
            whole=self.whole,
            unsteady=self._unsteady(account.unsteady),
        )

    def _confirmed(self, hits: Sequence[Hit]) -> list[Hit]:
        """It may take half as long again as the search, so that what was found in time is not lost."""
        confirmed: list[Hit] = []
        with self._in_time():
            confirmed.extend(self.confirmed(hits, self.until + (self.until - self.began) * CONFIRMING))
        return confirmed

    def _unsteady(self, lost: int) -> int:
        """How many hits were left out. Not told where something is hidden: an engine lists the folder around it if a
        link leads there for a moment, and each name would count."""
        count = self.folder.unsteady + lost
        return 0 if count and self.folder.hides_anything else count

    # --- files

    def _files(self, page: FilePage) -> None:
        with self._in_time(), closing(self.counted(Deadline(self.until))) as found:
            for some in found:
                for name, count in some:
                    if not page.offer(name, count):
                        self.aborted = "limit"
                        return

    def _newest_files(self, page: FilePage) -> None:
        newest = self._newest(Deadline(self.until), page.skip + page.limit + 1)
        for name, count in newest.first():
            page.offer(name, count)
        page.state = newest.state

    def _newest(self, deadline: Deadline, keep: int) -> Newest:
        newest = Newest(self.folder, keep)
        with self._in_time(), closing(self.counted(deadline)) as found:
            for some in found:
                newest.add(some)
                if newest.seen >= keep:
                    deadline.sooner(self.began + SOFT)
        return newest

    # --- lines

    def _lines(self, page: LinePage) -> None:
        with self._in_time(), closing(self.by_file(page, Deadline(self.until))) as found:
            for name, lines in found:
                if not page.offer(name, lines):
                    self.aborted = "limit"
                    return

    def _newest_lines(self, page: LinePage) -> None:
        """Files and lines at once if there are few of them; else the files first, and then lines of the newest."""
        held: dict[bytes, list[Found]] = {}
        wanted, count, size = page.skip + page.limit, 0, 0
        deadline = Deadline(self.until)
        with self._in_time(), closing(self.by_file(page, deadline)) as found:
            for name, lines in found:
                held[name] = lines
                count += sum(line.start >= 0 for line in lines)
                size += sum(len(line.data or b"") for line in lines)
                if count > wanted + MOST_LINES or size > MOST_HELD:
                    break
                if count > wanted:
                    deadline.sooner(self.began + SOFT)
            else:
                return self._held_lines(page, held)
        return self._held_lines(page, held) if self.aborted else self._lines_of_newest(page)

    def _held_lines(self, page: LinePage, held: dict[bytes, list[Found]]) -> None:
        newest = Newest(self.folder, len(held))
        newest.add([(name, 0) for name in held])
        for name, _ in newest.first():
            if not page.offer(name, held[name]):
                break
        page.state = newest.state

    def _lines_of_newest(self, page: LinePage) -> None:
        first = Deadline(monotonic() + FIRST_SHARE * (self.until - monotonic()))
        newest = self._newest(first, page.skip + page.limit + 1)
        names = [name for name, _ in newest.first()]
        with self._in_time(), closing(self.by_file(page, Deadline(self.until), names)) as found:
            self._offer_in_turn(page, iter(names), found)
        page.state = newest.state

    def _offer_in_turn(self, page: LinePage, names: Iterator[bytes], found: ByFile) -> None:
        """A name that is passed over matched a moment ago."""
        for name, lines in found:
            self.folder.unsteady += sum(1 for _ in takewhile(name.__ne__, names))
            if not page.offer(name, lines):
                return
        self.folder.unsteady += sum(1 for _ in names)

    @contextmanager
    def _in_time(self) -> Generator[None]:
        try:
            yield
        except Late:
            self.aborted = "deadline"
        except Spent:
            self.aborted = "entries"
