"""Searching without ripgrep: our own walk, which gives the same answers, only later."""

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Literal

from handhold.core.errors import SystemTrouble
from handhold.core.facts import Scan, Skipped
from handhold.core.plans import Search
from handhold.core.requests import Glob, Grep
from handhold.core.text.ignore import Rules
from handhold.version import VERSION
from handhold.world.files.workspace import Workspace
from handhold.world.search.checked import Folder, opened
from handhold.world.search.events import Found
from handhold.world.search.folders import Run, Walk, overrides_of
from handhold.world.search.pages import FilePage, LinePage, Newest
from handhold.world.search.reading import Batch, Task, Told, batches, told
from handhold.world.search.running import Broken, Deadline, Late
from handhold.world.search.tree import DiskTree, rules_above
from handhold.world.search.unsearched import looked_at, unsearched

MOST_BYTES = 1 << 30  # of a file that is searched without having been named
SOFT = 1.5  # seconds, after which a full page of the newest so far is as good as one of all
FIRST_SHARE = 0.7  # of the time, for finding the files whose lines are looked for then
MOST_LINES = 1_000  # beyond a page, that are held until all files are known
MOST_HELD = 8 << 20  # bytes of them
ACCOUNT = 0.5  # seconds, for telling what was not searched
ALL_LINES = 1 << 60
ENGINE = f"the walk of handhold {VERSION}"


class WalkSearch:
    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def search(self, search: Search, visible: Callable[[str], bool], until: float, because: str) -> Scan:
        """What ripgrep would find; `because` says why it was not asked."""
        assert isinstance(search.request, Glob | Grep)
        with opened(self._workspace, search.place, visible) as (folder, name), DiskTree(folder.fd) as tree:
            rules = Rules() if search.request.ignored or name else rules_above(self._workspace, search.place)
            looking = Looking(folder, tree, name, search.place, search.request, rules, until)
            try:
                return looking.scan(search, because)
            except Broken as broken:
                raise SystemTrouble(search.place, str(broken)) from None


