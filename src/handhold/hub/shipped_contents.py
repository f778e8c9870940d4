"""The contents of one workspace on a hub, for people: file contents before and after calls, and replies."""

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor

from handhold.core.ports.record_store import ChainId, StoredContent
from handhold.core.shipped_records import is_hash
from handhold.hub.object_contents import HashMismatch, ObjectContents, verify_chunks
from handhold.hub.postgres import PostgresRecordStore
from handhold.logs import log_swallowed
from handhold.pipeline.change_history import MAX_CONTENT_BYTES

MAX_AT_ONCE = 8  # requests to the object store for one page
MAX_PAGE_BYTES = 64 * 1024 * 1024  # together; larger contents are left out first


class ShippedContents:
    """Thread-safe. Looking at a content does not pin it."""

    def __init__(self, store: PostgresRecordStore, objects: ObjectContents, chain: ChainId) -> None:
        self._store, self._objects, self._chain = store, objects, chain

    def read(self, hash: str) -> bytes | None:
        """None if the workspace has not shipped it, it is no longer kept, or it is too large for a page."""
        return self.read_many((hash,)).get(hash)

    def read_many(self, hashes: Collection[str]) -> Mapping[str, bytes]:
        # An object alone is not enough: after a restore of the database, a number may mean another workspace.
        found = self._store.find_contents(self._chain, [each for each in hashes if is_hash(each)])
        known: list[tuple[str, StoredContent]] = []
        total = 0
        # By the sizes that the hub measured: a record may say anything.
        for hash, content in sorted(found.items(), key=lambda each: each[1].size):
            total += content.size
            if content.size > MAX_CONTENT_BYTES or total > MAX_PAGE_BYTES:
                break
            known.append((hash, content))
        if len(known) > 1:
            with ThreadPoolExecutor(min(MAX_AT_ONCE, len(known))) as pool:
                fetched = list(pool.map(self._fetch, known))
        else:
            fetched = [self._fetch(each) for each in known]
        return {hash: data for (hash, _), data in zip(known, fetched, strict=True) if data is not None}

    def _fetch(self, key: tuple[str, StoredContent]) -> bytes | None:
        """None also if the object is not what was stored: it is never shown as if it were."""
        hash, content = key
        found = self._objects.read(self._chain, hash, content.upload)
        try:
            return None if found is None else b"".join(verify_chunks(found, hash, content.size))
        except HashMismatch:
            log_swallowed()
            return None
