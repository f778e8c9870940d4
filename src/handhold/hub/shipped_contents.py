"""The contents of one workspace on a hub, for people: file contents before and after calls, and replies."""

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor

from handhold.core.ports.record_store import ChainId
from handhold.core.shipped_records import is_hash
from handhold.hub.object_contents import ObjectContents
from handhold.hub.postgres import PostgresRecordStore

MAX_AT_ONCE = 8  # requests to the object store for one page


class ShippedContents:
    """Thread-safe. Looking at a content does not pin it."""

    def __init__(self, store: PostgresRecordStore, objects: ObjectContents, chain: ChainId) -> None:
        self._store, self._objects, self._chain = store, objects, chain

    def read(self, hash: str) -> bytes | None:
        """None if the workspace has not shipped it, or it is no longer kept."""
        return self.read_many((hash,)).get(hash)

    def read_many(self, hashes: Collection[str]) -> Mapping[str, bytes]:
        # An object alone is not enough: after a restore of the database, a number may mean another workspace.
        with self._store.for_tenant(self._chain.tenant) as connection:
            rows = connection.execute(
                "SELECT hash FROM contents WHERE workspace = %s AND hash = ANY(%s)",
                (self._chain.workspace, [bytes.fromhex(each) for each in hashes if is_hash(each)]),
            ).fetchall()
        known = [hash.hex() for (hash,) in rows]
        if len(known) > 1:
            with ThreadPoolExecutor(min(MAX_AT_ONCE, len(known))) as pool:
                fetched = list(pool.map(self._fetch, known))
        else:
            fetched = [self._fetch(each) for each in known]
        return {hash: data for hash, data in zip(known, fetched, strict=True) if data is not None}

    def _fetch(self, hash: str) -> bytes | None:
        found = self._objects.read(self._chain, hash)
        return None if found is None else b"".join(found)
