"""Compare entries with what an undo log has of them, and with each other."""

import os
from collections.abc import Sequence

from handhold.backends.files.commit.file_metadata import has_same_bytes, read_own_xattrs
from handhold.backends.files.undo_log import UndoRecord


def join_saves(records: Sequence[UndoRecord]) -> dict[tuple[int, int], UndoRecord]:
    """What is known about each inode: its metadata from the first record, its content from whichever has it."""
    saved: dict[tuple[int, int], UndoRecord] = {}
    for record in records:
        if record.kind == "save":
            first = saved.setdefault(record.inode, record)
            saved[record.inode] = first._replace(second=first.second or record.second)
    return saved


def read_owner_and_xattrs(path: str) -> tuple[int, int, dict[str, bytes]]:
    found = os.lstat(path)
    try:
        return found.st_uid, found.st_gid, read_own_xattrs(path)
    except PermissionError:
        return found.st_uid, found.st_gid, {}


def read_xattrs(path: str) -> dict[str, bytes]:
    try:
        return {name: os.getxattr(path, name) for name in os.listxattr(path)}
    except OSError:
        return {}  # the file system has none


def has_same_content(path: str, saved: str) -> bool:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        one = os.open(path, flags)
    except PermissionError:
        return False
    other = os.open(saved, flags)
    try:
        return has_same_bytes(one, other)
    finally:
        os.close(one)
        os.close(other)
