"""Searching without ripgrep: our own walk, which gives the same answers, only later, and in a defined order."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from time import monotonic

from handhold.core.errors import SystemTrouble
from handhold.core.facts import Scan, Skipped
from handhold.core.plans import Search
from handhold.core.ports import Hiding
from handhold.core.requests import Glob, Grep
from handhold.core.text.ignore import Rules
from handhold.version import VERSION
from handhold.world.files.tree import DiskTree, rules_above
from handhold.world.files.workspace import Workspace
from handhold.world.search.checked import opened
from handhold.world.search.filling import MOST_BYTES, Account, ByFile, Counted, Filling
from handhold.world.search.folders import Run, Walk, overrides_of
from handhold.world.search.pages import LinePage
from handhold.world.search.reading import Batch, Task, Told, batches, told
from handhold.world.search.running import Broken, Deadline
from handhold.world.search.unsearched import ACCOUNT, Looked, looked_at, unsearched

ALL_LINES = 1 << 60


class WalkSearch:
    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def search(
        self, search: Search, visible: Callable[[str], bool], until: float, because: str, hiding: Hiding | None = None
    ) -> Scan:
        """What ripgrep would find; `because` says why it was not asked."""
        assert isinstance(search.request, Glob | Grep)
        with opened(self._workspace, search.place, visible, hiding) as (folder, name), folder.tree() as tree:
            rules = (
                Rules()
                if search.request.ignored or name
                else rules_above(self._workspace, search.place, folder.shows_place)
            )
            looking = Looking(folder, name, search.request, until, tree, search.place, rules, search.entries)
            try:
                return looking.scan(search, because)
            except Broken as broken:
                raise SystemTrouble(search.place, str(broken)) from None


@dataclass
class Looking(Filling):
    """A search that we do ourselves."""

    tree: DiskTree
    place: str
    rules: Rules
    most: int | None = None  # entries that are visited
    told: Told = field(default_factory=Told)
    walks: list[Walk] = field(default_factory=list[Walk])

    @property
    def engine(self) -> str:
        return f"the walk of handhold {VERSION}"

    # --- what the walk brings

    def counted(self, deadline: Deadline) -> Counted:
        if isinstance(self.request, Glob):
            for way, names in self._runs(deadline):
                yield [(way + name, 0) for name in names]
            return
        counts = self.request.mode == "count"
        task = self._task(self.request, ALL_LINES if counts else 1, lines=False)
        with closing(self._told(task, deadline)) as answers:
            for answer in answers:
                yield [(name, count if counts else 0) for name, count, _ in answer.found]

    def by_file(self, page: LinePage, deadline: Deadline, files: Sequence[bytes] | None = None) -> ByFile:
        task = self._task(page.request, page.skip + page.limit + 1, lines=True)
        again = None if files is None else told(self.tree, task, batches(map(parted, files)), deadline)
        with closing(again or self._told(task, deadline)) as answers:
            for answer in answers:
                yield from ((name, lines) for name, _, lines in answer.found)

    def _told(self, task: Task, deadline: Deadline) -> Generator[Told]:
        """Of all files, and counted anew: there may be a second time through all of them."""
        self.told, self.walks = Told(), []
        with closing(told(self.tree, task, self._batches(deadline), deadline)) as answers:
            for answer in answers:
                self.told.add(answer)
                yield answer

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
            most=self.most,
        )
        self.walks.append(walk)
        visible, place = self.folder.visible, self.folder.place
        for run in walk.runs():
            names = [name for name in run.names if visible(place(run.way + name))]
            if names:
                yield Run(run.way, names)

    # --- what it looked at, and what not

    def account(self, *, missed: bool) -> Account:
        looked = self._looked() if missed and not self.name else None
        searched = self.told.searched if isinstance(self.request, Grep) else looked and looked.seen
        unsteady = self.told.gone + sum(walk.unsteady for walk in self.walks)
        return Account(searched, self._skipped(looked, missed=missed), unsteady)

    def _looked(self) -> Looked | None:
        until = min(self.until, monotonic() + ACCOUNT)
        return looked_at(self.tree, self.place, self.rules, self.request, self.folder.visible, until)

    def _skipped(self, looked: Looked | None, *, missed: bool) -> Iterator[Skipped]:
        deep = sum(walk.too_deep for walk in self.walks)
        unreadable = self.told.unreadable + sum(walk.unreadable for walk in self.walks)
        if deep:
            yield Skipped("too deep", deep, at_least=True)
        if unreadable:
            yield Skipped("unreadable", unreadable, at_least=True)
        if too_large := self.told.too_large + self.folder.too_large:
            yield Skipped("too large", too_large)
        if looked and looked.denied:
            yield Skipped("denied", looked.denied)
        if missed and self.told.binary:
            yield Skipped("binary", self.told.binary)
        if missed and not self.name:
            until = min(self.until, monotonic() + ACCOUNT)
            yield from unsearched(self.tree, self.place, self.rules, self.request, self.folder.visible, until)


def parted(name: bytes) -> tuple[bytes, list[bytes]]:
    way, slash, last = name.rpartition(b"/")
    return way + slash, [last]
