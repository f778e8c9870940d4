"""Messages between our own processes: JSON of a limited size, each with its length before it."""

import json
from collections.abc import Iterator
from struct import Struct
from typing import Any

MAX_MESSAGE_BYTES = 64 << 20
LENGTH_PREFIX = Struct("!I")


class BadMessage(ValueError):
    """What another process sent is no message of ours."""


def encode_message(message: Any) -> bytes:
    """TypeError if it is not JSON; BadMessage if it is too large to be sent."""
    try:
        data = json.dumps(message, allow_nan=True, separators=(",", ":")).encode("ascii")
    except RecursionError as error:
        raise TypeError(str(error)) from None
    if len(data) > MAX_MESSAGE_BYTES:
        raise BadMessage(f"a message of {len(data):,} bytes is too large")
    return LENGTH_PREFIX.pack(len(data)) + data


class MessageBuffer:
    """What arrived from another process, and the messages in it."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[Any]:
        """The messages that are complete now. Raises BadMessage."""
        self._data += data
        while len(self._data) >= LENGTH_PREFIX.size:
            size = LENGTH_PREFIX.unpack_from(self._data)[0]
            if size > MAX_MESSAGE_BYTES:
                raise BadMessage(f"a message of {size:,} bytes is too large")
            end = LENGTH_PREFIX.size + size
            if len(self._data) < end:
                return
            try:
                message = json.loads(self._data[LENGTH_PREFIX.size : end])
            except (ValueError, RecursionError):
                raise BadMessage("it is not JSON") from None
            del self._data[:end]
            yield message
