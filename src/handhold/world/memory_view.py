"""Files in a dictionary, as they are read. `MemoryView.files` may be changed behind the tools' back, as a disk may."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from posixpath import basename, dirname

from handhold.core.errors import IsDirectory, NotDirectory, NotFound, OutsideWorkspace, TooLarge, ToolError
from handhold.core.facts import Beginning, Declared, Identity, Look, Page, Whole
from handhold.core.plans import digest
from handhold.core.ports import MOST_EDITABLE
from handhold.core.text.alike import near
from handhold.core.text.names import real, unmistakable
from handhold.world.files.declarations import MOST_CONFIG, Declarations
from handhold.world.files.index import SMALL, count_of, page_of
from handhold.world.files.roots import Root, Roots, meant, names

FILE_MODE, DIRECTORY_MODE = 0o644, 0o755


class MemoryView:
    """Names in `files` and `directories` are relative to the root. A directory is also there if a file is in it."""

    def __init__(
        self,
        files: Mapping[str, str | bytes] | None = None,
        *,
        root: str = "/ws",
        directories: Iterable[str] = (),
        encodings: Mapping[str, str] | None = None,
    ) -> None:
        self.files: dict[str, bytes] = {}
        self.directories: set[str] = {"", *directories}
        self._roots = Roots([Root(-1, root, root, writable=True, device=1)])
        self.ticks = count(1)
        self._known: dict[str, tuple[bytes | None, Identity]] = {}
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
            tick = next(self.ticks)
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


@dataclass(frozen=True)
class MemoryHiding:
    """By name: no file has two of them here."""

    workspace: MemoryView
    denies: Callable[[str], bool]

    def places(self, until: float | None = None) -> tuple[str, ...]:
        places = (real(self.workspace.place_at(unmistakable(name))) for name in sorted(self.workspace.files))
        return tuple(place for place in places if self.denies(place))

    def files(self, until: float | None = None) -> tuple[str, ...]:
        return self.places(until)

    def twins(self) -> Mapping[tuple[int, int], str]:
        return {}
