"""Texts as they are in records: strings, and what is not valid Unicode as an object with its bytes."""

from collections.abc import Mapping
from typing import Any


def read_texts(members: Mapping[str, Any]) -> dict[str, str]:
    return {name: decode_text(read_text(value)) for name, value in members.items()}


def read_text(value: object) -> bytes:
    """A string as its bytes. What is not valid Unicode comes as an object with them in hex."""
    match value:
        case str():
            return value.encode()
        case {"bytes": str(digits)}:
            return bytes.fromhex(digits)
        case _:
            raise TypeError("not a text")


def decode_text(data: bytes) -> str:
    """Any bytes as text; those that are no encoding of anything become escapes."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "surrogateescape")
