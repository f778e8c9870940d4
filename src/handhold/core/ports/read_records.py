"""What a session has seen of a file."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from handhold.core.facts import (
    FileIdentity,
)


@dataclass(frozen=True)
class SeenPage:
    """A page of a large file that was shown: its bytes and their hash."""

    start: int
    end: int
    hash: str


@dataclass(frozen=True)
class ReadRecord:
    """What a session last saw of a file. `hash` is None above MAX_EDITABLE_BYTES: only the pages shown are known.

    `lines` are those that a read showed to their end, by the numbers that they still have; a file may be known as a
    `is_complete` without any, if the session wrote it.
    """

    path: str
    identity: FileIdentity
    hash: str | None
    lines: tuple[tuple[int, int], ...]
    is_complete: bool
    pages: tuple[SeenPage, ...] = ()


class ReadRecords(Protocol):
    """The tracker's memory of one session."""

    def get(self, path: str, identity: FileIdentity | None) -> ReadRecord | None:
        """The mark at this path, else at another name of the same file."""
        ...

    def put(self, record: ReadRecord) -> None: ...

    def drop(self, path: str) -> None: ...

    def paths(self) -> Collection[str]:
        """Every path that has one."""
        ...
