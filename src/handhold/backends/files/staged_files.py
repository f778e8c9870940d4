"""Staged contents: what commands replaced, found in the slots of the roots' staging areas."""

import os
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import TypeVar

from handhold.backends.files.commit.entry_checks import is_current, is_intact, is_same_entry, list_tree_entries
from handhold.backends.files.commit.file_metadata import lstat_at, read_file_at
from handhold.backends.files.commit.recovery import try_recover_command
from handhold.backends.files.content_hash import is_placeholder
from handhold.backends.files.manifest import exact_hash, read_entry_state
from handhold.backends.files.os_errors import translate_os_errors
from handhold.backends.files.roots import Root, Roots, split_names
from handhold.backends.files.staging_area import StagingArea
from handhold.backends.state.stamps import is_due
from handhold.core.errors import BadPath, NotDirectory, NotFound, PermissionDenied
from handhold.core.plans import Content, StagedContent, digest
from handhold.core.ports.contents import ContentStore
from handhold.core.ports.files import MAX_EDITABLE_BYTES
from handhold.logs import log_swallowed

UNREACHABLE_ERRORS = (BadPath, NotFound, NotDirectory, PermissionDenied)  # why an entry at a path cannot be shown
SWEEP_INTERVAL_SECONDS = 7 * 24 * 3600.0
FOLDER_FLAGS = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
SWEPT_PREFIX = "swept-"  # of a file in the state folder, for each staging area: when it was last swept

T = TypeVar("T")


class StagedFiles:
    """The staging areas of a workspace's roots, opened on first use, and their contents."""

    def __init__(
        self,
        roots: Roots,
        contents: ContentStore,
        state: Path | None,
        open_parent: Callable[[str], AbstractContextManager[tuple[int, str]]],
    ) -> None:
        """Without a state folder there are no staging areas."""
        self._roots = roots
        self._contents = contents
        self._state = state
        self._open_parent = open_parent
        self._staging_areas: dict[str, StagingArea | None] = {}
        self._lock = Lock()
        for root in roots.all if state is not None else ():
            if root.writable and state is not None:
                StagingArea.recover_all(root, state, try_recover_command)

    def close(self) -> None:
        for area in self._staging_areas.values():
            if area is not None:
                area.close()

    def get_staging_area(self, root: Root) -> StagingArea | None:
        """The staging area for entries of this root; None if there is none."""
        if self._state is None or not root.writable:
            return None
        with self._lock:  # one for all threads: it knows which commands are in progress
            if root.real not in self._staging_areas:
                others = [other for other in self._roots.all if other is not root]
                area = StagingArea.for_root(root, self._state, others)
                if area is not None:
                    self._sweep(area, self._state)
                self._staging_areas[root.real] = area
            return self._staging_areas[root.real]

    def _sweep(self, area: StagingArea, state: Path) -> None:
        """All of it once a week, and if the state is new: then nothing there is ours any more."""
        stamp = f"{SWEPT_PREFIX}{sha256(os.fsencode(area.folder)).hexdigest()[:16]}"
        with translate_os_errors(str(state)):
            is_sweep_due = is_due(str(state / stamp), SWEEP_INTERVAL_SECONDS)
        area.recover_interrupted(try_recover_command)
        if is_sweep_due:
            area.sweep(self._contents.needed_slots)
        else:
            area.sweep_abandoned(self._contents.needed_slots)

    @property
    def staging_areas(self) -> Collection[StagingArea]:
        """The staging areas of all roots, without duplicates."""
        areas = (self.get_staging_area(root) for root in self._roots.all)
        return {area.folder: area for area in areas if area}.values()

    def is_current(self, path: str, content: Content) -> bool:
        try:
            with self._open_parent(path) as (fd, name), translate_os_errors(path):
                return is_current(fd, name, content)
        except BadPath:  # a root is in no directory of the workspace
            root, rel_path = self._roots.locate(path)
            with root.folder as folder:
                return not split_names(rel_path) and is_current(folder, ".", content)
        except (NotFound, NotDirectory):
            return False

    def describe(self, path: str) -> StagedContent | None:
        try:
            with self._open_parent(path) as (fd, name), translate_os_errors(path):
                found = read_entry_state(name, dir_fd=fd, whole=True)
        except (NotFound, NotDirectory):
            return None
        return found and found.to_staged("")

    def read(self, content: StagedContent, path: str) -> bytes | None:
        for place in self._open_slots(content):
            with place as (fd, name):
                if (data := self._read_if_intact(fd, name, content)) is not None:
                    return data
        try:
            with self._open_parent(path) as (fd, name):
                data = self._read_if_intact(fd, name, content)
                is_other = data is not None and not is_placeholder(content.hash) and digest(data) != content.hash
                return None if is_other else data  # somebody may have set the time of another content
        except UNREACHABLE_ERRORS:
            return None

    def list_tree(self, content: StagedContent, path: str, limit: int) -> Sequence[tuple[str, StagedContent]]:
        return self._inspect(content, path, lambda fd, name: list_tree_entries(fd, name, content.slot, limit)) or ()

    def exact_hash(self, content: StagedContent, path: str) -> str | None:
        return self._inspect(content, path, lambda fd, name: exact_hash(name, dir_fd=fd))

    def _inspect(self, content: StagedContent, path: str, inspect: Callable[[int, str], T]) -> T | None:
        """Call `inspect` where the entry is, in its slot or at its path; None if it is in neither."""
        for place in self._open_slots(content):
            with place as (fd, name):
                if is_same_entry(lstat_at(fd, name), content):
                    return inspect(fd, name)
        try:
            with self._open_parent(path) as (fd, name):
                return inspect(fd, name) if is_same_entry(lstat_at(fd, name), content) else None
        except (*UNREACHABLE_ERRORS, PermissionError):  # the last: the folder itself is not accessible
            return None

    def is_staged(self, content: StagedContent) -> bool:
        for place in self._open_slots(content):
            with place as (fd, name):
                if is_intact(fd, name, content):
                    return True
        return False

    def _open_slots(self, content: StagedContent) -> Generator[AbstractContextManager[tuple[int, str]]]:
        """The folders in which its slot may be: a slot does not name its root."""
        if not content.slot:
            return
        command, *folders, slot = content.slot.split("/")
        for area in self.staging_areas:
            try:
                fd = _open_below(area.open_folder(command), folders)
            except OSError:
                log_swallowed()
                continue
            yield _close_after(fd, slot)

    def _read_if_intact(self, fd: int, name: str, content: StagedContent) -> bytes | None:
        """The content of a file or link, if it is the expected one."""
        if content.kind not in ("file", "link") or content.size > MAX_EDITABLE_BYTES:
            return None
        try:
            if not is_intact(fd, name, content):
                return None
            return os.fsencode(os.readlink(name, dir_fd=fd)) if content.kind == "link" else read_file_at(fd, name)
        except OSError:  # inside a tree, a parent folder may be inaccessible or replaced
            return None


def _open_below(fd: int, folders: Sequence[str]) -> int:
    """The innermost of these folders, opened one by one: their path may be too long. Closes `fd` if there are any."""
    for folder in folders:
        try:
            inner = os.open(folder, FOLDER_FLAGS, dir_fd=fd)
        finally:
            os.close(fd)
        fd = inner
    return fd


@contextmanager
def _close_after(fd: int, name: str) -> Generator[tuple[int, str]]:
    try:
        yield fd, name
    finally:
        os.close(fd)
