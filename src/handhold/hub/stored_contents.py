"""Contents of workspaces: objects, and the rows that tell which of them count.

An object without a row costs space and nothing else, a row without an object would be a lie. So an upload stores the
object first, and whoever removes one removes the row first.
"""

from typing import IO

from handhold.core.ports.record_store import ChainId, QuotaExceeded, RecordStore, StoredContent
from handhold.hub.object_contents import ObjectContents, verify_chunks


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

    def fetch(self, chain: ChainId, hash: str, content: StoredContent, file: IO[bytes]) -> bool:
        """Write a known content into a file. HashMismatch if the object is another one; False if there is none."""
        chunks = self._objects.read(chain, hash, content.upload)
        if chunks is None:
            return False
        for chunk in verify_chunks(chunks, hash, content.size):
            file.write(chunk)
        return True