@dataclass
class Looking:
    """One search, of a folder or of the file `name` in it."""

    folder: Folder
    tree: DiskTree
    name: bytes
    place: str
    request: Glob | Grep
    rules: Rules
    until: float
    began: float = field(default_factory=monotonic)
    aborted: Literal["", "limit", "deadline"] = ""
    denied: int = 0
    told: Told = field(default_factory=Told)
    walks: list[Walk] = field(default_factory=list[Walk])

    def scan(self, search: Search, because: str) -> Scan:
        request = self.request
        whole = request.sort == "modified"
        if isinstance(request, Grep) and request.mode == "content":
            page = LinePage(self.folder, request, search.start, request.limit)
            fill = self._newest_lines if whole else self._lines
            fill(request, page)
        else:
            page = FilePage(self.folder, search.start, request.limit)
            fill = self._newest_files if whole else self._files
            fill(page)
        late = self.aborted == "deadline"
        missed = not page.hits and not search.start and not late
        return Scan(
            hits=tuple(page.hits),
            engine=ENGINE,
            weaker=because,
            order="modified" if whole else "path",
            aborted=self.aborted,
            more=page.more or late,
            searched=self._searched(missed=missed),
            skipped=tuple(self._skipped(missed=missed)),
            changed=search.state not in (None, page.state) and not (whole and late),
            state=page.state,
            whole=whole,
            unsteady=self.folder.unsteady + self.told.gone + sum(walk.unsteady for walk in self.walks),
        )

    # --- pages

    def _files(self, page: FilePage) -> None:
        with self._in_time(), closing(self._counted(Deadline(self.until))) as found:
            for some in found:
                for name, count in some:
                    if not page.offer(name, count):
                        self.aborted = "limit"
                        return

    def _newest_files(self, page: FilePage) -> None:
        newest = self._newest(page.skip + page.limit + 1)
        for name, count in newest.first():
            page.offer(name, count)
        page.state = newest.state

    def _newest(self, keep: int) -> Newest:
        newest = Newest(self.folder, keep)
        deadline = Deadline(self.until)
        with self._in_time(), closing(self._counted(deadline)) as found:
            for some in found:
                newest.add(some)
                if newest.seen >= keep:
                    deadline.sooner(self.began + SOFT)
        return newest

    def _lines(self, request: Grep, page: LinePage) -> None:
        with self._in_time(), closing(self._by_file(request, Deadline(self.until), page)) as found:
            for name, lines in found:
                if not page.offer(name, lines):
                    self.aborted = "limit"
                    return

    def _newest_lines(self, request: Grep, page: LinePage) -> None:
        """Files and their lines at once; where there are too many lines to be held, those of the newest again."""
        held: dict[bytes, list[Found]] = {}
        few = True
        wanted, count, size = page.skip + page.limit + 1, 0, 0
        deadline = Deadline(self.until)
        with self._in_time(), closing(self._by_file(request, deadline, page)) as found:
            for name, lines in found:
                count += sum(line.start >= 0 for line in lines)
                size += sum(len(line.data or b"") for line in lines)
                if few and (count > wanted + MOST_LINES or size > MOST_HELD):
                    few = False
                    deadline.sooner(monotonic() + FIRST_SHARE * deadline.left())
                    held = {each: [] for each in held}
                held[name] = lines if few else []
                if count > wanted:
                    deadline.sooner(self.began + SOFT)
        newest = Newest(self.folder, len(held) if few else wanted)
        newest.add([(name, 0) for name in held])
        names = [name for name, _ in newest.first()]
        if few:
            self._offered(page, ((name, held[name]) for name in names))
        else:
            files = batches(map(parted, names))
            with self._in_time(), closing(self._by_file(request, Deadline(self.until), page, files)) as found:
                self._offered(page, found)
        page.state = newest.state

    def _offered(self, page: LinePage, found: Iterable[tuple[bytes, list[Found]]]) -> None:
        for name, lines in found:
            if not page.offer(name, lines):
                return

    @contextmanager
    def _in_time(self) -> Generator[None]:
        try:
            yield
        except Late:
            self.aborted = "deadline"

    # --- what the walk brings

    def _counted(self, deadline: Deadline) -> Generator[list[tuple[bytes, int]]]:
        """Names as they come, each with a count of its lines where that was asked for, else with 0."""
        if isinstance(self.request, Glob):
            for way, names in self._runs(deadline):
                yield [(way + name, 0) for name in names]
            return
        counts = self.request.mode == "count"
        task = self._task(self.request, ALL_LINES if counts else 1, lines=False)
        with closing(told(self.tree, task, self._batches(deadline), deadline)) as answers:
            for answer in answers:
                self.told.add(answer)
                yield [(name, count if counts else 0) for name, count, _ in answer.found]

    def _by_file(
        self, request: Grep, deadline: Deadline, page: LinePage, files: Iterator[Batch] | None = None
    ) -> Generator[tuple[bytes, list[Found]]]:
        task = self._task(request, page.skip + page.limit + 1, lines=True)
        runs = self._batches(deadline) if files is None else files
        with closing(told(self.tree, task, runs, deadline)) as answers:
            for answer in answers:
                if files is None:
                    self.told.add(answer)
                yield from ((name, lines) for name, _, lines in answer.found)

    def _task(self, request: Grep, most: int, *, lines: bool) -> Task:
        mode = request.mode if lines or request.mode == "count" else "files_with_matches"
        return Task(replace(request, mode=mode), bool(self.name), most, None if self.name else MOST_BYTES)

    def _batches(self, deadline: Deadline) -> Iterator[Batch]:
        return iter((Batch([(b"", self.name)]),)) if self.name else batches(self._runs(deadline))

    def _runs(self, deadline: Deadline) -> Iterator[Run]:
        walk = Walk(
            self.tree,
            self.place,
            self.rules,
            overrides_of(self.request),
            self.request.hidden,
            self.request.ignored,
            deadline,
        )
        self.walks.append(walk)
        visible, place = self.folder.visible, self.folder.place
        for run in walk.runs():
            names = [name for name in run.names if visible(place(run.way + name))]
            self.denied += len(run.names) - len(names)
            if names:
                yield Run(run.way, names)

    # --- what it looked at, and what not

    def _searched(self, *, missed: bool) -> int | None:
        if isinstance(self.request, Grep):
            return self.told.searched
        if not missed:
            return None
        until = min(self.until, monotonic() + ACCOUNT)
        return looked_at(self.tree, self.place, self.rules, self.request, self.folder.visible, until)

    def _skipped(self, *, missed: bool) -> Iterator[Skipped]:
        deep = sum(walk.too_deep for walk in self.walks)
        unreadable = self.told.unreadable + sum(walk.unreadable for walk in self.walks)
        if deep:
            yield Skipped("too deep", deep, at_least=True)
        if unreadable:
            yield Skipped("unreadable", unreadable, at_least=True)
        if too_large := self.told.too_large + self.folder.too_large:
            yield Skipped("too large", too_large)
        if missed and self.denied:
            yield Skipped("denied", self.denied)
        if missed and self.told.binary:
            yield Skipped("binary", self.told.binary)
        if missed and not self.name:
            until = min(self.until, monotonic() + ACCOUNT)
            yield from unsearched(self.tree, self.place, self.rules, self.request, self.folder.visible, until)


def parted(name: bytes) -> tuple[bytes, list[bytes]]:
    way, slash, last = name.rpartition(b"/")
    return way + slash, [last]
