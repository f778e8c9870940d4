"""Names as keys of an index, which has no room for a long one."""

from hashlib import sha256

MAX_KEY_BYTES = 1000


def make_key(name: bytes) -> bytes:
    """The name itself, if it is not too long; otherwise its beginning and its hash."""
    return name if len(name) <= MAX_KEY_BYTES else name[: MAX_KEY_BYTES - 32] + sha256(name).digest()


def make_text_key(name: str) -> bytes:
    return make_key(name.encode("utf-8", "surrogatepass"))
