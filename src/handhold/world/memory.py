"""A workspace in a dictionary: for tests and dry runs. It passes the suite of the real one."""

import threading
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from posixpath import dirname
from typing import TypeVar

from handhold.core.errors import Busy, ContentDropped, IsDirectory, NotDirectory, Stale
from handhold.core.facts import Identity
from handhold.core.plans import Bytes, Content, Directory, FileChange, Folder, FolderTime, Shelved, Stored, digest
from handhold.core.ports import Broken, Contents
from handhold.world.memory_view import DIRECTORY_MODE, FILE_MODE, MemoryView

PATIENCE = 30.0  # seconds to wait for somebody else's transaction

T = TypeVar("T")


class MemoryFiles(MemoryView):
    """`slots` holds files that wait to change places. Of what a command may leave, there are only files here."""

    def __init__(
        self,
        files: Mapping[str, str | bytes] | None = None,
        *,
        root: str = "/ws",
        contents: Contents | None = None,
        directories: Iterable[str] = (),
        encodings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(files, root=root, directories=directories, encodings=encodings)
        self.slots: dict[str, bytes] = {}
        self._contents = contents
        self._held = threading.Lock()

    def answered(self, work: Callable[[], T], go_on: Callable[[], None]) -> T:
        return work()

    # --- the one door

    @contextmanager
    def transaction(
        self, changes: Sequence[FileChange], times: Sequence[FolderTime] = ()
    ) -> Generator["MemoryTransaction | MemoryExchange"]:
        kind = MemoryExchange if any(isinstance(each.before or each.after, Shelved) for each in changes) else None
        with self.alone():
            yield (kind or MemoryTransaction)(self, changes, f"m{next(self.ticks)}")

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

    def finish(self, *, renew: Collection[str] = ()) -> None:
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

    def finish(self, *, renew: Collection[str] = ()) -> None:
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
