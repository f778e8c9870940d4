"""A workspace and a store in dictionaries: for tests and dry runs.

They pass the suites of the real ones. `MemoryFiles.files` may be changed behind the tools' back, as a disk may.
"""

import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import count
from posixpath import basename, dirname
from typing import TypeVar

from handhold.core.errors import (
    Busy,
    ContentDropped,
    IsDirectory,
    NotDirectory,
    NotFound,
    OutsideWorkspace,
    Stale,
    TooLarge,
    ToolError,
)
from handhold.core.facts import Beginning, Declared, Identity, Look, Page, Whole
from handhold.core.plans import Bytes, Content, Directory, FileChange, Folder, FolderTime, Shelved, Stored, digest
from handhold.core.ports import (
    MOST_EDITABLE,
    Asked,
    Broken,
    Call,
    Consent,
    Contents,
    Decision,
    Entry,
    Mark,
    Outcome,
    Verified,
)
from handhold.core.text.alike import near
from handhold.core.text.names import real, unmistakable
from handhold.world.files.declarations import MOST_CONFIG, Declarations
from handhold.world.files.index import SMALL, count_of, page_of
from handhold.world.files.roots import Root, Roots, meant, names
from handhold.world.state import asked as rules
from handhold.world.state.chain import START
from handhold.world.state.contents import FOR_REDO, FOR_UNDO, SEEN
from handhold.world.state.room import LEFT, MOST_GIVEN_UP
from handhold.world.state.slots import commands_of
from handhold.world.state.taken import DONE, taken_back

PATIENCE = 30.0  # seconds to wait for somebody else's transaction
FILE_MODE, DIRECTORY_MODE = 0o644, 0o755
PATHS_LISTED = 100

T = TypeVar("T")


