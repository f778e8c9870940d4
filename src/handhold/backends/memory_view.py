"""Files in memory, for reading. `MemoryView.files` may be changed by others at any time, as a disk may."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import count
from posixpath import basename, dirname

from handhold.backends.descriptor_pool import Pooled
from handhold.backends.files.encoding_declarations import MAX_CONFIG_BYTES, EncodingDeclarations
from handhold.backends.files.line_pages import WHOLE_READ_BYTES, build_page, count_lines
from handhold.backends.files.roots import Root, Roots, split_names, unescape_existing_names
from handhold.core.errors import IsDirectory, NotDirectory, NotFound, OutsideWorkspace, TooLarge, ToolError
from handhold.core.facts import DeclaredEncoding, FileHead, FileIdentity, FileSnapshot, FileStat, FolderEntry, Page
from handhold.core.plans import digest
from handhold.core.ports.files import MAX_EDITABLE_BYTES
from handhold.core.text.path_escaping import escape_ambiguous, unescape_ambiguous
from handhold.core.text.suggestions import find_similar_paths
from handhold.logs import log_swallowed

FILE_MODE, DIRECTORY_MODE = 0o644, 0o755
NO_FOLDER = Pooled("memory", lambda: -1, lambda _: None, descriptors=0)  # nothing here is opened


class MemoryView:
    """Names in `files` and `directories` are relative to the root. A directory also exists if it contains a file."""

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
        self._roots = Roots([Root(NO_FOLDER, root, root, writable=True, id=(1, 1))])
        self.ticks = count(1)
        self._identities: dict[str, tuple[bytes | None, FileIdentity]] = {}
        self._declarations = EncodingDeclarations(
            encodings, self.files.get, lambda name: self.files[name][:MAX_CONFIG_BYTES]
        )
        for path, data in (files or {}).items():
            self.put(path, data)

    # --- changes by others

    def put(self, path: str, data: str | bytes | None) -> None:
        """Create, overwrite or remove a file as another program would: by its real name."""
        name = self._parse_name(path, path)
        if data is None:
            del self.files[name]
        else:
            self.write(name, data.encode() if isinstance(data, str) else data)

    def write(self, name: str, data: bytes) -> None:
        self.files[name] = data
        self._identities.pop(name, None)  # a write is a change, even with the same bytes

    def get_content(self, path: str) -> bytes | None:
        return self.files.get(self.resolve_name(path))

    def remove_directory(self, place: str) -> None:
        """Remove it if it is empty."""
        name = self.name_of_place(place)
        if not self.list_names(name):
            self.directories.discard(name)
            self.directories.add(dirname(name))

    # --- metadata

    @property
    def roots(self) -> tuple[str, ...]:
        return self._roots.paths

    def resolve(self, path: str) -> str:
        return self._format_place(self.resolve_name(path))

    def to_place(self, place: str) -> str:
        """The canonical form of a place, whether it exists or not."""
        return self._format_place(self.name_of_place(place))

    def _format_place(self, name: str) -> str:
        return self._roots.first.prefix + escape_ambiguous(name) if name else self._roots.first.real

    def stat(self, path: str) -> FileStat | None:
        name = self.resolve_name(path)
        if name in self.files:
            return FileStat(self.resolve(path), "file", self._get_identity(name), FILE_MODE)
        if self.is_directory(name):
            return FileStat(self.resolve(path), "directory", self._get_identity(name), DIRECTORY_MODE)
        return None

    def trace(self, path: str) -> Sequence[str]:
        return (self.resolve(path),)

    def is_writable(self, path: str) -> bool:
        return bool(self.resolve(path))

    def suggest_paths(self, path: str) -> tuple[str, ...]:
        wanted = self.resolve_name(path)
        above = dirname(wanted)
        while not self.is_directory(above):
            above = dirname(above)
        name = basename(wanted).casefold()
        elsewhere = (other for other in self.files if basename(other).casefold() == name)
        return find_similar_paths(wanted, above, sorted(self.list_names(above)), elsewhere)

    def list_folder(self, path: str) -> Sequence[FolderEntry]:
        name = self.resolve_name(path)
        below = {each: f"{name}/{each}" if name else each for each in self.list_names(name)}
        return [
            FolderEntry(each, self.is_directory(inner), self._get_identity(inner).mtime_ns)
            for each, inner in below.items()
        ]

    def has_outside_link(self, path: str) -> bool:
        return False

    def list_hard_links(self, path: str) -> Sequence[str]:
        return ()

    def link_names(
        self, is_named: Callable[[str], bool], is_judged: Callable[[str], bool], spelled: Sequence[str]
    ) -> "NoLinks":
        return NoLinks()

    def hidden_paths(
        self, is_denied: Callable[[str], bool], *, tops: Sequence[str] | None = None, local_only: bool = False
    ) -> "MemoryHiddenPaths":
        return MemoryHiddenPaths(self, is_denied)

    def is_directory(self, name: str) -> bool:
        return any(other == name or other.startswith(f"{name}/") for other in self._iter_directories())

    def _iter_directories(self) -> Iterator[str]:
        """Directories, with repetitions."""
        yield from self.directories
        yield from map(dirname, self.files)

    def list_names(self, directory: str) -> set[str]:
        below = f"{directory}/" if directory else ""
        return {
            other[len(below) :].split("/")[0]
            for other in (*self.files, *self.directories)
            if other.startswith(below) and other not in ("", directory)
        }

    def resolve_name(self, path: str) -> str:
        """The name below the root that a path from the model leads to."""
        return self._parse_name(unescape_existing_names(path, self._exists), path)

    def name_of_place(self, place: str) -> str:
        """The name at a place, whether it exists or not."""
        return self._parse_name(unescape_ambiguous(place), place)

    def _exists(self, path: str) -> bool:
        try:
            name = self._parse_name(path, path)
        except ToolError:
            log_swallowed()
            return False
        return name in self.files or self.is_directory(name)

    def _parse_name(self, path: str, given: str) -> str:
        """A path normalized below the root. There are no links, so its spelling is enough."""
        parts: list[str] = []
        for name in split_names(self._roots.parse_path(path).rel_path):
            if "/".join(parts) in self.files:
                raise NotDirectory(given)
            if name != "..":
                parts.append(name)
            elif parts:
                parts.pop()
            else:
                raise OutsideWorkspace(given, self.roots)
        return "/".join(parts)

    def _get_identity(self, name: str) -> FileIdentity:
        """A new identity whenever the content is not the same object as before."""
        data = self.files.get(name)
        known = self._identities.get(name)
        if known is None or known[0] is not data:
            tick = next(self.ticks)
            known = self._identities[name] = (data, FileIdentity(1, tick, len(data or b""), tick, tick))
        return known[1]

    # --- contents

    def read(self, path: str) -> FileSnapshot:
        status = self._stat_file(path)
        if status.identity.size > MAX_EDITABLE_BYTES:
            raise TooLarge(path, status.identity.size, MAX_EDITABLE_BYTES)
        data = self.files[self.resolve_name(path)]
        return FileSnapshot(status.path, data, digest(data), status.identity)

    def read_head(self, path: str, count: int) -> FileHead:
        status, data = self._stat_file(path), self.files[self.resolve_name(path)]
        whole = (
            FileSnapshot(status.path, data, digest(data), status.identity) if len(data) <= WHOLE_READ_BYTES else None
        )
        return FileHead(status.path, data[:count], status.identity, whole)

    def read_page(
        self, path: str, offset: int, limit: int, width: int, *, snapshot: FileSnapshot | None = None
    ) -> Page:
        return build_page(snapshot or self.read(path), path, offset, limit, width, self.declared_encoding(path))

    def count_lines(self, path: str) -> int:
        return count_lines(self.read(path), path, self.declared_encoding(path))

    def declared_encoding(self, path: str) -> DeclaredEncoding | None:
        try:
            return self._declarations.find("", self.resolve_name(path))
        except ToolError:  # reported when the file is opened
            return None

    def fingerprint(self, path: str) -> tuple[FileIdentity, str]:
        status = self._stat_file(path)
        return status.identity, digest(self.files[self.resolve_name(path)])

    def _stat_file(self, path: str) -> FileStat:
        status = self.stat(path)
        if status is None:
            raise NotFound(path)
        if status.kind == "directory":
            raise IsDirectory(path)
        return status


class NoLinks:
    """Implements the port LinkNames: in memory there are no links."""

    def find(self, place: str) -> Sequence[str]:
        return (place,)

    def find_spelled(self, is_denied: Callable[[str], bool]) -> Sequence[str]:
        return ()

    def held(self) -> AbstractContextManager[None]:
        return nullcontext()


@dataclass(frozen=True)
class MemoryHiddenPaths:
    """By name: files have no second name here."""

    workspace: MemoryView
    denies: Callable[[str], bool]

    def paths(self, until: float | None = None) -> tuple[str, ...]:
        places = (
            unescape_ambiguous(self.workspace.to_place(escape_ambiguous(name))) for name in sorted(self.workspace.files)
        )
        return tuple(place for place in places if self.denies(place))

    def files(self, until: float | None = None) -> tuple[str, ...]:
        return self.paths(until)

    def hard_links(self) -> Mapping[tuple[int, int], str]:
        return {}

    def read_outside(self, place: str, count: int) -> tuple[tuple[str, bytes], ...]:
        return ()
