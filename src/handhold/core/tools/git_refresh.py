"""Drop git's writes that change nothing: `git diff` refreshes time stamps in the index, and `git branch -d` rewrites an
identical configuration.

Without this, a read-only command would need approval and would be what the next undo reverts. The index is kept if the
command changed anything else, because its time stamps belong to the files that git wrote. An index that cannot be
parsed here counts as changed.
"""

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from itertools import zip_longest
from typing import NamedTuple

from handhold.core.plans import Content, Effects, FileChange, StagedContent

INDEX_PATH = re.compile(r".*/\.git/(?:(?:modules|worktrees)/.+/)?index", re.DOTALL)
LOCK_PATH = re.compile(r".*/\.git/(?:.+/)?[^/]+\.lock", re.DOTALL)
GIT_FOLDER_PATH = re.compile(r"(.*/\.git)/.*", re.DOTALL)
CONFIG_PATH = re.compile(r".*/\.git/(?:modules/.+/)?config", re.DOTALL)
MAX_READ_BYTES = 16 * 1024 * 1024  # a larger file is not parsed
HEADER_BYTES, FIXED_BYTES, CHECKSUM_BYTES = 12, 62, 20  # for object names of 20 bytes
EXTENDED_FLAG = 0x4000


class GitIndexEntry(NamedTuple):
    """A file in the index."""

    mode: bytes
    object: bytes
    flags: bytes
    path: bytes
    size: int  # this and the time, in seconds, tell git whether it may have changed
    mtime: int

    @property
    def without_status(self) -> tuple[bytes, ...]:
        return self[:4]


def drop_refreshed(effects: Effects, read: Callable[[Content, str], bytes | None]) -> Effects:
    """Drop configurations that did not really change, and the index if nothing else changed."""
    refreshed = {change.path for change in effects.files if _is_refreshed(change, read)}
    if any(change.path not in refreshed for change in effects.files):
        refreshed = {path for path in refreshed if not INDEX_PATH.fullmatch(path)}
    return _drop_paths(effects, refreshed)


def drop_locks(effects: Effects, format_path: Callable[[str], str]) -> Effects:
    """Drop the lock files of a command that was killed: they would block git."""
    locks = {change.path for change in effects.files if change.before is None and LOCK_PATH.fullmatch(change.path)}
    notes = (
        f"Left out: {format_path(path)}, a lock that the command held when it was killed" for path in sorted(locks)
    )
    return replace(_drop_paths(effects, locks), notes=(*effects.notes, *notes))


def _drop_paths(effects: Effects, paths: Collection[str]) -> Effects:
    return replace(
        effects,
        files=tuple(change for change in effects.files if change.path not in paths),
        protected=tuple(path for path in effects.protected if path not in paths),
    )


def _is_refreshed(change: FileChange, read: Callable[[Content, str], bytes | None]) -> bool:
    before, after = change.before, change.after
    index = INDEX_PATH.fullmatch(change.path)
    if not (index or CONFIG_PATH.fullmatch(change.path)):
        return False
    if not (isinstance(before, StagedContent) and isinstance(after, StagedContent)):
        return False
    if (
        before.kind != "file"
        or after.kind != "file"
        or before.mode != after.mode
        or max(before.size, after.size) > MAX_READ_BYTES
    ):
        return False
    old, new = read(before, change.path), read(after, change.path)
    return old is not None and new is not None and (old == new or (index is not None and has_same_files(old, new)))


def has_same_files(old: bytes, new: bytes) -> bool:
    """Whether two indexes list the same files in the same state; False if one of them cannot be read."""
    try:
        sides = ((entry.without_status for entry in parse_index(index)) for index in (old, new))
        return all(before == after for before, after in zip_longest(*sides))
    except (ValueError, IndexError):
        return False


def parse_index(index: bytes) -> Iterator[GitIndexEntry]:
    """The entries of a version 2 or 3 index; ValueError for anything else."""
    version, count = (int.from_bytes(index[at : at + 4], "big") for at in (4, 8))
    if index[:4] != b"DIRC" or version not in (2, 3):
        raise ValueError("not an index that can be read here")
    at = HEADER_BYTES
    for _ in range(count):
        header_end = FIXED_BYTES + 2 * bool(int.from_bytes(index[at + 60 : at + 62], "big") & EXTENDED_FLAG)
        end = index.index(b"\0", at + header_end)
        yield GitIndexEntry(
            index[at + 24 : at + 28],
            index[at + 40 : at + 60],
            index[at + 60 : at + header_end],
            index[at + header_end : end],
            int.from_bytes(index[at + 36 : at + 40], "big"),
            int.from_bytes(index[at + 8 : at + 12], "big"),
        )
        at = end + 8 - (end - at) % 8
    if at > len(index) - CHECKSUM_BYTES:
        raise ValueError("it ends too early")
