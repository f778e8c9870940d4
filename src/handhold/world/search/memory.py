"""Searching files that live in a dictionary: the same walk, rules and order as on a disk without ripgrep."""

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from time import monotonic

from handhold.core.errors import NotDirectory, NotFound
from handhold.core.facts import Aborted, Hit, Row, Scan, Skipped
from handhold.core.plans import Search
from handhold.core.ports import Hiding
from handhold.core.requests import Glob, Grep, ListFiles
from handhold.core.text.cursor import checksum, passed
from handhold.core.text.ignore import Rules
from handhold.core.text.names import real, unmistakable
from handhold.version import VERSION
from handhold.world.files.tree import MARKS, Entry, EntryKind, rules_in
from handhold.world.memory import MemoryFiles
from handhold.world.search.checked import row
from handhold.world.search.events import Found
from handhold.world.search.folders import Walk, overrides_of
from handhold.world.search.listing import Listing
from handhold.world.search.reading import Batch, Task, Told, told
from handhold.world.search.running import Deadline, Late, Spent
from handhold.world.search.unsearched import ACCOUNT, Looked, looked_at, unsearched

ALL_LINES = 1 << 60
ENGINE = f"the walk of handhold {VERSION}, in memory"


class MemoryTree:
    """What a dictionary of files holds below a folder."""

    def __init__(self, files: MemoryFiles, place: str) -> None:
        self._files = files
        self._below = files.name_at(unmistakable(place))
        self._folders: dict[bytes, dict[bytes, EntryKind]] = {b"": {}}
        prefix = f"{self._below}/" if self._below else ""
        kinds: list[tuple[set[str], EntryKind]] = [({*files.directories}, "directory"), ({*files.files}, "file")]
        for names, kind in kinds:
            for name in names:
                if name.startswith(prefix) and name != self._below:
                    self._put(os.fsencode(name.removeprefix(prefix)), kind)

    def _put(self, path: bytes, kind: EntryKind) -> None:
        way, slash, name = path.rpartition(b"/")
        self._folders.setdefault(way + slash, {})[name] = kind
        if kind == "directory":
            self._folders.setdefault(path + b"/", {})
        if way:
            self._put(way, "directory")

    def stream(self, way: bytes) -> Iterator[tuple[str, EntryKind]]:
        return ((os.fsdecode(name), kind) for name, kind in self._folders[way].items())

    def entries(self, way: bytes) -> list[Entry]:
        return [Entry(name, kind) for name, kind in self._folders[way].items()]

    def stamp(self, way: bytes) -> str:
        return repr(sorted(self._folders[way].items()))

    def kind(self, way: bytes, name: bytes) -> EntryKind | None:
        return self._folders.get(way, {}).get(name)

    def marks(self, way: bytes) -> list[Entry]:
        return [entry for entry in self.entries(way) if entry.name in MARKS]

    def leads(self, way: bytes, name: bytes) -> bool:
        return False

    def content(self, way: bytes, name: str, most: int) -> bytes | None:
        return self._files.files.get(self.name_of(way + os.fsencode(name)))

    def name_of(self, path: bytes) -> str:
        return os.fsdecode(path) if not self._below else f"{self._below}/{os.fsdecode(path)}"


class MemorySearch:
    """Fulfils the port Searcher."""

    def __init__(self, files: MemoryFiles) -> None:
        self._files = files

    def search(self, search: Search, *, visible: Callable[[str], bool], hiding: Hiding | None = None) -> Scan:
        deadline = Deadline(monotonic() + search.seconds)
        look = self._files.look(search.place)
        if look is None:
            raise NotFound(search.place, self._files.near(search.place))
        search = replace(search, place=real(search.place))
        match search.request:
            case ListFiles():
                if look.kind != "directory":
                    raise NotDirectory(search.place)
                tree = MemoryTree(self._files, search.place)
                return Listing(tree, search, visible, lambda _: "link", deadline).scan()
            case Glob() | Grep() as request:
                return Looking(self._files, search, request, visible, deadline, named=look.kind == "file").scan()


