"""The workspace: files beneath its roots, as they are at this moment.

Every path goes through one resolver, chosen when the workspace is opened; every read is of one descriptor,
looked at before and after.
"""

import os
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from hashlib import sha256
from itertools import islice
from pathlib import Path
from stat import S_IMODE
from typing import Literal, Protocol, TypeVar

from handhold.core.errors import (
    BadPath,
    ChangedDuringRead,
    IsDirectory,
    NotDirectory,
    NotFound,
    NotRegularFile,
    OutsideWorkspace,
    PermissionRefused,
    TooLarge,
    ToolError,
)
from handhold.core.facts import Beginning, Declared, Identity, Look, Page, Whole
from handhold.core.plans import Content, FileChange, FolderTime, Shelved, digest
from handhold.core.ports import MOST_EDITABLE, Broken, Contents, Hiding, Transaction
from handhold.core.text.alike import near
from handhold.core.text.names import unmistakable
from handhold.world.files import openat2
from handhold.world.files.called import called, inside
from handhold.world.files.commit import Committer
from handhold.world.files.commit.likeness import bytes_at, stat_of
from handhold.world.files.commit.things import entries_of, is_thing, lies, there
from handhold.world.files.declarations import MOST_CONFIG, Declarations
from handhold.world.files.distant import Distant
from handhold.world.files.hidden import HiddenFiles, names_below
from handhold.world.files.index import PIECE, SMALL, Indexes, Torn, count_of, page_of, pieces
from handhold.world.files.kinds import identity_of, kind_of, other_kind, virtual
from handhold.world.files.manifest import exact_hash
from handhold.world.files.roots import Root, Roots, Spot, meant, names
from handhold.world.files.shelf import Shelf
from handhold.world.files.trouble import named, trouble
from handhold.world.files.walk import Opened, Walk
from handhold.world.state.folder import private

LITTLE = 4096  # bytes asked for after the last: a buffer for a long one takes longer to make than to fill
MOST_NAMES = 2_000  # of a directory, among which one like a missing one is sought
MOST_UNSAID = 8 * 1024 * 1024  # bytes of a file that does not say how long it is
RESULTS = "/large_tool_results"  # what the folder of offloaded outputs is called, wherever it lies
UNSEEN = (BadPath, NotFound, NotDirectory, PermissionRefused)  # what a thing at a path may not be shown for

T = TypeVar("T")


class Resolver(Protocol):
    """How a path becomes a descriptor without leaving the roots."""

    @property
    def name(self) -> str: ...

    def open(self, spot: Spot, flags: int) -> Opened: ...

    def directory(self, root: Root, way: Sequence[str]) -> int: ...