class MemoryFiles:
    """Names in `files` and `directories` are relative to the root. A directory is also there if a file is in it.

    `slots` holds files that wait to change places. Of what a command may leave, there are only files here.
    """

    def __init__(
        self,
        files: Mapping[str, str | bytes] | None = None,
        *,
        root: str = "/ws",
        contents: Contents | None = None,
        directories: Iterable[str] = (),
        encodings: Mapping[str, str] | None = None,
    ) -> None:
        self.files: dict[str, bytes] = {}
        self.directories: set[str] = {"", *directories}
        self.slots: dict[str, bytes] = {}
        self._roots = Roots([Root(-1, root, root, writable=True, device=1)])
        self._contents = contents
        self._ticks = count(1)
        self._known: dict[str, tuple[bytes | None, Identity]] = {}
        self._held = threading.Lock()
        self._declarations = Declarations(encodings, self.files.get, lambda name: self.files[name][:MOST_CONFIG])
        for path, data in (files or {}).items():
            self.put(path, data)

    # --- the hand behind the tools' back

    def put(self, path: str, data: str | bytes | None) -> None:
        """Make, overwrite or remove a file as another program would: by its real name."""
        name = self._name(path, path)
        if data is None:
            del self.files[name]
        else:
            self.write(name, data.encode() if isinstance(data, str) else data)

    def write(self, name: str, data: bytes) -> None:
        self.files[name] = data
        self._known.pop(name, None)  # written is written, even with the same bytes

    def content(self, path: str) -> bytes | None:
        return self.files.get(self.name_of(path))

    def remove_directory(self, place: str) -> None:
        """If it is empty; else it stays."""
        name = self.name_at(place)
        if not self.inside(name):
            self.directories.discard(name)
            self.directories.add(dirname(name))

    # --- what stands where

    @property
    def roots(self) -> tuple[str, ...]:
        return self._roots.names

    def place(self, path: str) -> str:
        return self._spelled(self.name_of(path))

    def place_at(self, place: str) -> str:
        """A place in its one spelling, whether something stands there or not."""
        return self._spelled(self.name_at(place))

    def _spelled(self, name: str) -> str:
        return self._roots.first.prefix + unmistakable(name) if name else self._roots.first.real

    def look(self, path: str) -> Look | None:
        name = self.name_of(path)
        if name in self.files:
            return Look(self.place(path), "file", self._identity(name), FILE_MODE)
        if self.is_directory(name):
            return Look(self.place(path), "directory", self._identity(name), DIRECTORY_MODE)
        return None

    def writable(self, path: str) -> bool:
        return bool(self.place(path))

    def near(self, path: str) -> tuple[str, ...]:
        wanted = self.name_of(path)
        above = dirname(wanted)
        while not self.is_directory(above):
            above = dirname(above)
        name = basename(wanted).casefold()
        elsewhere = (other for other in self.files if basename(other).casefold() == name)
        return near(wanted, above, sorted(self.inside(above)), elsewhere)

    def names_outside(self, path: str) -> bool:
        return False

    def hiding(self, denies: Callable[[str], bool], *, near: bool = False) -> "MemoryHiding":
        return MemoryHiding(self, denies)

    def is_directory(self, name: str) -> bool:
        return any(other == name or other.startswith(f"{name}/") for other in self._all())

    def _all(self) -> Iterator[str]:
        """Every directory, and what lies in some."""
        yield from self.directories
        yield from map(dirname, self.files)

    def inside(self, directory: str) -> set[str]:
        below = f"{directory}/" if directory else ""
        return {
            other[len(below) :].split("/")[0]
            for other in (*self.files, *self.directories)
            if other.startswith(below) and other not in ("", directory)
        }

    def name_of(self, path: str) -> str:
        """The name that a path of the model's leads to, beneath the root."""
        return self._name(meant(path, self._stands), path)

    def name_at(self, place: str) -> str:
        """The name at a place, whether something stands there or not."""
        return self._name(real(place), place)

    def _stands(self, path: str) -> bool:
        try:
            name = self._name(path, path)
        except ToolError:
            return False
        return name in self.files or self.is_directory(name)

    def _name(self, path: str, given: str) -> str:
        """A path's spelling beneath the root. There are no links, so its letters tell."""
        way: list[str] = []
        for name in names(self._roots.spot(path).way):
            if "/".join(way) in self.files:
                raise NotDirectory(given)
            if name != "..":
                way.append(name)
            elif way:
                way.pop()
            else:
                raise OutsideWorkspace(given, self.roots)
        return "/".join(way)

    def _identity(self, name: str) -> Identity:
        """Another file, at another time, whenever its content is not the object that was seen here before."""
        data = self.files.get(name)
        known = self._known.get(name)
        if known is None or known[0] is not data:
            tick = next(self._ticks)
            known = self._known[name] = (data, Identity(1, tick, len(data or b""), tick, tick))
        return known[1]

    # --- contents

    def read(self, path: str) -> Whole:
        look = self._file(path)
        if look.identity.size > MOST_EDITABLE:
            raise TooLarge(path, look.identity.size, MOST_EDITABLE)
        data = self.files[self.name_of(path)]
        return Whole(look.path, data, digest(data), look.identity)

    def begun(self, path: str, count: int) -> Beginning:
        look, data = self._file(path), self.files[self.name_of(path)]
        whole = Whole(look.path, data, digest(data), look.identity) if len(data) <= SMALL else None
        return Beginning(look.path, data[:count], look.identity, whole)

    def page(self, path: str, offset: int, limit: int, width: int, *, whole: Whole | None = None) -> Page:
        return page_of(whole or self.read(path), path, offset, limit, width, self.declared(path))

    def count(self, path: str) -> int:
        return count_of(self.read(path), path, self.declared(path))

    def declared(self, path: str) -> Declared | None:
        try:
            return self._declarations.of("", self.name_of(path))
        except ToolError:  # whoever opens it will hear of it
            return None

    def fingerprint(self, path: str) -> tuple[Identity, str]:
        look = self._file(path)
        return look.identity, digest(self.files[self.name_of(path)])

    def _file(self, path: str) -> Look:
        look = self.look(path)
        if look is None:
            raise NotFound(path)
        if look.kind == "directory":
            raise IsDirectory(path)
        return look

    def answered(self, work: Callable[[], T], go_on: Callable[[], None]) -> T:
        return work()

    # --- the one door

    @contextmanager
    def transaction(
        self, changes: Sequence[FileChange], times: Sequence[FolderTime] = ()
    ) -> Generator["MemoryTransaction | MemoryExchange"]:
        kind = MemoryExchange if any(isinstance(each.before or each.after, Shelved) for each in changes) else None
        with self.alone():
            yield (kind or MemoryTransaction)(self, changes, f"m{next(self._ticks)}")

    @contextmanager
    def alone(self) -> Generator[None]:
        if not self._held.acquire(timeout=PATIENCE):
            raise Busy(self.roots[0], PATIENCE)
        try:
            yield
        finally:
            self._held.release()

    def recover(self, broken: Broken) -> tuple[str, ...]:
        """What lived in this process died with it."""
        return ()

    def stands(self, path: str, content: Content) -> bool:
        look = self.look(path)
        if look is None or look.kind == "directory":
            return look is not None and isinstance(content, Directory | Folder)
        return self.fingerprint(path)[1] == content.hash

    def shelved(self, content: Shelved, path: str) -> bytes | None:
        datas = (self.slots.get(content.slot), self.content(path))
        return next((data for data in datas if data is not None and digest(data) == content.hash), None)

    def unfolded(self, content: Shelved, path: str, most: int) -> Sequence[tuple[str, Shelved]]:
        return ()  # no command runs here, so no tree is shelved

    def exact_hash(self, content: Shelved, path: str) -> str | None:
        return content.hash if self.shelved(content, path) is not None else None

    def on_shelf(self, content: Shelved) -> bool:
        data = self.slots.get(content.slot)
        return data is not None and digest(data) == content.hash

    def close(self) -> None:
        pass

    def data_of(self, content: Bytes | Stored, path: str) -> bytes:
        if isinstance(content, Bytes):
            return content.data
        data = self._contents.get(content.hash) if self._contents else None
        if data is None:
            raise ContentDropped((path,))
        return data


