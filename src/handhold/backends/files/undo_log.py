"""Read the undo log of a brokered command.

The broker (`backends/shell/broker/`) writes a record before each change of the workspace. A record counts once its size
is there; a record that a later one cancels describes a call that failed.
"""

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

SAVED_FOLDER = "saved"  # next to the log: what the command displaced, and copies of what it overwrote
REMOVED_FOLDER = "removed"  # there too: what it had created and the rollback took away
OTHER_ROOT_PREFIX = "root-"  # next to the log too: links to the command's folders for its other roots
HEADER = struct.Struct("=IIQQIIIIqqQ")
XATTR_SIZE = struct.Struct("=I")

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
    inode: tuple[int, int]  # device and number
    mode: int
    owner: int
    group: int
    accessed_ns: int
    modified_ns: int
    size: int
    first: str
    second: str
    xattrs: bytes

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
    while offset + HEADER.size <= len(data):
        size, kind, device, inode, mode, owner, group, xattr_size, accessed, modified, length = HEADER.unpack_from(
            data, offset
        )
        if not size:
            return
        at = offset + HEADER.size
        end = data.index(b"\0", at)
        end_second = data.index(b"\0", end + 1)
        yield (
            offset,
            UndoRecord(
                KINDS[chr(kind)],
                (device, inode),
                mode,
                owner,
                group,
                accessed,
                modified,
                length,
                os.fsdecode(data[at:end]),
                os.fsdecode(data[end + 1 : end_second]),
                data[end_second + 1 : end_second + 1 + xattr_size],
            ),
        )
        offset += size
