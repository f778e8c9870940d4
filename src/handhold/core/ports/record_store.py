"""The chains that a hub keeps, one for each workspace.

A chain grows by compare-and-swap on its last hash: a batch that does not start there is not appended. So a record that
is sent twice lands once, and two senders never interleave.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from handhold.core.ports.journal import JournalEntry
from handhold.core.shipped_records import START_DIGEST, RecordBatch, ShippedRecord

MAX_DIVERGED_RECORDS = 1_000  # kept of a diverged chain
MAX_DIVERGED_BYTES = 16 * 1024 * 1024
MAX_READ_BYTES = 8 * 1024 * 1024  # of lines in one answer; the last one may go beyond
MAX_PAGE_BYTES = 4 * 1024 * 1024  # of the records of listed calls, long ones in their short form


@dataclass(frozen=True)
class ChainId:
    """The chain of one workspace of one tenant."""

    tenant: int
    workspace: int


@dataclass(frozen=True)
class ChainHead:
    """The last record of a chain."""

    record: int = 0
    digest: bytes = START_DIGEST
    diverged_at: int = 0  # the first record that is no continuation; 0 if there was none


class ChainGap(Exception):
    """Records before this batch are missing; the head says from where."""

    def __init__(self, head: ChainHead) -> None:
        super().__init__(f"records after {head.record} are missing")
        self.head = head


class ChainDiverged(Exception):
    """The batch is no continuation of the chain. It is kept apart."""

    def __init__(self, head: ChainHead) -> None:
        super().__init__(f"record {head.diverged_at} is no continuation of the chain")
        self.head = head


class QuotaExceeded(Exception):
    """The tenant has no room for more. `what` is "records" or "bytes"."""

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(f"the tenant's quota of {limit} {what} is used up")
        self.what, self.limit = what, limit


@dataclass(frozen=True)
class WorkspaceSummary:
    """A workspace as the hub knows it. Times are in seconds since 1970."""

    name: str
    head: ChainHead
    claimed: int  # the last record that the sandbox has, as far as it told
    seen_at: float  # the last contact
    stored_bytes: int  # of records and contents

    @property
    def lag(self) -> int:
        return max(0, self.claimed - self.head.record)


@dataclass(frozen=True)
class StoredContent:
    """A content that a workspace uploaded. `upload` tells its object from those of other uploads of the same hash."""

    upload: str
    size: int


@dataclass(frozen=True)
class HubEntry:
    """A call of one of a tenant's workspaces."""

    workspace: str
    entry: JournalEntry


@dataclass(frozen=True)
class CallPage:
    """Calls, oldest first. `older` is the cursor of the page before; empty if there is none."""

    entries: Sequence[HubEntry]
    older: str = ""


class BadCallCursor(ValueError):
    """Not the cursor of such a list."""


class RecordStore(Protocol):
    """Thread-safe. Everything of another tenant does not exist."""

    def open_chain(self, tenant: int, name: str) -> ChainId:
        """The chain of the workspace with this name, made if it is new."""
        ...

    def find_chain(self, tenant: int, name: str) -> ChainId | None: ...

    def head(self, chain: ChainId) -> ChainHead: ...

    def append(self, chain: ChainId, batch: RecordBatch, *, claimed: int) -> ChainHead:
        """Append what is new of a batch, durably, and return the new head. `claimed` is the sandbox's last record.

        Raises ChainGap, ChainDiverged or QuotaExceeded; then nothing was appended.
        """
        ...

    def restart(self, chain: ChainId) -> bool:
        """Accept another chain from the beginning. The old one stays as an earlier generation.

        False if it did not diverge: it stays as it is.
        """
        ...

    def read_lines(self, chain: ChainId, *, after: int = 0, limit: int = 1000) -> Sequence[bytes]:
        """The records after one, in order. Fewer than `limit` if they are large, but never none if there is one."""
        ...

    def read_call(self, chain: ChainId, seq: int, *, after: int = 0) -> Sequence[bytes]:
        """The records of one call after a record, in order, as above."""
        ...

    def read_diverged(self, chain: ChainId) -> Sequence[bytes]:
        """The records that were kept apart, as they came."""
        ...

    def list_workspaces(self, tenant: int) -> Sequence[WorkspaceSummary]: ...

    def list_calls(
        self,
        tenant: int,
        *,
        workspace: str | None = None,
        session: str | None = None,
        last: int = 20,
        cursor: str = "",
    ) -> CallPage:
        """The newest calls before the cursor. Without a workspace, by the time the hub got them.

        Fewer than `last` if they are large, but never none if there is one. BadCallCursor if it is of another list.
        """
        ...

    def find_path(
        self, tenant: int, path: str, *, workspace: str | None = None, last: int = 20, cursor: str = ""
    ) -> CallPage:
        """The newest calls before the cursor that changed a path, or something below it.

        A page may have none although there is an older one, which has them or leads on.
        """
        ...

    def select_present(self, chain: ChainId, hashes: Collection[str]) -> set[str]:
        """Which of these contents this workspace has uploaded. They are pinned for a day."""
        ...

    def find_content(self, chain: ChainId, hash: str) -> StoredContent | None:
        """None if this workspace has not uploaded it, or it is no longer kept."""
        ...

    def check_room(self, chain: ChainId, size: int) -> None:
        """QuotaExceeded if the tenant has no room for a content of this size."""
        ...

    def add_content(self, chain: ChainId, hash: str, content: StoredContent) -> bool:
        """Record an uploaded content, or pin the one that is there; return whether it is a new one.

        QuotaExceeded if the tenant has no room for it.
        """
        ...


def select_new(head: ChainHead, batch: RecordBatch, stored: Mapping[int, bytes]) -> RecordBatch:
    """The part of a batch to append after the head. `stored` are the chain's hashes by number, unless forgotten.

    Raises ChainGap or ChainDiverged; the head of the latter has the number of the first record that differs.
    """
    if batch.first.number > head.record + 1:
        raise ChainGap(head)
    for record in batch.records:
        if record.digest != stored.get(record.number, record.digest):
            raise diverged(head, record)
    new = batch.after(head.record)
    if new.records and new.first.previous != head.digest:
        raise diverged(head, new.first)
    return new


def select_kept(batch: RecordBatch, count: int, size: int) -> list[ShippedRecord]:
    """The first records of a diverged batch, as many as are kept in addition to `count` of `size` bytes."""
    kept: list[ShippedRecord] = []
    for record in batch.records[: max(0, MAX_DIVERGED_RECORDS - count)]:
        size += len(record.line)
        if size > MAX_DIVERGED_BYTES:
            break
        kept.append(record)
    return kept


def diverged(head: ChainHead, record: ShippedRecord) -> ChainDiverged:
    return ChainDiverged(ChainHead(head.record, head.digest, head.diverged_at or record.number))
