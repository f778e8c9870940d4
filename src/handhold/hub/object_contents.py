"""Contents by hash in an object store: S3, GCS, Azure or a folder, by one interface.

Every workspace has its own objects, so naming a hash gives nothing to anybody who did not upload it. An upload goes to
a staging key, is read back and verified, and only then moved to where readers look: to a key of its own, so that nobody
who removes an earlier upload of the same content removes this one.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import IO, TYPE_CHECKING, Any, cast
from uuid import uuid4

from obstore.exceptions import BaseError
from obstore.store import ObjectStore, from_url

from handhold.core.ports.record_store import ChainId, StoredContent

if TYPE_CHECKING:
    from obstore import ObjectMeta

STAGING_PREFIX, CONTENTS_PREFIX = "staging", "contents"
STAGING_DAYS = 1  # before what an interrupted upload left is removed
CHUNK_BYTES = 1024 * 1024
DELETE_PORTION = 500


class HashMismatch(ValueError):
    """The bytes do not have the hash that they were announced or stored with."""


ObjectStoreError = BaseError


class ObjectContents:
    """Thread-safe."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    @classmethod
    def open(cls, url: str) -> "ObjectContents":
        """By the URL of a bucket, such as s3://contents, or of a folder; credentials come from the environment."""
        options = {"mkdir": True} if url.startswith("file:") else {"retry_config": {"max_retries": 3}}
        return cls(cast(Any, from_url)(url, **options))

    def upload(self, chain: ChainId, hash: str, data: IO[bytes]) -> StoredContent:
        """Store a content. HashMismatch if it is another one."""
        upload = uuid4().hex
        staged = f"{STAGING_PREFIX}/{chain.tenant}/{upload}"
        try:
            self._store.put(staged, data)
            found, size = sha256(), 0
            for chunk in self._store.get(staged).stream(CHUNK_BYTES):
                found.update(chunk)
                size += len(chunk)
            if found.hexdigest() != hash:
                raise HashMismatch(hash)
            self._store.rename(staged, _key(chain, hash, upload))
        except HashMismatch:
            self._store.delete(staged)
            raise
        except FileNotFoundError as error:  # the bucket, or in it what was just written
            raise ObjectStoreError(str(error)) from error
        return StoredContent(upload, size)

    def read(self, chain: ChainId, hash: str, upload: str) -> Iterator[bytes] | None:
        """The bytes in portions; None if there is no such content."""
        try:
            found = self._store.get(_key(chain, hash, upload))
        except FileNotFoundError:  # not obstore's NotFoundError
            return None
        return map(bytes, found.stream(CHUNK_BYTES))

    def delete(self, contents: Sequence[tuple[ChainId, str, str]]) -> None:
        """By chain, hash and upload."""
        self._delete_keys([_key(*each) for each in contents])

    def delete_tenant(self, tenant: int) -> None:
        """Remove all objects of a tenant."""
        for prefix in (CONTENTS_PREFIX, STAGING_PREFIX):
            for page in self._list(f"{prefix}/{tenant}/"):
                self._delete_keys([each["path"] for each in page])

    def sweep_staging(self) -> int:
        """Remove what interrupted uploads left, and return how many."""
        before = datetime.now(UTC) - timedelta(days=STAGING_DAYS)
        count = 0
        for page in self._list(f"{STAGING_PREFIX}/"):
            left = [each["path"] for each in page if each["last_modified"] < before]
            self._delete_keys(left)
            count += len(left)
        return count

    def _list(self, prefix: str) -> "Iterator[Sequence[ObjectMeta]]":
        return iter(cast(Any, self._store).list(prefix))

    def _delete_keys(self, keys: Sequence[str]) -> None:
        for start in range(0, len(keys), DELETE_PORTION):
            portion = keys[start : start + DELETE_PORTION]
            try:
                self._store.delete(portion)
            except FileNotFoundError:  # somebody else removed one; which of the others are left, nobody says
                for key in portion:
                    with suppress(FileNotFoundError):
                        self._store.delete(key)


def verify_chunks(chunks: Iterable[bytes], hash: str, size: int) -> Iterator[bytes]:
    """The same, then HashMismatch if they are not what has this hash. No more than `size` bytes are given on."""
    found = sha256()
    for chunk in chunks:
        size -= len(chunk)
        if size < 0:
            raise HashMismatch(hash)
        found.update(chunk)
        yield chunk
    if found.hexdigest() != hash:
        raise HashMismatch(hash)


def _key(chain: ChainId, hash: str, upload: str) -> str:
    name = f"{hash}-{upload}" if upload else hash  # as earlier versions stored it
    return f"{CONTENTS_PREFIX}/{chain.tenant}/{chain.workspace}/{hash[:2]}/{name}"
