"""What may not be read, found on the disk: by its name, and by the other names that the same file has.

A rule is about names, and a command opens files. So before one starts it has to be known where they are: in every
folder, ignored or not, and under every name below the roots that leads to the same bytes. All folders are gone through
once. Afterwards each is only asked whether anything came or went in it, which takes a fraction of the time.

A link whose name is denied stands for what it leads to. A folder that is closed to us is hidden as a whole: its owner
could open it, and nobody knows what is in there.
"""

import os
import stat
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from threading import Lock
from time import monotonic, time_ns
from typing import NamedTuple

from handhold.core.facts import Identity
from handhold.world.files.roots import Root
from handhold.world.files.tree import DiskTree, EntryKind
from handhold.world.files.trouble import named

FRESH = 2_000_000_000  # ns; what changed so shortly before it was listed may have changed again within the same tick

TOPS = ("/etc", "/var", "/tmp", "/opt")
RUN_ON = ("/usr/", "/bin/", "/sbin/", "/lib/", "/lib32/", "/lib64/", "/nix/", "/proc/", "/sys/", "/dev/", "/run/")

Denies = Callable[[str], bool]
Number = tuple[int, int]  # device and inode: one file, whatever it is called


# Of a folder: device, inode and change time. Another one when it is another folder, or something came or went in it.
Stamp = tuple[int, int, int]


@dataclass
class Listed:
    """A folder as it was when it was listed."""

    stamp: Stamp | None
    settled: bool  # whether the stamp would tell of everything since
    below: tuple[bytes, ...] = ()  # ways to the folders in it
    denied: tuple[bytes, ...] = ()  # ways to whatever else is denied in it: files, pipes
    links: tuple[bytes, ...] = ()  # and to links that are
    folders: tuple[bytes, ...] = ()  # and to folders that are
    closed: bool = False  # nobody knows what is in it
    shows: bool = False  # something in it may be read
    twins: tuple[bytes, ...] | None = None  # ways to files with a number that was looked for; None: nobody looked


class Found(NamedTuple):
    places: tuple[str, ...]
    numbers: dict[Number, str]  # of those that have several names: one that is denied
    files: tuple[str, ...]  # one by one


class HiddenFiles:
    """Fulfils the port Hiding. Several threads may ask at once."""

    def __init__(self, roots: Sequence[Root], denies: Denies, left_out: Callable[[], Sequence[str]] = list) -> None:
        """`denies` gets places as they are really spelled, and always says the same of the same.

        `left_out` names folders that are not looked into.
        """
        self._below = [Below(root, denies, left_out) for root in outermost(roots)]
        self._lock = Lock()
        self._wanted: frozenset[Number] = frozenset()

    def places(self, until: float | None = None) -> tuple[str, ...]:
        """Where they are now, really spelled: the topmost of each, and what links with such a name lead to.

        TimeoutError if that is not known at `until`, on the monotonic clock; the next to ask goes on from there.
        """
        return self._now(until).places

    def files(self, until: float | None = None) -> tuple[str, ...]:
        """The denied files one by one, also those in denied folders, and what links with such a name lead to."""
        return self._now(until).files

    def twins(self) -> Mapping[Number, str]:
        """Denied files that have several names, each with one that is denied."""
        return self._now().numbers

    def _now(self, until: float | None = None) -> Found:
        with self._lock:
            for below in self._below:
                below.look(until)
            numbers = {number: place for below in self._below for number, place in below.linked()}
            wanted = frozenset(numbers)
            places = {place: None for below in self._below for place in below.hidden()}
            for below in self._below if wanted else ():
                places |= {place: None for place in below.named(wanted, again=wanted != self._wanted)}
            self._wanted = wanted
            files = {place: None for below in self._below for place in below.files()}
            return Found(tuple(topmost(places)), numbers, tuple(files))


