"""What a session has seen of a file."""

from collections.abc import Collection, Iterable
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

    `lines` are ranges of lines that were shown uncut, by their current numbers. A file that the session wrote is
    `is_complete` without any.
    """

    path: str
    identity: FileIdentity
    hash: str | None
    lines: tuple[tuple[int, int], ...]
    is_complete: bool
    pages: tuple[SeenPage, ...] = ()


class ReadRecords(Protocol):
    """The read records of one session."""

    def get(self, path: str, identity: FileIdentity | None) -> ReadRecord | None:
        """The record of this path, else of another name of the same file."""
        ...

    def put(self, record: ReadRecord) -> None: ...

    def drop(self, path: str) -> None: ...

    def paths_within(self, changed: Iterable[str]) -> Collection[str]:
        """The paths that have a record and are one of these or below it."""
        ...
