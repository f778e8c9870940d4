"""The pool of sessions and their toolboxes.

A session's state is in the store, so its toolbox can be closed and reopened at any time: it is opened at the first call
and closed when the pool is full. Both are cheap, since toolboxes on the same workspace share what is large. A client
names a session by its handle, which is the session's name with a signature that proves that this server issued it to
this client. The server does not store handles.
"""

import hmac
from collections import OrderedDict
from collections.abc import Generator
from contextlib import contextmanager
from itertools import islice
from secrets import token_hex
from threading import Condition, Lock
from time import monotonic
from typing import TYPE_CHECKING

from handhold.server.server_config import ServerConfig

if TYPE_CHECKING:
    from asyncio import Future

    from handhold.toolbox import Toolbox

CLOSE_TIMEOUT_SECONDS = 5.0  # for calls to end when their session is closed
CLOSE_POLL_SECONDS = 0.05
MAX_OPEN_SESSIONS = 2048  # sessions with a running call or job are never closed for the limit
MAX_CHECKED_SESSIONS = 16  # when one is released, so that its cost does not depend on how many are busy
CLOSE_THREADS = 16
SIGNATURE_HEX_DIGITS = 20  # 80 bits


class PooledSession:
    """A session with its toolbox, which is opened at the first call."""

    def __init__(self, config: ServerConfig, name: str) -> None:
        self.config = config
        self.name = name
        self.pending_calls = 0
        self.handle = ""  # set when it was first sent to the client
        self.last_change: Future[None] | None = None  # the latest change, which later calls wait for
        self._toolbox: Toolbox | None = None
        self._is_closed = False
        self._running_calls = 0
        self._lock = Condition()

    @contextmanager
    def use_toolbox(self) -> "Generator[Toolbox]":
        """The toolbox, in the thread of a call. Raises ToolError if it cannot be opened or the session is closed."""
        from handhold.core.errors import Cancelled

        with self._lock:
            if self._is_closed:
                raise Cancelled()
            if self._toolbox is None:
                self._toolbox = self._open_toolbox()
            elif self.config.fork and self.config.fork not in self._toolbox.origin.forks:  # merged or dropped meanwhile
                self._toolbox = self._toolbox.origin.fork(self.config.fork)
            self._running_calls += 1
        try:
            yield self._toolbox
        finally:
            with self._lock:
                self._running_calls -= 1
                self._lock.notify_all()

    def _open_toolbox(self) -> "Toolbox":
        from handhold.server.approvals import ElicitationApprover

        return self.config.open_toolbox(self.name, ElicitationApprover())

    def interrupt(self, thread: int) -> None:
        if self._toolbox:
            self._toolbox.interrupt(thread)

    @property
    def has_toolbox(self) -> bool:
        return self._toolbox is not None

    @property
    def is_idle(self) -> bool:
        return not self.pending_calls and not (self._toolbox and self._toolbox.is_busy)

    def close(self) -> None:
        """Interrupt running calls, wait for them to end, and close the toolbox."""
        deadline = monotonic() + CLOSE_TIMEOUT_SECONDS
        with self._lock:
            self._is_closed = True
            box, self._toolbox = self._toolbox, None
            while box and self._running_calls and monotonic() < deadline:
                box.interrupt()
                self._lock.wait(CLOSE_POLL_SECONDS)
        if box:
            box.origin.close(timeout=0)  # the calls were already waited for


class SessionPool:
    """All sessions of a server. If more than `max_open` are open, idle ones are closed, the longest unused first."""

    def __init__(self, *, max_open: int = MAX_OPEN_SESSIONS) -> None:
        self._max_open = max_open
        self._sessions: OrderedDict[tuple[ServerConfig, str], PooledSession] = OrderedDict()
        self._keys: dict[tuple[str | None, str], bytes] = {}
        self._lock = Lock()

    def acquire(self, config: ServerConfig, name: str) -> PooledSession:
        """Get a session and keep it in use until it is released. Its toolbox is not opened yet."""
        with self._lock:
            key = (config, name)
            session = self._sessions.get(key)
            if session is None:
                session = self._sessions[key] = PooledSession(config, name)
            self._sessions.move_to_end(key)
            session.pending_calls += 1
            return session

    def release(self, session: PooledSession) -> list[PooledSession]:
        """Release a session. Returns the least recently used sessions that the caller must close."""
        with self._lock:
            session.pending_calls -= 1
            if not (session.pending_calls or session.has_toolbox):
                self._sessions.pop((session.config, session.name), None)  # there is nothing to keep
            excess = len(self._sessions) - self._max_open
            if excess <= 0:
                return []
            unused: list[PooledSession] = []
            for key in list(islice(self._sessions, MAX_CHECKED_SESSIONS)):
                if self._sessions[key].is_idle:
                    unused.append(self._sessions.pop(key))
                    if len(unused) == excess:
                        break
                else:
                    self._sessions.move_to_end(key)  # the next release checks others
            return unused

    def end_session(self, config: ServerConfig, name: str) -> None:
        """End a session and its background jobs. Does nothing while a call is running in it."""
        with self._lock:
            session = self._sessions.get((config, name))
            if session is None or session.pending_calls:
                return
            del self._sessions[config, name]
        session.close()

    def close(self) -> None:
        """Interrupt all calls and close all sessions."""
        from concurrent.futures import ThreadPoolExecutor

        with self._lock:
            sessions = list(self._sessions.values())
            self._sessions.clear()
        with ThreadPoolExecutor(CLOSE_THREADS) as threads:
            list(threads.map(PooledSession.close, sessions))

    def __len__(self) -> int:
        return len(self._sessions)

    # --- handles

    def generate_name(self) -> str:
        """A name for a new session."""
        return f"mcp-{token_hex(8)}"

    def create_handle(self, config: ServerConfig, session: str) -> str:
        return f"{session}.{self._sign(config, 'session', session)}"

    def resolve_handle(self, config: ServerConfig, handle: str) -> str:
        """The name of the session. Raises NoSuchSession if this server did not issue the handle to this client."""
        session, _, signature = handle.rpartition(".")
        if not session or not hmac.compare_digest(signature.encode(), self._sign(config, "session", session).encode()):
            raise NoSuchSession
        return session

    def seal(self, config: ServerConfig, purpose: str, text: str) -> str:
        """Sign text that a client must return unchanged."""
        return f"{self._sign(config, purpose, text)}.{text}"

    def unseal(self, config: ServerConfig, purpose: str, sealed: str) -> str | None:
        """The signed text, or None if it was not sealed here for this client and purpose."""
        signature, _, text = sealed.partition(".")
        return text if hmac.compare_digest(signature.encode(), self._sign(config, purpose, text).encode()) else None

    def _sign(self, config: ServerConfig, purpose: str, text: str) -> str:
        message = "\0".join((config.name, purpose, text)).encode("utf-8", "surrogatepass")
        return hmac.digest(self._get_key(config), message, "sha256").hex()[:SIGNATURE_HEX_DIGITS]

    def _get_key(self, config: ServerConfig) -> bytes:
        """The signing key. It is stored with the state, so that handles survive a restart."""
        from handhold.backends.state.signing_key import load_or_create_key

        owner = (config.state, config.roots[0])
        if owner not in self._keys:
            self._keys[owner] = load_or_create_key(config.state_folder)
        return self._keys[owner]


class NoSuchSession(Exception):
    """The handle was not issued by this server to this client."""
