"""Read the undo log of a brokered command.

The broker (`backends/shell/broker/`) writes a record before each change of the workspace. A record counts once its size
is there; a record that a later one cancels describes a call that failed.
"""

import os
import struct
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

SAVED_FOLDER = "saved"  # next to the log: what the command displaced, and copies of what it overwrote
REMOVED_FOLDER = "removed"  # there too: what it had created and the rollback took away
OTHER_ROOT_PREFIX = "root-"  # next to the log too: links to the command's folders for its other roots
HEADER = struct.Struct("=IIQQIIIIqqQ")
HAS_BIRTH = 0x100  # with the kind: the record ends with the time of birth
BIRTH = struct.Struct("=Q")
XATTR_SIZE = struct.Struct("=I")
NUMBER_BITS = 64
Inode = tuple[int, int]

RecordKind = Literal[
    "move",
    "exchange",
    "exchanged",
    "keep",
    "remove",
    "create",
    "created",
    "link",
    "save",
    "touch",
    "cancel",
    "refused",
    "denied",
    "started",
    "ended",
]
KINDS: dict[str, RecordKind] = {
    "M": "move",
    "X": "exchange",
    "x": "exchanged",
    "L": "keep",
    "D": "remove",
    "C": "create",
    "c": "created",
    "K": "link",
    "S": "save",
    "T": "touch",
    "-": "cancel",
    "R": "refused",
    "N": "denied",
    "B": "started",
    "E": "ended",
}


class UndoRecord(NamedTuple):
    """One record. What `first` and `second` are depends on its kind: two paths, a path and its copy, or one path."""

    kind: RecordKind
    inode: Inode  # device and number; see `InodeKeys`
    mode: int
    owner: int
    group: int
    accessed_ns: int
    modified_ns: int
    size: int
    first: str
    second: str
    xattrs: bytes
    birth_ns: int = 0  # of the inode, if it is known

    def read_xattrs(self) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        at = 0
        while at < len(self.xattrs):
            end = self.xattrs.index(b"\0", at)
            (size,) = XATTR_SIZE.unpack_from(self.xattrs, end + 1)
            at_value = end + 1 + XATTR_SIZE.size
            found[os.fsdecode(self.xattrs[at:end])] = self.xattrs[at_value : at_value + size]
            at = at_value + size
        return found


def make_key(inode: Inode, birth_ns: int) -> Inode:
    """The key of an inode whose number another one had first."""
    return inode[0], inode[1] | birth_ns << NUMBER_BITS


class InodeKeys:
    """Tells inodes apart that have the same number one after the other, by the time of their birth.

    The first that a log names has its number as its key. So has any whose birth is not known.
    """

    def __init__(self, records: Iterable[UndoRecord] = ()) -> None:
        self._keys: dict[Inode, dict[int, Inode]] = {}
        for record in records:
            device, number = record.inode
            self._keys.setdefault((device, number % (1 << NUMBER_BITS)), {})[record.birth_ns] = record.inode

    def add(self, inode: Inode, birth_ns: int) -> Inode:
        keys = self._keys.setdefault(inode, {})
        if not birth_ns:
            return next(reversed(keys.values()), inode)
        return keys.setdefault(birth_ns, make_key(inode, birth_ns) if keys else inode)

    def find(self, inode: Inode, read_birth: Callable[[], int]) -> Inode:
        """The key of an inode that was found on the disk."""
        keys = self._keys.get(inode, {})
        if not any(keys) or not (birth_ns := read_birth()):
            return inode
        return keys.get(birth_ns) or keys.get(0) or make_key(inode, birth_ns)


def read_undo_log(path: Path) -> list[UndoRecord]:
    """The records that count, in order. Cancelled ones are left out, but not what was saved or created for them."""
    records: list[tuple[int, UndoRecord]] = []
    for offset, record in _parse(path.read_bytes()):
        if record.kind == "cancel":
            start = int(record.first)
            at = len(records)
            while at and records[at - 1][0] >= start:
                at -= 1
            records[at:] = [each for each in records[at:] if each[1].kind in ("save", "created", "refused", "denied")]
        else:
            if record.kind == "created" and not record.first and records and records[-1][1].kind == "create":
                records.pop()  # in a folder of the command: it only mattered until the inode was known
            records.append((offset, record))
    return [record for _, record in records]


def _parse(data: bytes) -> Iterator[tuple[int, UndoRecord]]:
    offset = 0
    keys = InodeKeys()
    while offset + HEADER.size <= len(data):
        size, kind, device, inode, mode, owner, group, xattr_size, accessed, modified, length = HEADER.unpack_from(
            data, offset
        )
        if not size:
            return
        at = offset + HEADER.size
        end = data.index(b"\0", at)
        end_second = data.index(b"\0", end + 1)
        birth_ns = BIRTH.unpack_from(data, offset + size - BIRTH.size)[0] if kind & HAS_BIRTH else 0
        yield (
            offset,
            UndoRecord(
                KINDS[chr(kind & ~HAS_BIRTH)],
                keys.add((device, inode), birth_ns),
                mode,
                owner,
                group,
                accessed,
                modified,
                length,
                os.fsdecode(data[at:end]),
                os.fsdecode(data[end + 1 : end_second]),
                data[end_second + 1 : end_second + 1 + xattr_size],
                birth_ns,
            ),
        )
        offset += size
