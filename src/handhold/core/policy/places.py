"""Which places some patterns are about.

A pattern without a slash is a name, at any depth below a root; one with a slash (`./x` too) is the way down from a
root; `/…` and `~/…` are where they say. `*` stays in one folder, `**` crosses them, as for every glob here. What covers
a folder covers all that is in it. What stands above a root does not matter.

A search asks about a hundred thousand places and a command may have written as many. So what is known of a folder is
kept, and a name that no pattern could end with is done with at a glance.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import NamedTuple
from unicodedata import normalize

from handhold.core.errors import BadGlob
from handhold.core.text.globs import MAGIC, GlobSet, Line, checked

MOST_FOLDERS = 50_000  # that are remembered; then they are all forgotten
LONGEST_KEPT = 1000  # characters of a path whose folder is remembered: thousands of nested ones would fill the memory

_MAGIC = re.compile("[" + re.escape("".join(sorted(MAGIC))) + "]")
_ENDING = re.compile(r".*[*?\]}]([^*?\[\]{}]+)", re.DOTALL)


class Folder(NamedTuple):
    """Whether all in it is covered, and what stands before its names: on the ways from each root, and in full."""

    covered: bool
    ways: tuple[bytes, ...] = ()
    full: bytes = b""


class Places:
    """The patterns of one rule, or of many that are asked together."""

    def __init__(self, patterns: Iterable[str], roots: Sequence[str], home: str = "", *, folds: bool = False) -> None:
        """ValueError for a pattern that is none. Without a home `~/…` is nowhere; `folds` takes A and a for one."""
        self._below, self._anywhere = Patterns(), Patterns()
        self._spell = folded if folds else composed
        for pattern in patterns:
            line = _line(self._spell(pattern), self._spell(home))
            if line is not None:
                (self._anywhere if pattern.startswith(("/", "~")) else self._below).add(line)
        self._roots = tuple(root.rstrip("/") for root in roots)
        self._folds = folds
        self._folders: dict[str, Folder] = {}

    @cached_property
    def covers(self) -> Callable[[str], bool]:
        """Whether a place, spelled really, or a folder that it is in, is one of them."""
        names, endings, beginnings = self._glance
        known, entered, named, folds, spell = self._folders.get, self._entered, self._named, self._folds, self._spell

        def covers(place: str) -> bool:
            above, _, name = place.rpartition("/")
            covered, ways, full = known(above) or entered(above)
            if covered:
                return True
            if not name.isascii():
                name = spell(name)
            elif folds:
                name = name.casefold()
            if name in names or name.endswith(endings) or name.startswith(beginnings):
                return named(ways, full, name)
            return False

        return covers

    @cached_property
    def _glance(self) -> "Glance":
        lasts = [line.glob.rpartition("/")[2] for each in (self._below, self._anywhere) for line in each.themselves]
        return glance(lasts)

    def _named(self, ways: Sequence[bytes], full: bytes, name: str) -> bool:
        spelled = _bytes(name)
        if any(self._below.match(way + spelled, spelled) for way in ways):
            return True
        return self._anywhere.match(full + spelled, spelled)

    def _entered(self, place: str) -> Folder:
        """What is known of a folder, and of those above it, from now on."""
        if len(self._folders) > MOST_FOLDERS:
            self._folders.clear()  # another thread may be reading: nothing below looks twice
        unknown: list[str] = []
        folder = self._folders.get(place)
        while folder is None and place:
            unknown.append(place)
            place = place.rpartition("/")[0]
            folder = self._folders.get(place)
        if folder is None:
            folder = self._folders[""] = Folder(covered=False, ways=self._at(""))
        for place in reversed(unknown):
            name = place.rpartition("/")[2]
            folder = self._step(folder, self._spell(name), self._at(place))
            if len(place) <= LONGEST_KEPT:
                self._folders[place] = folder
        return folder

    def _step(self, above: Folder, name: str, from_here: tuple[bytes, ...]) -> Folder:
        spelled = _bytes(name)
        ways, full = tuple(way + spelled for way in above.ways), above.full + spelled
        names, endings, beginnings = self._glance
        may_be = name in names or name.endswith(endings) or name.startswith(beginnings)
        covered = above.covered or (may_be and self._named(above.ways, above.full, name))
        covered = covered or any(map(self._below.all_in, ways)) or self._anywhere.all_in(full)
        return Folder(covered, (*(way + b"/" for way in ways), *from_here), full + b"/")

    def _at(self, place: str) -> tuple[bytes, ...]:
        return (b"",) if place in self._roots else ()


class Patterns:
    """Those that start in the same place. `x/**` is about what is in x, and not about x."""

    def __init__(self) -> None:
        self.themselves: list[Line] = []
        self.insides: list[Line] = []

    def add(self, line: Line) -> None:
        if line.glob.endswith("/**"):
            self.insides.append(Line(line.text, 0, line.glob[:-3]))
        else:
            self.themselves.append(line)

    def match(self, path: bytes, name: bytes) -> bool:
        return bool(self.themselves) and self._themselves.holds(path, name)

    def all_in(self, folder: bytes) -> bool:
        return bool(self.insides) and self._insides.holds(folder, folder.rpartition(b"/")[2])

    @cached_property
    def _themselves(self) -> GlobSet:
        return GlobSet(self.themselves, lenient=False)

    @cached_property
    def _insides(self) -> GlobSet:
        return GlobSet(self.insides, lenient=False)


class Glance(NamedTuple):
    """What the last name of a pattern can be, begin with or end with. All of them, if one could be anything."""

    names: frozenset[str]
    endings: tuple[str, ...]
    beginnings: tuple[str, ...]


EVERYTHING = Glance(frozenset(), (), ("",))


def glance(lasts: Iterable[str]) -> Glance:
    """It may let through a name that no pattern is about, and never holds back one that a pattern is."""
    names: set[str] = set()
    endings: set[str] = set()
    beginnings: set[str] = set()
    for last in lasts:
        begins = _MAGIC.split(last, maxsplit=1)[0]
        if "\\" in last or last.count("{") != last.count("}") or last.count("[") != last.count("]"):
            return EVERYTHING  # a slash stood within braces, or something says that it means itself
        if begins == last:
            names.add(last)
        elif begins:
            beginnings.add(begins)
        elif ends := _ENDING.fullmatch(last):
            endings.add(ends[1])
        else:
            return EVERYTHING
    return Glance(frozenset(names), tuple(endings), tuple(beginnings))


def folded(name: str) -> str:
    """A name as a file system that folds case keeps it."""
    return name.casefold() if name.isascii() else normalize("NFC", normalize("NFC", name).casefold())


def composed(name: str) -> str:
    """A name in its composed form. A file may have it in parts: to a person it is the same."""
    return name if name.isascii() else normalize("NFC", name)


def literal(path: str) -> str:
    """A path as a pattern for itself."""
    return _MAGIC.sub(r"\\\g<0>", path)


def _bytes(name: str) -> bytes:
    try:
        return name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # no file can be called this
        return name.encode("utf-8", "replace")


def _line(pattern: str, home: str) -> Line | None:
    """A pattern as the set takes it; None if it is about a home and there is none. ValueError if it is no pattern."""
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if not parts or "\0" in pattern or ".." in parts:
        raise ValueError(f"{pattern!r} is no pattern for paths: it names nothing, leads up or holds a NUL")
    if pattern.startswith("~"):
        if parts[0] != "~" or len(parts) < 2:
            raise ValueError(f"{pattern!r} is no pattern for paths: only ~/… is the home")
        if not home:
            return None
        parts[0] = literal(home.strip("/"))
    glob = "/".join(parts)
    if "/" not in pattern.rstrip("/") and glob != "**":
        glob = f"**/{glob}"
    try:
        return Line(pattern, 0, checked(glob) if _MAGIC.search(pattern) else glob)
    except BadGlob as bad:
        raise ValueError(f"{pattern!r} is no pattern for paths: {bad.because}") from None