class Workspace:
    """Fulfils the port Files. Relative paths are of the first root."""

    def __init__(
        self,
        roots: Sequence[str | os.PathLike[str]],
        contents: Contents,
        resolver: Literal["openat2", "walk"] | None = None,
        *,
        read_only: Sequence[str | os.PathLike[str]] = (),
        state: Path | None = None,
        encodings: Mapping[str, str] | None = None,
    ) -> None:
        """With a state folder there are shelves, and what was offloaded there can be read."""
        given = [(root, True) for root in roots] + [(root, False) for root in read_only]
        self._roots = Roots.open(given, {RESULTS: private(state / "results")} if state else {})
        self._state = state
        self._contents = contents
        self._shelves: dict[str, Shelf | None] = {}
        self._resolver = chosen(resolver, self._roots)
        self._indexes = Indexes()
        self._declarations = Declarations(encodings, self._state_of, self._config)
        self._committer = Committer(self, contents)
        self._distant = Distant(self._roots.names)

    @property
    def roots(self) -> tuple[str, ...]:
        return self._roots.names

    @property
    def roots_open(self) -> tuple[Root, ...]:
        return self._roots.all

    @property
    def resolver(self) -> str:
        return self._resolver.name

    def close(self) -> None:
        for shelf in self._shelves.values():
            if shelf is not None:
                shelf.close()
        self._distant.close()
        self._roots.close()

    # --- what stands where

    def place(self, path: str) -> str:
        with self._open(path, os.O_PATH) as opened:
            return opened.place

    def look(self, path: str) -> Look | None:
        with self._open(path, os.O_PATH) as opened:
            if opened.fd is None:
                return None
            status = self._status(opened.fd, path)
            kind = kind_of(status.st_mode)
            links = 1 if kind == "directory" else status.st_nlink
            return Look(opened.place, kind, identity_of(status), S_IMODE(status.st_mode), links)

    def writable(self, path: str) -> bool:
        return self.root_of(self.place(path)).writable

    def near(self, path: str) -> tuple[str, ...]:
        root, way = self._roots.of(self.place(path))
        *above, name = names(way) or [""]
        wanted = "/".join([*above, name])
        while (there := self._names(root, above)) is None and above:
            above = above[:-1]
        prefix = "" if root is self._roots.first else root.prefix
        found = near(
            wanted, "/".join(above), there or (), called(name, lambda way: self._resolver.directory(root, way))
        )
        return tuple(prefix + other for other in found)

    def names_outside(self, path: str) -> bool:
        look = self.look(path)
        if look is None or look.links == 1:
            return False
        return names_below(self._roots.all, look.identity, look.links) < look.links

    def hiding(self, denies: Callable[[str], bool], *, near: bool = False) -> Hiding:
        return HiddenFiles(self._roots.all, denies, self._distant.below_roots if near else list)

    # --- contents

    def read(self, path: str) -> Whole:
        return self._steady(path, lambda fd, place, identity: self._whole(fd, place, identity, path))

    def begun(self, path: str, count: int) -> Beginning:
        def read(fd: int, place: str, identity: Identity) -> Beginning:
            if identity.size > SMALL:
                return Beginning(place, os.read(fd, count), identity, None)
            whole = self._whole(fd, place, identity, path)
            return Beginning(place, whole.data[:count], identity, whole)

        return self._steady(path, read)

    def page(self, path: str, offset: int, limit: int, width: int, *, whole: Whole | None = None) -> Page:
        if whole is not None:
            return page_of(whole, path, offset, limit, width, self._declared(whole.path))

        def cut(fd: int, place: str, identity: Identity) -> Page:
            declared = self._declared(place)
            if identity.size <= SMALL:
                return page_of(self._whole(fd, place, identity, path), path, offset, limit, width, declared)
            return self._indexes.page(fd, place, identity, path, offset, limit, width, declared)

        return self._steady(path, cut)

    def count(self, path: str) -> int:
        def counted(fd: int, place: str, identity: Identity) -> int:
            declared = self._declared(place)
            if identity.size <= SMALL:
                return count_of(self._whole(fd, place, identity, path), path, declared)
            return self._indexes.count(fd, identity, path, declared)

        return self._steady(path, counted)

    def declared(self, path: str) -> Declared | None:
        try:
            return self._declared(self.place(path))
        except ToolError:  # whoever opens it will hear of it
            return None

    def _declared(self, place: str) -> Declared | None:
        root, way = self._roots.of(place)
        return self._declarations.of(root.prefix, way) if root in self._roots.all else None

    def _state_of(self, place: str) -> Identity | None:
        """Not by the resolver, which takes ten times as long: this tells only whether to read, and that is beneath."""
        try:
            return identity_of(os.stat(place))
        except (OSError, ValueError):
            return None

    def _config(self, place: str) -> bytes:
        try:
            return self._steady(unmistakable(place), lambda fd, _, __: os.read(fd, MOST_CONFIG))
        except ToolError:
            return b""

    def fingerprint(self, path: str) -> tuple[Identity, str]:
        def streamed(fd: int, _: str, identity: Identity) -> tuple[Identity, str]:
            hash = sha256()
            for piece in pieces(fd):
                hash.update(piece)
            return identity, hash.hexdigest()

        return self._steady(path, streamed)

    def answered(self, work: Callable[[], T], go_on: Callable[[], None]) -> T:
        return self._distant.answered(work, go_on)

    # --- for the commit

    def root_of(self, place: str) -> Root:
        return self._roots.of(place)[0]

    @contextmanager
    def directory(self, place: str) -> Generator[tuple[int, str]]:
        """The directory that a place is in, open for listing and syncing, and the name in it.

        No link is followed: a place is spelled without any, and one that is there now was put there since.
        """
        root, way = self._roots.of(place)
        *above, name = names(way) or [""]
        if not name or ".." in above or name == "..":
            raise BadPath(place, "it is not in a directory of the workspace")
        with named(place):
            fd = self._resolver.directory(root, above)
        try:
            yield fd, name
        finally:
            os.close(fd)

    def transaction(
        self, changes: Sequence[FileChange], times: Sequence[FolderTime] = ()
    ) -> AbstractContextManager[Transaction]:
        return self._committer.transaction(changes, times)

    def alone(self) -> AbstractContextManager[None]:
        return self._committer.alone()

    def recover(self, broken: Broken) -> tuple[str, ...]:
        return self._committer.recover(broken)

    # --- shelves

    def shelf_of(self, root: Root) -> Shelf | None:
        """Where things wait to change places with those in this root; None where there is no such place."""
        if self._state is None or not root.writable:
            return None
        if root.real not in self._shelves:
            others = [other for other in self._roots.all if other is not root]
            self._shelves[root.real] = shelf = Shelf.for_root(root, self._state, others)
            if shelf is not None:
                shelf.sweep(self._contents.slots)
        return self._shelves[root.real]

    @property
    def shelves(self) -> Collection[Shelf]:
        """Those that were opened, each once."""
        opened = list(self._shelves.values())  # another thread may open one
        return {shelf.folder: shelf for shelf in opened if shelf}.values()

    def shelf_at(self, place: str) -> Shelf | None:
        return self.shelf_of(self.root_of(place))

    def stands(self, path: str, content: Content) -> bool:
        try:
            with self.directory(path) as (fd, name), named(path):
                return there(fd, name, content)
        except BadPath:  # a root is in no directory of the workspace
            root, way = self._roots.of(path)
            return not names(way) and there(root.fd, ".", content)
        except (NotFound, NotDirectory):
            return False

    def shelved(self, content: Shelved, path: str) -> bytes | None:
        for place in self._slots(content):
            with place as (fd, name):
                if (data := self._held(fd, name, content)) is not None:
                    return data
        try:
            with self.directory(path) as (fd, name):
                return self._held(fd, name, content)
        except UNSEEN:
            return None

    def unfolded(self, content: Shelved, path: str, most: int) -> Sequence[tuple[str, Shelved]]:
        return self._at(content, path, lambda fd, name: entries_of(fd, name, content.slot, most)) or ()

    def exact_hash(self, content: Shelved, path: str) -> str | None:
        return self._at(content, path, lambda fd, name: exact_hash(name, dir_fd=fd))

    def _at(self, content: Shelved, path: str, look: Callable[[int, str], T]) -> T | None:
        """What `look` finds where the thing lies, in its slot or at its path; None if it is in neither."""
        for place in self._slots(content):
            with place as (fd, name):
                if is_thing(stat_of(fd, name), content):
                    return look(fd, name)
        try:
            with self.directory(path) as (fd, name):
                return look(fd, name) if is_thing(stat_of(fd, name), content) else None
        except (*UNSEEN, PermissionError):  # the last: the folder itself is closed
            return None

    def on_shelf(self, content: Shelved) -> bool:
        for place in self._slots(content):
            with place as (fd, name):
                if lies(fd, name, content):
                    return True
        return False

    def _slots(self, content: Shelved) -> Generator[AbstractContextManager[tuple[int, str]]]:
        """The folders in which its slot may be: a slot does not say of which root it is, and needs not."""
        command, _, slot = content.slot.partition("/")
        shelves = [shelf for root in self._roots.all if (shelf := self.shelf_of(root))]
        for shelf in {shelf.folder: shelf for shelf in shelves}.values():
            try:
                fd = shelf.open(command)
            except OSError:
                continue
            yield _closing(fd, slot)

    def _held(self, fd: int, name: str, content: Shelved) -> bytes | None:
        """What a file or link holds, if it is the one."""
        if content.kind not in ("file", "link") or content.size > MOST_EDITABLE:
            return None
        try:
            if not lies(fd, name, content):
                return None
            return os.fsencode(os.readlink(name, dir_fd=fd)) if content.kind == "link" else bytes_at(fd, name)
        except OSError:  # of what lies in a tree, a folder above may be closed, or not one any more
            return None

    # --- descriptors

    def _open(self, path: str, flags: int) -> Opened:
        if "\\" not in path:
            return self._resolver.open(self._roots.spot(path), flags)
        spot = self._roots.spot(meant(path, self._stands))
        opened = self._resolver.open(Spot(path, spot.root, spot.way), flags)
        opened.place = unmistakable(opened.place)
        return opened

    def _stands(self, path: str) -> bool:
        """Whether the letters of a path, as they are, lead to something."""
        try:
            with self._resolver.open(self._roots.spot(path), os.O_PATH) as opened:
                return opened.fd is not None
        except ToolError:
            return False

    def _status(self, fd: int, path: str) -> os.stat_result:
        try:
            status = os.fstat(fd)
        except OSError as error:  # of a mount that is connected to nothing, even this fails
            raise trouble(error, path) from error
        if status.st_dev not in self._roots.devices and virtual(fd):
            raise OutsideWorkspace(path, self.roots)
        return status

    def _steady(self, path: str, work: Callable[[int, str, Identity], T]) -> T:
        """What `work` makes of a regular file that nobody writes meanwhile; it gets a second chance."""
        for _ in range(2):
            with self._open(path, os.O_RDONLY) as opened:
                if opened.fd is None:
                    raise NotFound(path)
                status = self._status(opened.fd, path)
                kind = kind_of(status.st_mode)
                if kind == "directory":
                    raise IsDirectory(path)
                if kind == "other":
                    raise NotRegularFile(path, other_kind(status.st_mode))
                identity = identity_of(status)
                try:
                    made = work(opened.fd, opened.place, identity)
                    if identity_of(os.fstat(opened.fd)) == identity:
                        return made
                except Torn:
                    pass
                except OSError as error:
                    raise trouble(error, path) from error
        raise ChangedDuringRead(path)

    def _whole(self, fd: int, place: str, identity: Identity, path: str) -> Whole:
        if identity.size > MOST_EDITABLE:
            raise TooLarge(path, identity.size, MOST_EDITABLE)
        # To the end and not to st_size, which some file systems leave at 0; but what never ends is not read for ever.
        parts: list[bytes] = []
        size, most = 0, max(identity.size, MOST_UNSAID)
        more = LITTLE if identity.size else PIECE
        while part := os.read(fd, max(identity.size - size + 1, more)):
            parts.append(part)
            size += len(part)
            if size > most:
                raise TooLarge(path, size, most)
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        return Whole(place, data, digest(data), identity)

    def _names(self, root: Root, way: list[str]) -> list[str] | None:
        """Some names in a directory; None if it cannot be listed."""
        try:
            fd = self._resolver.directory(root, way)
            os.close(fd)
        except OSError:
            return None
        found = inside(way, lambda way: self._resolver.directory(root, way))
        return [name for name, _ in islice(found, MOST_NAMES)]


@contextmanager
def _closing(fd: int, name: str) -> Generator[tuple[int, str]]:
    try:
        yield fd, name
    finally:
        os.close(fd)


def chosen(resolver: str | None, roots: Roots) -> Resolver:
    """The kernel's resolver if there is one, unless one is asked for by name."""
    if resolver == "walk":
        return Walk(roots)
    if openat2.available(roots.first):
        return openat2.Kernel(roots)
    if resolver == "openat2":
        raise NotImplementedError("this kernel has no openat2, or forbids it")
    return Walk(roots)
