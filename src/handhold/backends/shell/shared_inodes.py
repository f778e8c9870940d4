"""Which files a brokered command shares with background commands that run beside it."""

import os
from collections import defaultdict
from collections.abc import Sequence

from handhold.backends.files.commit.file_metadata import file_id
from handhold.backends.files.commit.inode_restoration import has_writer
from handhold.backends.files.commit.syscalls import read_birth
from handhold.backends.files.undo_log import NUMBER_BITS, Inode, InodeKeys, UndoRecord
from handhold.backends.shell.path_history import PathHistory
from handhold.logs import suppress_and_log


def find_shared_inodes(records: Sequence[UndoRecord], of_jobs: Sequence[UndoRecord]) -> set[Inode]:
    """Inodes that the command wrote and that a background command, which opened them itself, has open for writing.

    They stay in the entry of whoever opened them, until the last close. A descriptor that a background command got from
    somebody else does not make a file its own: nobody asked whether it may write there.
    """
    births: dict[Inode, set[int]] = defaultdict(set)
    for record in of_jobs:
        if record.kind in ("save", "created"):
            births[_strip_birth(record.inode)].add(record.birth_ns)
    if not births:
        return set()
    history, keys = PathHistory(records), InodeKeys(records)
    return {
        record.inode
        for index, record in enumerate(records)
        if record.kind == "save"
        and record.second
        and {0, record.birth_ns} & births[_strip_birth(record.inode)]
        and _is_open_elsewhere(history.after(index)[0], record.inode, keys)
    }


def _strip_birth(inode: Inode) -> Inode:
    device, number = inode
    return device, number % (1 << NUMBER_BITS)


def _is_open_elsewhere(path: str, inode: Inode, keys: InodeKeys) -> bool:
    with suppress_and_log(OSError):  # it is gone, or closed to its owner
        fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            return keys.find(file_id(os.fstat(fd)), lambda: read_birth(fd)) == inode and has_writer(fd)
        finally:
            os.close(fd)
    return False
