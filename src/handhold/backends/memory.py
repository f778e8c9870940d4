"""A workspace in memory, for tests and dry runs. It passes the same test suite as the real one."""

import threading
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from posixpath import dirname
from typing import TypeVar

from handhold.backends.memory_view import DIRECTORY_MODE, FILE_MODE, MemoryView
from handhold.core.errors import Busy, ContentDropped, IsDirectory, NotDirectory, Stale
from handhold.core.facts import FileIdentity
from handhold.core.plans import (
    Content,
    ContentRef,
    Directory,
    DirectoryMetadata,
    FileChange,
    FolderMtime,
    InlineContent,
    StagedContent,
    digest,
)
from handhold.core.ports.contents import ContentStore
from handhold.core.ports.journal import IncompleteTransaction

LOCK_TIMEOUT_SECONDS = 30.0  # to wait for another transaction

T = TypeVar("T")


class MemoryFiles(MemoryView):
    """`slots` holds files to be exchanged. Of what a command may leave, only files are supported here."""

    def __init__(
        self,
        files: Mapping[str, str | bytes] | None = None,
        *,
        root: str = "/ws",
        contents: ContentStore | None = None,
        directories: Iterable[str] = (),
        encodings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(files, root=root, directories=directories, encodings=encodings)
        self.slots: dict[str, bytes] = {}
        self._contents = contents
        self._lock = threading.Lock()

    def with_io_timeout(self, work: Callable[[], T], raise_if_cancelled: Callable[[], None]) -> T:
        return work()

    # --- commit

    @contextmanager
    def transaction(
        self, changes: Sequence[FileChange], times: Sequence[FolderMtime] = ()
    ) -> Generator["MemoryTransaction | MemorySlotTransaction"]:
        kind = (
            MemorySlotTransaction
            if any(isinstance(each.before or each.after, StagedContent) for each in changes)
            else None
        )
        with self.exclusive():
            yield (kind or MemoryTransaction)(self, changes, f"m{next(self.ticks)}")

    @contextmanager
    def exclusive(self) -> Generator[None]:
        if not self._lock.acquire(timeout=LOCK_TIMEOUT_SECONDS):
            raise Busy(self.roots[0], LOCK_TIMEOUT_SECONDS)
        try:
            yield
        finally:
            self._lock.release()

    def recover(self, incomplete: IncompleteTransaction) -> tuple[str, ...]:
        """Nothing to recover: what was in this process died with it."""
        return ()

    def is_current(self, path: str, content: Content) -> bool:
        status = self.stat(path)
        if status is None or status.kind == "directory":
            return status is not None and isinstance(content, Directory | DirectoryMetadata)
        return self.fingerprint(path)[1] == content.hash

    def describe(self, path: str) -> StagedContent | None:
        status = self.stat(path)
        if status is None:
            return None
        if status.kind != "file":
            return StagedContent("", "tree", status.kind, 0, status.mode, (0, 0), 0)
        data = self.read(path).data
        return StagedContent("", "file", digest(data), len(data), status.mode, (0, 0), 0)

    def stage(self, changes: Sequence[FileChange]) -> AbstractContextManager[Sequence[FileChange]]:
        return nullcontext(changes)  # here, contents need no slots

    def read_staged(self, content: StagedContent, path: str) -> bytes | None:
        datas = (self.slots.get(content.slot), self.get_content(path))
        return next((data for data in datas if data is not None and digest(data) == content.hash), None)

    def list_staged_tree(self, content: StagedContent, path: str, limit: int) -> Sequence[tuple[str, StagedContent]]:
        return ()  # no command runs here, so no tree is staged

    def exact_hash(self, content: StagedContent, path: str) -> str | None:
        return content.hash if self.read_staged(content, path) is not None else None

    def is_staged(self, content: StagedContent) -> bool:
        data = self.slots.get(content.slot)
        return data is not None and digest(data) == content.hash

    def close(self) -> None:
        pass

    def load_content(self, content: InlineContent | ContentRef, path: str) -> bytes:
        if isinstance(content, InlineContent):
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
        self._made_directories: list[str] = []
        made: dict[str, FileChange] = {}
        for change in changes:
            if change.before is None and isinstance(change.after, Directory):
                made[change.path] = change
        effective = [change for change in changes if self._verify(change)]
        for change in effective:
            if change.before is None:
                made |= {
                    path: FileChange(path, None, Directory())
                    for path in self._missing_parents(change)
                    if path not in made
                }
        removed = [change for change in effective if isinstance(change.before, Directory) and change.after is None]
        self.files = (
            *(made[path] for path in sorted(made) if workspace.stat(path) is None),
            *(_with_mode(change) for change in effective if not change.is_directory),
            *(_with_mode(change) for change in sorted(removed, key=lambda each: each.path, reverse=True)),
        )

    def apply(self) -> Mapping[str, FileIdentity]:
        workspace = self._workspace
        ready = {change.path: _load_data(change.after, workspace, change.path) for change in self._content_changes()}
        for change in self._content_changes():
            self._verify(change)
        for change in self.files:
            if isinstance(change.after, Directory):
                self._made_directories.append(change.path)
                workspace.directories.add(self._workspace.name_of_place(change.path))
        for path, data in ready.items():
            name = self._workspace.name_of_place(path)
            self._before[path] = workspace.files.pop(name, None)
            if data is None:
                workspace.directories.add(dirname(name))  # on disk, a directory stays when its last file is removed
            else:
                workspace.write(name, data)
        statuses = {path: workspace.stat(path) for path, data in ready.items() if data is not None}
        return {path: status.identity for path, status in statuses.items() if status}

    def roll_back(self) -> None:
        for path, data in self._before.items():
            name = self._workspace.name_of_place(path)
            self._workspace.files.pop(name, None)
            if data is not None:
                self._workspace.write(name, data)
        for path in reversed(self._made_directories):
            self._workspace.directories.discard(self._workspace.name_of_place(path))

    def clean_up(self, *, renew: Collection[str] = ()) -> None:
        for change in self.files:
            if isinstance(change.before, Directory):
                self._workspace.remove_directory(change.path)

    def _content_changes(self) -> list[FileChange]:
        return [change for change in self.files if not change.is_directory]

    def _verify(self, change: FileChange) -> bool:
        """Raise Stale unless the path is its `before`; False if there is nothing to do."""
        status = self._workspace.stat(change.path)
        match change.before, change.after:
            case None, None:
                return False
            case None, Directory():
                if status and status.kind != "directory":
                    raise Stale(change.path)
                return status is None
            case None, _:
                if status:
                    raise Stale(change.path)
                return True
            case Directory(), Directory():
                return False
            case Directory(), None:
                if status and status.kind != "directory":
                    raise Stale(change.path)
                return status is not None
            case Directory(), _:
                raise IsDirectory(change.path)
            case _, Directory():
                raise NotDirectory(change.path)
            case before, after:
                hash = self._workspace.fingerprint(change.path)[1] if status and status.kind == "file" else ""
                if hash != before.hash:
                    raise Stale(change.path, now=hash)
                return after is None or after.hash != before.hash

    def _missing_parents(self, change: FileChange) -> Iterator[str]:
        """The parent directories that do not exist."""
        parent = dirname(self._workspace.to_place(change.path))
        while self._workspace.stat(parent) is None:
            yield parent
            parent = dirname(parent)


class MemorySlotTransaction:
    """Exchanges files with their slots."""

    def __init__(self, workspace: MemoryFiles, changes: Sequence[FileChange], name: str) -> None:
        self.id = name
        self.files = tuple(changes)
        self._workspace = workspace
        self._swapped: list[tuple[str, str]] = []
        for change in changes:
            self._verify(change)

    def apply(self) -> Mapping[str, FileIdentity]:
        for change in self.files:
            self._verify(change)
        for change in self.files:
            content = change.after or change.before
            assert isinstance(content, StagedContent)
            self._swap(self._workspace.resolve_name(change.path), content.slot)
        statuses = {change.path: self._workspace.stat(change.path) for change in self.files}
        return {path: status.identity for path, status in statuses.items() if status}

    def roll_back(self) -> None:
        for name, slot in self._swapped[:]:
            self._swap(name, slot)
        self._swapped.clear()

    def clean_up(self, *, renew: Collection[str] = ()) -> None:
        pass

    def _verify(self, change: FileChange) -> None:
        if change.before is None:
            if self._workspace.stat(change.path) is not None:
                raise Stale(change.path)
        elif not self._workspace.is_current(change.path, change.before):
            raise Stale(change.path)
        if isinstance(change.after, StagedContent) and not self._workspace.is_staged(change.after):
            raise ContentDropped((change.path,))

    def _swap(self, name: str, slot: str) -> None:
        workspace = self._workspace
        here, there = workspace.files.pop(name, None), workspace.slots.pop(slot, None)
        if here is not None:
            workspace.slots[slot] = here
        if there is None:
            workspace.directories.add(dirname(name))
        else:
            workspace.write(name, there)
        self._swapped.append((name, slot))


def _with_mode(change: FileChange) -> FileChange:
    """Add the mode of what is removed."""
    if change.after is not None:
        return change
    return replace(change, mode=DIRECTORY_MODE if isinstance(change.before, Directory) else FILE_MODE)


def _load_data(content: Content | None, workspace: MemoryFiles, path: str) -> bytes | None:
    return workspace.load_content(content, path) if isinstance(content, InlineContent | ContentRef) else None