@dataclass
class Looking:
    """One search: all of it, and then the page that was asked for."""

    files: MemoryFiles
    search: Search
    request: Glob | Grep
    visible: Callable[[str], bool]
    deadline: Deadline
    named: bool
    aborted: Aborted = ""
    told: Told = field(default_factory=Told)

    def __post_init__(self) -> None:
        place = self.search.place
        self._folder = place.rpartition("/")[0] if self.named else place
        self._prefix = self._folder.rstrip("/") + "/"
        self._tree = MemoryTree(self.files, self._folder or "/")
        self._rules = Rules() if self.request.ignored or self.named else self._rules_above()

    def scan(self) -> Scan:
        request = self.request
        found: list[Hit] = []
        try:
            with closing(self._hits()) as hits:
                found += hits
        except Late:
            self.aborted = "deadline"
        except Spent:
            self.aborted = "entries"
        whole = request.sort == "modified"
        if whole:
            found.sort(key=lambda hit: -self._age(hit.place))  # those of one age stay in the order of paths
        items = [item for hit in found for item in by_line(hit)]
        start, past = self.search.start, self.search.start + request.limit
        state = 0
        for item in items if whole else items[:start]:
            state = passed(checksum(state, str(self._age(item.place))) if whole else state, item)
        looked = self._looked() if not items and not self.named else None
        return Scan(
            hits=page(found, start, past, request),
            engine=ENGINE,
            order="modified" if whole else "path",
            aborted=self.aborted,
            more=len(items) > past or bool(self.aborted),
            searched=self.told.searched if isinstance(request, Grep) else looked and looked.seen,
            skipped=tuple(self._skipped(looked)) if not items else (),
            changed=self.search.state not in (None, state),
            state=state,
            whole=whole,
        )

    def _hits(self) -> Generator[Hit]:
        request = self.request
        if isinstance(request, Glob):
            for batch in self._batches():
                yield from (Hit(self._place(way + name)) for way, name in batch.files)
            return
        counts = request.mode == "count"
        task = Task(request, self.named, 1 if request.mode == "files_with_matches" else ALL_LINES)
        with closing(told(None, task, self._batches(), self.deadline)) as answers:
            for answer in answers:
                self.told.add(answer)
                for name, count, lines in answer.found:
                    rows = tuple(shown(line, self._data(name), request.width) for line in lines)
                    yield Hit(self._place(name), rows=rows, count=count if counts else 0)

    def _batches(self) -> Iterator[Batch]:
        if self.named:
            name = os.fsencode(self.search.place.removeprefix(self._prefix))
            yield Batch([(b"", name)], [self._data(name)])
            return
        request, rules = self.request, self._rules
        overrides = overrides_of(request)
        walk = Walk(self._tree, self._folder, rules, overrides, request.hidden, request.ignored, self.deadline)
        walk.most = self.search.entries
        for way, names in walk.runs():
            seen = [name for name in names if self.visible(self._place(way + name))]
            yield Batch([(way, name) for name in seen], [self._data(way + name) for name in seen])

    def _rules_above(self) -> Rules:
        root, rules = self.files.roots[0], Rules()
        names = self.files.name_at(unmistakable(self._folder or "/")).split("/")
        tree = MemoryTree(self.files, "/")
        for depth in range(len(names) if names != [""] else 0):
            way = "".join(f"{name}/" for name in names[:depth])
            folder = f"{root}/{way}".rstrip("/")
            rules = rules_in(tree, folder, os.fsencode(way), tree.marks(os.fsencode(way)), rules)
        return rules

    def _looked(self) -> Looked | None:
        return looked_at(self._tree, self._folder, self._rules, self.request, self.visible, monotonic() + ACCOUNT)

    def _skipped(self, looked: Looked | None) -> Iterator[Skipped]:
        if looked and looked.denied:
            yield Skipped("denied", looked.denied)
        if self.told.binary:
            yield Skipped("binary", self.told.binary)
        if not self.named:
            yield from unsearched(
                self._tree, self._folder, self._rules, self.request, self.visible, monotonic() + ACCOUNT
            )

    def _place(self, name: bytes) -> str:
        return self._prefix + os.fsdecode(name)

    def _data(self, name: bytes) -> bytes:
        return self.files.files[self._tree.name_of(name)]

    def _age(self, place: str) -> int:
        look = self.files.look(unmistakable(place))
        return look.identity.mtime_ns if look else 0


def shown(line: Found, data: bytes, width: int) -> Row:
    """A line as a page shows it; one that was too long to be sent is cut out of its file again."""
    if line.data is not None:
        data = line.data
    else:
        data = data[line.offset : data.find(b"\n", line.offset) + 1 or None]
    return row(line, data.removesuffix(b"\n").removesuffix(b"\r"), line.start, line.end, width)


def by_line(hit: Hit) -> list[Hit]:
    """What a limit counts: matching lines where there are any, else the file."""
    return [replace(hit, rows=(row,)) for row in hit.rows if row.is_match] or [hit]


def page(found: Sequence[Hit], start: int, past: int, request: Glob | Grep) -> tuple[Hit, ...]:
    if not isinstance(request, Grep) or request.mode != "content":
        return tuple(found[start:past])
    hits: list[Hit] = []
    seen = 0
    for hit in found:
        matches = [row.number for row in hit.rows if row.is_match]
        kept = matches[max(0, start - seen) : max(0, past - seen)]
        seen += len(matches)
        around = {line for match in kept for line in range(match - request.before, match + request.after + 1)}
        rows = tuple(row for row in hit.rows if (row.number in kept if row.is_match else row.number in around))
        if rows:
            hits.append(replace(hit, rows=rows))
    return tuple(hits)
