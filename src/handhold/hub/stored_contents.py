"""Contents of workspaces: objects, and the rows that tell which of them count.

An object without a row costs space and nothing else, a row without an object would be a lie. So an upload stores the
object first, and whoever removes one removes the row first.
"""

from collections.abc import Iterator
from typing import IO

from handhold.core.ports.record_store import ChainId, QuotaExceeded, RecordStore
from handhold.hub.object_contents import ObjectContents


class StoredContents:
    """Thread-safe."""

    def __init__(self, records: RecordStore, objects: ObjectContents) -> None:
        self._records, self._objects = records, objects

    def add(self, chain: ChainId, hash: str, data: IO[bytes]) -> int:
        """Store a content and return its size. HashMismatch if it is another one, QuotaExceeded if there is no room."""
        content = self._objects.upload(chain, hash, data)
        try:
            is_new = self._records.add_content(chain, hash, content)
        except QuotaExceeded:  # after any other error, the row may be there
            self._objects.delete([(chain, hash, content.upload)])
            raise
        if not is_new:
            self._objects.delete([(chain, hash, content.upload)])
        return content.size

    def read(self, chain: ChainId, hash: str) -> Iterator[bytes] | None:
        """The bytes in portions; None if there is no such content."""
        # An object alone is not enough: after a restore of the database, a number may mean another workspace.
        content = self._records.find_content(chain, hash)
        return None if content is None else self._objects.read(chain, hash, content.upload)