class Below:
    """The folders below one root, as far as they are known."""

    def __init__(self, root: Root, denies: Denies, left_out: Callable[[], Sequence[str]]) -> None:
        self._root = root
        self._denies = denies
        self._left_out = left_out
        self._outside: list[bytes] = []  # ways to what is left out
        self._known: dict[bytes, Listed] = {}
        self._begun: dict[bytes, Listed] = {}  # by a look that ran out of time
        self._shut: list[bytes] = []  # of all of them together, as the following
        self._denied: list[bytes] = []
        self._links: list[bytes] = []

    def look(self, until: float | None = None) -> None:
        """List what is new or has changed; forget what is gone. TimeoutError if it takes longer."""
        outside = [os.fsencode(each.removeprefix(self._root.prefix)) for each in self._left_out()]
        if outside != self._outside:
            self._outside, self._known, self._begun = outside, {}, {}
        known, now = self._known or self._begun, dict[bytes, Listed]()
        ahead = [b""]
        with opened(self._root) as tree:
            if self._known and self._is_as_it_was(tree.top):
                return
            while ahead:
                if until is not None and monotonic() > until:
                    self._begun = known | now
                    raise TimeoutError
                way = ahead.pop()
                listed = known.get(way)
                if listed is None or not listed.settled or listed.stamp != stamp_of(tree.top, way):
                    listed = self._listed(tree, way)
                now[way] = listed
                ahead += (below for below in listed.below if below not in outside)
        self._known, self._begun = now, {}
        self._shut = [way for way, listed in now.items() if listed.closed]
        self._shut += [way for listed in now.values() for way in listed.folders if not self._shows(way)]
        self._denied = [way for listed in now.values() for way in listed.denied]
        self._links = [way for listed in now.values() for way in listed.links]

    def _is_as_it_was(self, top: int) -> bool:
        """The same question as below, for all folders at once: most times nothing has changed anywhere."""
        # Before every command, of every folder: what `stamp_of` would do, without calling it.
        look, folders = os.stat, self._known.items()
        try:
            for way, listed in folders:
                found = look(way or b".", dir_fd=top, follow_symlinks=False)
                if not listed.settled or (found[2], found[1], found.st_ctime_ns) != listed.stamp:
                    return False
        except OSError:
            return False
        return True

    def _shows(self, way: bytes) -> bool:
        """Whether anything in a folder, or below it, may be read: a rule may spare some of what another denies."""
        ahead = [way]
        while ahead:
            listed = self._known.get(ahead.pop())
            if listed is None or listed.shows:
                return True
            ahead += listed.below
        return False

    def _listed(self, tree: DiskTree, way: bytes) -> Listed:
        above = way + b"/" if way else b""
        began = time_ns()
        try:
            found = os.fstat(tree.folder(above))
            entries = list(tree.stream(above))
        except OSError:
            return Listed(None, settled=False, closed=self._is_ours(way))
        stamp = (found.st_dev, found.st_ino, found.st_ctime_ns)
        prefix, denies = self.place(above), self._denies
        below: list[bytes] = []
        denied: dict[EntryKind, list[bytes]] = {"file": [], "directory": [], "link": [], "other": []}
        shows = False
        for name, kind in entries:
            if kind == "directory":
                below.append(above + os.fsencode(name))
            if denies(prefix + name):
                denied[kind].append(above + os.fsencode(name))
            else:
                shows = True
        return Listed(
            stamp,
            settled=found.st_ctime_ns < began - FRESH,
            below=tuple(below),
            denied=(*denied["file"], *denied["other"]),
            links=tuple(denied["link"]),
            folders=tuple(denied["directory"]),
            shows=shows,
        )

    def _is_ours(self, way: bytes) -> bool:
        """Of a folder that could not be listed: whether a command could open it all the same."""
        found = self._status(way)
        return found is not None and found.st_uid == os.geteuid()

    def place(self, way: bytes) -> str:
        return self._root.prefix + os.fsdecode(way)

    # --- what was found

    def hidden(self) -> Iterator[str]:
        yield from map(self.place, self._shut)
        yield from self.files()

    def files(self) -> Iterator[str]:
        yield from map(self.place, self._denied)
        for link in self._links:
            target = os.path.realpath(self.place(link))
            if os.path.exists(target) and not (os.path.isdir(target) and self._is_needed(target)):
                yield target

    def _is_needed(self, folder: str) -> bool:
        """Whether no command could run without a folder: it holds the root, or the system's programs."""
        above = folder.rstrip("/") + "/"
        return self._root.prefix.startswith(above) or folder in TOPS or above.startswith(RUN_ON)

    def linked(self) -> Iterator[tuple[Number, str]]:
        """Denied files that have several names, by their numbers."""
        for way in self._denied:
            found = self._status(way)
            if found and stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
                yield (found.st_dev, found.st_ino), self.place(way)

    def named(self, numbers: frozenset[Number], *, again: bool) -> Iterator[str]:
        """Files with these numbers; those that were found before, unless it should be looked `again`."""
        with opened(self._root) as tree:
            for way, listed in self._known.items():
                if listed.twins is None or again:
                    listed.twins = tuple(with_numbers(tree, way, numbers))
                yield from map(self.place, listed.twins)

    def _status(self, way: bytes) -> os.stat_result | None:
        try:
            return os.stat(way, dir_fd=self._root.fd, follow_symlinks=False)
        except OSError:
            return None


