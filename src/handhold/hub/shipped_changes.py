"""The changes of calls on a hub: from their records, with the contents that were shipped."""

import json
from typing import Any, cast

from handhold.backends.state.records import parse_changes
from handhold.core.plans import Content, ContentRef, Directory, DirectoryMetadata, FileChange, StagedContent
from handhold.core.ports.journal import JournalEntry
from handhold.core.ports.record_store import ChainId
from handhold.core.text.encoding import Text
from handhold.hub.postgres import PostgresRecordStore
from handhold.hub.shipped_contents import ShippedContents
from handhold.logs import log_swallowed
from handhold.pipeline.change_history import MAX_CONTENT_BYTES, RecordedChange, Side
from handhold.pipeline.effects import STAGED_KINDS, describe_effect

BAD_RECORD_ERRORS = (ValueError, TypeError, KeyError, AttributeError)  # whoever has an agent's token can write anything


class ShippedChanges:
    """Implements the protocol ChangeReader for one generation of a chain. Thread-safe."""

    def __init__(self, store: PostgresRecordStore, contents: ShippedContents, chain: ChainId, generation: int) -> None:
        self._store, self._contents, self._chain, self._generation = store, contents, chain, generation

    def list_changes(self, entry: JournalEntry, *, limit: int | None = None) -> list[RecordedChange]:
        """The changes of a call; folders that only had to exist are left out."""
        found = [each for each in enumerate(self._read(entry.seq)) if not each[1].is_directory]
        return [self._describe(number, change) for number, change in found[:limit]]

    def count_changes(self, entry: JournalEntry) -> int:
        return sum(not change.is_directory for change in self._read(entry.seq))

    def find_change(self, entry: JournalEntry, number: int) -> RecordedChange | None:
        changes = self._read(entry.seq)
        return self._describe(number, changes[number]) if 0 <= number < len(changes) else None

    def _describe(self, number: int, change: FileChange) -> RecordedChange:
        return RecordedChange(number, describe_effect(change, self, ()), change, is_current=False, can_restore=False)

    def _read(self, seq: int) -> tuple[FileChange, ...]:
        with self._store.for_tenant(self._chain.tenant) as connection:
            row = connection.execute(
                "SELECT line FROM records WHERE workspace = %s AND generation = %s AND seq = %s AND kind = 'intent'"
                " ORDER BY record DESC LIMIT 1",
                (self._chain.workspace, self._generation, seq),
            ).fetchone()
        if row is None:
            return ()
        try:
            changes = parse_changes(cast(dict[str, Any], json.loads(row[0]))["body"]["files"])
            for change in changes:
                _check_change(change)
            return changes
        except BAD_RECORD_ERRORS:
            log_swallowed()
            return ()

    def read_side(self, change: FileChange, side: Side) -> bytes | None:
        content = change.before if side == "before" else change.after
        return None if content is None or content.size > MAX_CONTENT_BYTES else self.read_content(content, change.path)

    def read_content(self, content: Content, path: str) -> bytes | None:
        """None if it was not shipped: because it is secret, too large, or no file."""
        match content:
            case ContentRef(hash=hash) | StagedContent(kind="file", hash=hash):
                return self._contents.read(hash)
            case _:
                return None

    def read_now(self, path: str) -> bytes | None:
        """Nobody knows that here."""
        return None

    def decode(self, data: bytes, path: str) -> str:
        return Text.decode(data, path).body


def _check_change(change: FileChange) -> None:
    """ValueError if it is none that a sandbox would record: the hub verified its hash, not every field."""
    for content in (change.before, change.after):
        match content:
            case StagedContent(kind=kind, hash=str(), size=int(), mode=int(), entry_count=int()) if (
                kind in STAGED_KINDS
            ):
                pass
            case ContentRef(hash=str(), size=int()) | Directory() | DirectoryMetadata(mode=int()) | None:
                pass
            case _:
                raise ValueError("not a content")
    match change.mode:
        case int() | None:
            pass
        case _:
            raise ValueError("not a mode")
