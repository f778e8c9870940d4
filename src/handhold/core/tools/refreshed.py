"""What git writes although nothing is new: `git diff` renews the times in its index, and `git branch -d` writes a
configuration that says the same as before.

Such a change is dropped, so that looking changes nothing, asks nobody, and is not what the next undo takes back. The
index stays if the command changed anything else: its times belong to the files that git wrote. An index that cannot be
read here counts as changed.
"""

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from itertools import zip_longest
from typing import NamedTuple

from handhold.core.plans import Content, Effects, FileChange, Shelved

INDEX = re.compile(r".*/\.git/(?:(?:modules|worktrees)/.+/)?index", re.DOTALL)
LOCK = re.compile(r".*/\.git/(?:.+/)?[^/]+\.lock", re.DOTALL)
CONFIG = re.compile(r".*/\.git/(?:modules/.+/)?config", re.DOTALL)
MOST = 16 * 1024 * 1024  # bytes of a file that is looked into
HEADER, FIXED, CHECKSUM = 12, 62, 20  # bytes; object names of 20
EXTENDED = 0x4000


class Staged(NamedTuple):
    """A file as the index knows it, without the times and numbers by which it is told unchanged."""

    mode: bytes
    object: bytes
    flags: bytes
    path: bytes


def without_refreshed(effects: Effects, read: Callable[[Content, str], bytes | None]) -> Effects:
    """The effects, except on a configuration that says the same as before, and on an index if that was all."""
    refreshed = {change.path for change in effects.files if _is_refreshed(change, read)}
    if any(change.path not in refreshed for change in effects.files):
        refreshed = {path for path in refreshed if not INDEX.fullmatch(path)}
    return _without(effects, refreshed)


def without_locks(effects: Effects, spelled: Callable[[str], str]) -> Effects:
    """The effects of a command that was killed, except for locks that it held: they would keep git from working."""
    held = {change.path for change in effects.files if change.before is None and LOCK.fullmatch(change.path)}
    told = (f"Left out: {spelled(path)}, which the command held when it was ended" for path in sorted(held))
    return replace(_without(effects, held), notes=(*effects.notes, *told))


def _without(effects: Effects, paths: Collection[str]) -> Effects:
    return replace(
        effects,
        files=tuple(change for change in effects.files if change.path not in paths),
        protected=tuple(path for path in effects.protected if path not in paths),
    )


def _is_refreshed(change: FileChange, read: Callable[[Content, str], bytes | None]) -> bool:
    before, after = change.before, change.after
    index = INDEX.fullmatch(change.path)
    if not (index or CONFIG.fullmatch(change.path)):
        return False
    if not (isinstance(before, Shelved) and isinstance(after, Shelved)):
        return False
    if (
        before.kind != "file"
        or after.kind != "file"
        or before.mode != after.mode
        or max(before.size, after.size) > MOST
    ):
        return False
    old, new = read(before, change.path), read(after, change.path)
    return old is not None and new is not None and (old == new or (index is not None and same_files(old, new)))


def same_files(old: bytes, new: bytes) -> bool:
    """Whether two indexes list the same files in the same state; False if one of them cannot be read."""
    try:
        return all(mine == yours for mine, yours in zip_longest(staged(old), staged(new)))
    except (ValueError, IndexError):
        return False


def staged(index: bytes) -> Iterator[Staged]:
    """The entries of an index of version 2 or 3; ValueError for what is none."""
    version, count = (int.from_bytes(index[at : at + 4], "big") for at in (4, 8))
    if index[:4] != b"DIRC" or version not in (2, 3):
        raise ValueError("not an index that can be read here")
    at = HEADER
    for _ in range(count):
        long = FIXED + 2 * bool(int.from_bytes(index[at + 60 : at + 62], "big") & EXTENDED)
        end = index.index(b"\0", at + long)
        yield Staged(
            index[at + 24 : at + 28], index[at + 40 : at + 60], index[at + 60 : at + long], index[at + long : end]
        )
        at = end + 8 - (end - at) % 8
    if at > len(index) - CHECKSUM:
        raise ValueError("it ends too early")
