"""Search cursors: where a page ended, as a short text that a model copies back.

A cursor stores how many items were shown, the last name of a listing, and a checksum of the results it depends on. It
is valid only for its own search, and a damaged copy is rejected.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from zlib import crc32

from handhold.core.errors import BadCursor
from handhold.core.facts import SearchHit

CHECKSUM_BYTES = 4


def checksum(state: int, *parts: str) -> int:
    """Extend the checksum `state` by these parts. Names may contain bytes that are not UTF-8."""
    for part in parts:
        state = crc32(part.encode("utf-8", "surrogateescape") + b"\0", state)
    return state


def checksum_hit(state: int, hit: SearchHit) -> int:
    """Extend the checksum by one hit: its matching lines if it has any, otherwise the file with its count."""
    lines = [str(row.number) for row in hit.rows if row.is_match]
    if not lines:
        return checksum(state, hit.place, *([str(hit.count)] if hit.count else []))
    for line in lines:
        state = checksum(state, hit.place, line)
    return state


@dataclass(frozen=True)
class Cursor:
    """`start` items were shown, the last of them `last`; `state` is the checksum of the results."""

    start: int
    state: int
    last: str = ""

    def encode(self, *query: str) -> str:
        """The cursor as text, bound to the search that `query` identifies."""
        size = (self.start.bit_length() + 7) // 8 or 1
        body = bytes([size]) + self.start.to_bytes(size, "big") + self.state.to_bytes(CHECKSUM_BYTES, "big")
        body += self.last.encode("utf-8", "surrogateescape")
        return urlsafe_b64encode(checksum_body(body, query) + body).rstrip(b"=").decode()

    @classmethod
    def decode(cls, text: str, *query: str) -> "Cursor":
        """Raise BadCursor if it was damaged or belongs to another search."""
        text = text.strip()
        try:
            data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        except ValueError:
            raise BadCursor(text) from None
        body = data[CHECKSUM_BYTES:]
        end = 1 + body[0] if body else 0
        if len(body) < end + CHECKSUM_BYTES or data[:CHECKSUM_BYTES] != checksum_body(body, query):
            raise BadCursor(text)
        start, state = (int.from_bytes(piece, "big") for piece in (body[1:end], body[end : end + CHECKSUM_BYTES]))
        return cls(start, state, body[end + CHECKSUM_BYTES :].decode("utf-8", "surrogateescape"))


def checksum_body(body: bytes, query: tuple[str, ...]) -> bytes:
    of_query = crc32(b"".join(part.encode("utf-8", "surrogatepass") + b"\0" for part in query))
    return crc32(body, of_query).to_bytes(CHECKSUM_BYTES, "big")