@dataclass(frozen=True)
class MemoryHiding:
    """By name: no file has two of them here."""

    workspace: MemoryFiles
    denies: Callable[[str], bool]

    def places(self, until: float | None = None) -> tuple[str, ...]:
        places = (real(self.workspace.place_at(unmistakable(name))) for name in sorted(self.workspace.files))
        return tuple(place for place in places if self.denies(place))

    def files(self, until: float | None = None) -> tuple[str, ...]:
        return self.places(until)

    def twins(self) -> Mapping[tuple[int, int], str]:
        return {}


class MemoryTransaction:
    def __init__(self, workspace: MemoryFiles, changes: Sequence[FileChange], name: str) -> None:
        self.id = name
        self._workspace = workspace
        self._before: dict[str, bytes | None] = {}
        self._made: list[str] = []
        made: dict[str, FileChange] = {}
        for change in changes:
            if change.before is None and isinstance(change.after, Directory):
                made[change.path] = change
        there = [change for change in changes if self._verified(change)]
        for change in there:
            if change.before is None:
                made |= {
                    path: FileChange(path, None, Directory()) for path in self._missing(change) if path not in made
                }
        removed = [change for change in there if isinstance(change.before, Directory) and change.after is None]
        self.files = (
            *(made[path] for path in sorted(made) if workspace.look(path) is None),
            *(_with_mode(change) for change in there if not change.of_directory),
            *(_with_mode(change) for change in sorted(removed, key=lambda each: each.path, reverse=True)),
        )

    def perform(self) -> Mapping[str, Identity]:
        workspace = self._workspace
        ready = {change.path: _data(change.after, workspace, change.path) for change in self._contents()}
        for change in self._contents():
            self._verified(change)
        for change in self.files:
            if isinstance(change.after, Directory):
                self._made.append(change.path)
                workspace.directories.add(self._workspace.name_at(change.path))
        for path, data in ready.items():
            name = self._workspace.name_at(path)
            self._before[path] = workspace.files.pop(name, None)
            if data is None:
                workspace.directories.add(dirname(name))  # on a disk it stays when its last file goes
            else:
                workspace.write(name, data)
        looks = {path: workspace.look(path) for path, data in ready.items() if data is not None}
        return {path: look.identity for path, look in looks.items() if look}

    def take_back(self) -> None:
        for path, data in self._before.items():
            name = self._workspace.name_at(path)
            self._workspace.files.pop(name, None)
            if data is not None:
                self._workspace.write(name, data)
        for path in reversed(self._made):
            self._workspace.directories.discard(self._workspace.name_at(path))

    def finish(self, *, renew: bool = False) -> None:
        for change in self.files:
            if isinstance(change.before, Directory):
                self._workspace.remove_directory(change.path)

    def _contents(self) -> list[FileChange]:
        return [change for change in self.files if not change.of_directory]

    def _verified(self, change: FileChange) -> bool:
        """Stale unless the path is its `before`; False if there is nothing to do."""
        look = self._workspace.look(change.path)
        match change.before, change.after:
            case None, None:
                return False
            case None, Directory():
                if look and look.kind != "directory":
                    raise Stale(change.path)
                return look is None
            case None, _:
                if look:
                    raise Stale(change.path)
                return True
            case Directory(), Directory():
                return False
            case Directory(), None:
                if look and look.kind != "directory":
                    raise Stale(change.path)
                return look is not None
            case Directory(), _:
                raise IsDirectory(change.path)
            case _, Directory():
                raise NotDirectory(change.path)
            case before, after:
                hash = self._workspace.fingerprint(change.path)[1] if look and look.kind == "file" else ""
                if hash != before.hash:
                    raise Stale(change.path, now=hash)
                return after is None or after.hash != before.hash

    def _missing(self, change: FileChange) -> Iterator[str]:
        """The directories above that are not there."""
        parent = dirname(self._workspace.place_at(change.path))
        while self._workspace.look(parent) is None:
            yield parent
            parent = dirname(parent)


