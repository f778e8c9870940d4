"""Whether a hub's database answers. Everybody may ask, so it is asked at most once a second.

The object store does not count: all hubs share it, and without it records are kept and read all the same.
"""

import time
from threading import Lock

from psycopg import OperationalError

from handhold.core.errors import ToolError
from handhold.hub.access import TokenStore
from handhold.logs import log_swallowed

CACHE_SECONDS = 1.0
HANGING_SECONDS = 3.0  # of waiting for an answer, after which there is none


class Readiness:
    """Thread-safe."""

    def __init__(self, tokens: TokenStore) -> None:
        self._tokens = tokens
        self._lock = Lock()
        self._asked_at = float("-inf")
        self._is_ready = False

    def is_ready(self) -> bool:
        if not self._lock.acquire(blocking=False):  # somebody is asking: do not wait for a database that hangs
            return self._is_ready and time.monotonic() <= self._asked_at + HANGING_SECONDS
        try:
            if time.monotonic() >= self._asked_at + CACHE_SECONDS:
                self._asked_at = time.monotonic()
                self._is_ready = self._ask()
            return self._is_ready
        finally:
            self._lock.release()

    def _ask(self) -> bool:
        try:
            self._tokens.authenticate("")
        except (OperationalError, ToolError):
            log_swallowed()
            return False
        return True
