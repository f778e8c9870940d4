"""Whether a hub's stores answer. Everybody may ask, so the stores are asked at most once a second."""

import time
from threading import Lock

from psycopg import OperationalError

from handhold.core.errors import ToolError
from handhold.hub.access import TokenStore
from handhold.hub.object_contents import ObjectContents
from handhold.logs import log_swallowed

CACHE_SECONDS = 1.0
HANGING_SECONDS = 3.0  # of waiting for an answer, after which there is none


class Readiness:
    """Thread-safe."""

    def __init__(self, tokens: TokenStore, contents: ObjectContents) -> None:
        self._tokens, self._contents = tokens, contents
        self._lock = Lock()
        self._asked_at = float("-inf")
        self._missing = "a store"

    def find_missing(self) -> str:
        """The store that does not answer; empty if both do."""
        if not self._lock.acquire(blocking=False):  # somebody is asking: do not wait for a store that hangs
            is_late = time.monotonic() > self._asked_at + HANGING_SECONDS
            return "a store" if is_late else self._missing
        try:
            if time.monotonic() >= self._asked_at + CACHE_SECONDS:
                self._asked_at = time.monotonic()
                self._missing = self._ask()
            return self._missing
        finally:
            self._lock.release()

    def _ask(self) -> str:
        try:
            self._tokens.authenticate("")
        except (OperationalError, ToolError):
            log_swallowed()
            return "the database"
        return "" if self._contents.is_available() else "the object store"