def stamp_of(top: int, way: bytes) -> Stamp | None:
    """By name, which is quick. A link that was put in its way shows another folder, which has another number."""
    try:
        found = os.stat(way or b".", dir_fd=top, follow_symlinks=False)
    except OSError:  # gone, or deeper than a name may be long
        return None
    return found.st_dev, found.st_ino, found.st_ctime_ns


def with_numbers(tree: DiskTree, way: bytes, numbers: frozenset[Number]) -> Iterator[bytes]:
    """The ways to those files in a folder, not below it, that have one of these numbers."""
    above = way + b"/" if way else b""
    try:
        folder = tree.folder(above)
        names = [name for name, kind in tree.stream(above) if kind == "file"]
    except OSError:
        return
    for name in names:
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError:
            continue
        if (found.st_dev, found.st_ino) in numbers:
            yield above + os.fsencode(name)


def names_below(roots: Sequence[Root], identity: Identity, enough: int) -> int:
    """How many names a file has below these roots; nobody counts further than `enough`."""
    number = frozenset({(identity.device, identity.inode)})
    return sum(1 for _ in islice((way for root in outermost(roots) for way in _everywhere(root, number)), enough))


def _everywhere(root: Root, numbers: frozenset[Number]) -> Iterator[bytes]:
    ahead = [b""]
    with opened(root) as tree:
        while ahead:
            way = ahead.pop()
            above = way + b"/" if way else b""
            yield from with_numbers(tree, way, numbers)
            try:
                ahead += [above + name for name, kind in tree.entries(above) if kind == "directory"]
            except OSError:
                continue  # closed to us, or gone


@contextmanager
def opened(root: Root) -> Generator[DiskTree]:
    with named(root.real):
        top = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=root.fd)
    try:
        with DiskTree(top) as tree:
            yield tree
    finally:
        os.close(top)


def outermost(roots: Sequence[Root]) -> list[Root]:
    """Without those that lie in another."""
    by_path = {root.real: root for root in roots}
    return [root for root in by_path.values() if not any(_inside(root.real, each) for each in by_path)]


def topmost(places: dict[str, None]) -> Iterator[str]:
    """In order, without what lies in another."""
    last = ""
    for place in sorted(places, key=lambda each: each.split("/")):
        if not last or not _inside(place, last):
            yield (last := place)


def _inside(path: str, top: str) -> bool:
    return path != top and path.startswith(top.rstrip("/") + "/")