class MemoryExchange:
    """Files that change places with their slots."""

    def __init__(self, workspace: MemoryFiles, changes: Sequence[FileChange], name: str) -> None:
        self.id = name
        self.files = tuple(changes)
        self._workspace = workspace
        self._exchanged: list[tuple[str, str]] = []
        for change in changes:
            self._verify(change)

    def perform(self) -> Mapping[str, Identity]:
        for change in self.files:
            self._verify(change)
        for change in self.files:
            thing = change.after or change.before
            assert isinstance(thing, Shelved)
            self._exchange(self._workspace.name_of(change.path), thing.slot)
        looks = {change.path: self._workspace.look(change.path) for change in self.files}
        return {path: look.identity for path, look in looks.items() if look}

    def take_back(self) -> None:
        for name, slot in self._exchanged[:]:
            self._exchange(name, slot)
        self._exchanged.clear()

    def finish(self, *, renew: bool = False) -> None:
        pass

    def _verify(self, change: FileChange) -> None:
        if change.before is None:
            if self._workspace.look(change.path) is not None:
                raise Stale(change.path)
        elif not self._workspace.stands(change.path, change.before):
            raise Stale(change.path)
        if isinstance(change.after, Shelved) and not self._workspace.on_shelf(change.after):
            raise ContentDropped((change.path,))

    def _exchange(self, name: str, slot: str) -> None:
        workspace = self._workspace
        here, there = workspace.files.pop(name, None), workspace.slots.pop(slot, None)
        if here is not None:
            workspace.slots[slot] = here
        if there is None:
            workspace.directories.add(dirname(name))
        else:
            workspace.write(name, there)
        self._exchanged.append((name, slot))


def _with_mode(change: FileChange) -> FileChange:
    """The mode of what goes away."""
    if change.after is not None:
        return change
    return replace(change, mode=DIRECTORY_MODE if isinstance(change.before, Directory) else FILE_MODE)


def _data(content: Content | None, workspace: MemoryFiles, path: str) -> bytes | None:
    return workspace.data_of(content, path) if isinstance(content, Bytes | Stored) else None


# --- state


@dataclass
class Record:
    """A call, and what has been said of it so far."""

    seq: int
    at: float
    call: Call
    transaction: str | None = None
    decision: Decision | None = None
    files: tuple[FileChange, ...] = ()
    takes_back: tuple[int, ...] = ()
    outcome: Outcome | None = None
    finished: bool = False

    @property
    def done(self) -> bool:
        return self.outcome is not None and self.outcome.status in DONE


@dataclass(frozen=True)
class Slot:
    """What the slots of a command hold now, and once they are swapped; and whether only a redo needs them."""

    bytes: int
    other: int
    for_redo: bool = False

    def swapped(self) -> "Slot":
        return Slot(self.other, self.bytes, not self.for_redo)


class MemoryStore:
    def __init__(self, *, bound: int = 2 * 1024**3) -> None:
        self._records: list[Record] = []
        self._contents: OrderedDict[str, bytes] = OrderedDict()  # the longest unused first
        self._levels: dict[str, int] = {}  # what they are kept for, unless they were only seen
        self._given_up: set[int] = set()  # calls whose undo may go
        self._bound = bound
        self._dropped = 0
        self._slots: OrderedDict[str, Slot] = OrderedDict()  # by command, the longest unused first
        self._gone: list[str] = []  # commands that are no longer among them
        self._chain = [START]
        self._asked: dict[tuple[str, str], tuple[Asked, float]] = {}  # with the time of the answer, the oldest first
        self._granted: defaultdict[str, dict[str, str]] = defaultdict(dict)
        self._marks: dict[str, MemoryMarks] = {}
        self._lock = threading.RLock()
        self._held = threading.Lock()

    @contextmanager
    def alone(self, *, wait: bool = True) -> Generator[None]:
        patience = PATIENCE if wait else 0.0
        if not self._held.acquire(timeout=patience):
            raise Busy("the state in memory", patience)
        try:
            yield
        finally:
            self._held.release()

    def close(self) -> None:
        pass

    # --- contents

    def keep(self, datas: Iterable[bytes]) -> None:
        with self._lock:
            self._keep(datas)
            self._make_room(seen_only=True)

    def _keep(self, datas: Iterable[bytes]) -> None:
        for data in datas:
            hash = digest(data)
            self._contents[hash] = data
            self._contents.move_to_end(hash)

    def get(self, hash: str) -> bytes | None:
        with self._lock:
            if hash in self._contents:
                self._contents.move_to_end(hash)
            return self._contents.get(hash)

    def has(self, hash: str) -> bool:
        return hash in self._contents

    def held(self) -> tuple[int, int]:
        """How many bytes of contents are kept, and how many contents had to go so far."""
        return sum(map(len, self._contents.values())), self._dropped

    def slots(self) -> Collection[str]:
        return frozenset(self._slots)

    def gone(self) -> Collection[str]:
        with self._lock:
            gone, self._gone = self._gone, []
            return gone

    @property
    def _kept(self) -> int:
        return self.held()[0] + sum(each.bytes for each in self._slots.values())

    def _make_room(self, *, seen_only: bool = False) -> None:
        """As `state.room` tells: what was only seen, what only a redo needs, and what calls need that were given up."""
        for level in (SEEN,) if seen_only else (SEEN, FOR_REDO, FOR_UNDO):
            slots = self._free_slots(for_redo=level == FOR_REDO) if level != SEEN else []
            for command in slots:
                if self._kept > self._bound and (level == FOR_REDO or not self._promised(slot=command)):
                    del self._slots[command]
                    self._gone.append(command)
                    self._dropped += 1
            for hash in self._free_contents(level):
                if self._kept > self._bound and (level != FOR_UNDO or not self._promised(content=hash)):
                    del self._contents[hash]
                    self._levels.pop(hash, None)
                    self._dropped += 1

    def _choose(self) -> list[int]:
        """The calls whose undo has to be given up, the longest unused first."""
        needed = self._kept - sum(
            len(data) for hash, data in self._contents.items() if self._levels.get(hash, SEEN) < FOR_UNDO
        )
        over = needed - int(self._bound * LEFT) if needed > self._bound else 0
        chosen: dict[int, None] = {}
        victims = [
            *((self._slots[each].bytes, self._promised(slot=each)) for each in self._free_slots(for_redo=False)),
            *((len(self._contents[each]), self._promised(content=each)) for each in self._free_contents(FOR_UNDO)),
        ]
        for size, calls in victims:
            if over <= 0 or len(chosen) >= MOST_GIVEN_UP:
                break
            chosen |= dict.fromkeys(calls)
            over -= size
        return sorted(chosen)

    def _free_contents(self, level: int) -> list[str]:
        """Contents that no open intent needs, the longest unused first."""
        open_intents = [each for each in self._records if each.transaction is not None and each.outcome is None]
        needed = {hash for each in open_intents for change in each.files for hash in _hashes(change)}
        return [hash for hash in self._contents if self._levels.get(hash, SEEN) == level and hash not in needed]

    def _free_slots(self, *, for_redo: bool) -> list[str]:
        under_way = {each.seq for each in self._records if each.transaction is not None and not each.finished}
        return [
            command
            for command, slot in self._slots.items()
            if slot.for_redo == for_redo and not under_way & self._uses(command)
        ]

    def _promised(self, *, slot: str = "", content: str = "") -> list[int]:
        """The calls that need this for their undo, which is possible so far, and was not given up."""

        def needs(record: Record) -> bool:
            if slot:
                return slot in commands_of(record.files)
            return any(isinstance(each.before, Stored) and each.before.hash == content for each in record.files)

        return [
            each.seq
            for each in self._records
            if each.done and each.call.tool not in ("undo", "redo") and each.seq not in self._given_up and needs(each)
            if self._is_kept(each)
        ]

    def _is_kept(self, record: Record) -> bool:
        """Whether the contents for taking it back are still there."""
        return all(self.has(each.before.hash) for each in record.files if isinstance(each.before, Stored)) and (
            not record.done or all(command in self._slots for command in commands_of(record.files))
        )

    def _uses(self, command: str) -> set[int]:
        """The calls that are about these slots, unless they came to nothing."""
        records = (each for each in self._records if each.outcome is None or each.done)
        return {each.seq for each in records if command in commands_of(each.files)}

    # --- journal

    def begin(self, call: Call) -> int:
        with self._lock:
            record = Record(len(self._records) + 1, time.time(), call)
            self._records.append(record)
            self._chained("begin", record)
            return record.seq

    def record(self, call: Call, outcome: Outcome, *, decision: Decision | None = None) -> None:
        with self._lock:
            self.settle(self.begin(call), outcome, durable=False, decision=decision)

    def intend(
        self,
        seq: int,
        transaction: str,
        files: Sequence[FileChange],
        *,
        decision: Decision,
        takes_back: Sequence[int] = (),
    ) -> Sequence[Entry]:
        with self._lock:
            record = self._record(seq)
            if record.transaction is not None:
                raise ValueError(f"call {seq} has an intent already")
            record.transaction = transaction
            record.files = tuple(_by_hash(change) for change in files)
            record.decision = decision
            record.takes_back = tuple(takes_back)
            self._chained("intend", record)
            contents = [content for change in files for content in (change.before, change.after)]
            self._keep(content.data for content in contents if isinstance(content, Bytes))
            for_old = FOR_REDO if record.call.tool == "undo" else FOR_UNDO
            for level, sides in (
                (FOR_REDO, [each.after for each in files]),
                (for_old, [each.before for each in files]),
            ):
                for hash in [each.hash for each in sides if isinstance(each, Bytes | Stored)]:
                    if hash in self._contents:
                        self._contents.move_to_end(hash)
                        self._levels[hash] = max(level, self._levels.get(hash, SEEN))
            for command, (committed, reverted) in commands_of(files).items():
                if command in self._slots:
                    self._slots[command] = self._slots[command].swapped()
                    self._slots.move_to_end(command)
                elif self._uses(command) == {seq}:
                    self._slots[command] = Slot(committed, reverted)
            self._make_room(seen_only=bool(takes_back))
            given_up = [] if takes_back else self._choose()
            return [self._entry(self._record(each), self._takers()) for each in given_up]

    def settle(
        self,
        seq: int,
        outcome: Outcome,
        *,
        durable: bool,
        decision: Decision | None = None,
        given_up: Sequence[int] = (),
    ) -> None:
        with self._lock:
            record = self._record(seq)
            if record.outcome is not None:
                raise ValueError(f"call {seq} has an outcome already")
            record.outcome = outcome
            record.decision = record.decision or decision
            self._chained("settle", record)
            if record.done:
                self._given_up.update(given_up)
            for command in {*self._slots} & {*commands_of(record.files)} if not record.done else ():
                if self._uses(command):
                    self._slots[command] = self._slots[command].swapped()
                else:
                    del self._slots[command]
                    self._gone.append(command)

    def finish(self, seq: int) -> None:
        with self._lock:
            record = self._record(seq)
            if not record.finished:
                record.finished = True
                self._chained("finish", record)

    def broken(self) -> Sequence[Broken]:
        return [
            Broken(each.seq, each.transaction, each.files, settled=each.outcome is not None)
            for each in self._records
            if each.transaction is not None and not each.finished and (each.outcome is None or each.done)
        ]

    def recall(self, session: str, turn: str, call_id: str) -> Entry | None:
        who = (session, turn, call_id)
        same = [each for each in self._records if (each.call.session, each.call.turn, each.call.call_id) == who]
        chosen = max(same, key=lambda each: (each.done, each.seq), default=None)
        return self._entry(chosen, self._takers()) if chosen else None

    def entries(self, *, session: str | None = None, last: int | None = None) -> Sequence[Entry]:
        """Oldest first, without the replies: `recall` gives those."""
        chosen = [each for each in self._records if session is None or each.call.session == session]
        takers = self._takers()
        entries = [
            self._entry(each, takers) for each in (chosen if last is None else chosen[max(0, len(chosen) - last) :])
        ]
        return [replace(each, outcome=replace(each.outcome, reply=None)) if each.outcome else each for each in entries]

    def files(self, seq: int) -> tuple[FileChange, ...]:
        return self._record(seq).files if 0 < seq <= len(self._records) else ()

    def writer(self, path: str, hash: str) -> str:
        for record in reversed(self._records):
            if record.done and any(
                each.path == path and each.after and each.after.hash == hash for each in record.files
            ):
                return record.call.session
        return ""

    def verify(self, noted: str = "") -> Verified:
        """There is nobody who could have altered it; but a head can be noted here as anywhere."""
        with self._lock:
            heads = [each.hex() for each in self._chain]
            return Verified(
                len(heads) - 1, heads[-1], noted_at=heads.index(noted.lower()) if noted.lower() in heads else None
            )

    def _chained(self, kind: str, record: Record) -> None:
        self._chain.append(sha256(self._chain[-1] + f"{kind} {record!a}".encode()).digest())

    def _record(self, seq: int) -> Record:
        return self._records[seq - 1]

    def _takers(self) -> Mapping[int, Collection[int]]:
        takers: defaultdict[int, list[int]] = defaultdict(list)
        for record in self._records:
            for call in record.takes_back if record.done else ():
                takers[call].append(record.seq)
        return takers

    def _entry(self, record: Record, takers: Mapping[int, Collection[int]]) -> Entry:
        return Entry(
            seq=record.seq,
            at=record.at,
            call=record.call,
            decision=record.decision.verdict if record.decision else "",
            rule=record.decision.rule if record.decision else "",
            approver=record.decision.by if record.decision else "",
            outcome=record.outcome,
            paths=tuple(change.path for change in record.files[:PATHS_LISTED]),
            changed=len(record.files),
            takes_back=record.takes_back,
            undone=taken_back(record.seq, takers),
            kept=self._is_kept(record),
        )

    # --- approvals

    def ask(self, asked: Asked) -> Asked | None:
        key = (asked.session, asked.hash)
        with self._lock:
            if key in self._asked and not self._is_over(key):
                return replace(asked, id=self._asked[key][0].id)
            over = [each for each in self._asked if self._is_over(each)]
            answered = [each for each in over if self._asked[each][0].answer]
            for each in {*over} - {*answered[-rules.MOST_OVER :]} | {key}:
                self._asked.pop(each, None)
            waiting = [each for each in self._questions() if not each.answer]
            of_session = [each for each in waiting if each.session == asked.session]
            if not rules.has_room(_total(of_session), _total(waiting), len(asked.diff)):
                return None
            asked = replace(asked, id=rules.new_id(), answer="", by="", spent=False)
            self._asked[key] = (asked, 0.0)
            return asked

    def waiting(self, session: str | None = None) -> Sequence[Asked]:
        with self._lock:
            return [each for each in self._questions() if not each.answer and session in (None, each.session)]

    def asked(self, which: str) -> Asked:
        with self._lock:
            return rules.meant(which, self._questions())

    def answer(self, which: str, answer: Consent, *, by: str) -> Asked:
        rules.check_answer(answer)
        with self._lock:
            asked = replace(rules.meant(which, self._questions()), answer=answer, by=by)
            self._asked[asked.session, asked.hash] = (asked, time.time())
            return asked

    def spend(self, hash: str, session: str) -> Asked | None:
        key = (session, hash)
        with self._lock:
            if key not in self._asked or not self._asked[key][0].answer or self._is_over(key):
                return None
            asked, answered = self._asked[key]
            self._asked[key] = (replace(asked, spent=True), answered)
            return self._asked[key][0]

    def allow(self, session: str, key: str, *, by: str) -> None:
        with self._lock:
            self._granted[session][key] = by

    def allowed(self, session: str) -> Mapping[str, str]:
        with self._lock:
            return dict(self._granted[session])

    def _questions(self) -> list[Asked]:
        return [asked for asked, _ in self._asked.values()]

    def _is_over(self, key: tuple[str, str]) -> bool:
        asked, answered = self._asked[key]
        return rules.is_over(asked.answer, asked.spent, answered, asked.at, now=time.time())

    # --- marks

    def marks(self, session: str) -> "MemoryMarks":
        return self._marks.setdefault(session, MemoryMarks())


class MemoryMarks:
    def __init__(self) -> None:
        self._marks: dict[str, Mark] = {}  # the newest last

    def get(self, path: str, identity: Identity | None) -> Mark | None:
        if path in self._marks or identity is None:
            return self._marks.get(path)
        file = (identity.device, identity.inode)
        same = (each for each in reversed(self._marks.values()) if (each.identity.device, each.identity.inode) == file)
        return next(same, None)

    def put(self, mark: Mark) -> None:
        self._marks.pop(mark.path, None)
        self._marks[mark.path] = mark

    def drop(self, path: str) -> None:
        self._marks.pop(path, None)

    def paths(self) -> Collection[str]:
        return tuple(self._marks)


def _total(questions: Sequence[Asked]) -> tuple[int, int]:
    return len(questions), sum(len(each.diff) for each in questions)


def _by_hash(change: FileChange) -> FileChange:
    def kept(content: Content | None) -> Content | None:
        return Stored(content.hash, content.size) if isinstance(content, Bytes) else content

    return FileChange(change.path, kept(change.before), kept(change.after), change.mode)


def _hashes(change: FileChange) -> Iterator[str]:
    return (content.hash for content in (change.before, change.after) if isinstance(content, Bytes | Stored))
