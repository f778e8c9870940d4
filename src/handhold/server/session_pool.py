"""Which toolbox serves a call.

A session is a name in the journal, and what it knows is in the store, so its toolbox can be closed and opened again
at any time: it is opened at the first call, and closed when others need the room. A client without a session of its
own names one by its handle: the name, and a proof that this server gave it to this client. Nothing is kept of a
handle that was handed out.
"""

import hmac
from collections import OrderedDict
from collections.abc import Generator
from contextlib import contextmanager
from secrets import token_hex
from threading import Condition, Lock
from time import monotonic
from typing import TYPE_CHECKING

from handhold.server.server_config import ServerConfig

if TYPE_CHECKING:
    from asyncio import Future

    from handhold.toolbox import Toolbox

CLOSE_TIMEOUT_SECONDS = 5.0  # seconds for calls to end when their session is closed
CLOSE_POLL_SECONDS = 0.05
MAX_OPEN_SESSIONS = 64  # those with a call or a job stay, however many
CLOSE_THREADS = 16
SIGNATURE_HEX_DIGITS = 20  # hexadecimal digits: 80 bits


class PooledSession:
    """One session, and its toolbox once a call needed it."""

    def __init__(self, config: ServerConfig, name: str) -> None:
        self.config = config
        self.name = name
        self.pending_calls = 0
        self.handle = ""  # once it was told
        self.last_change: Future[None] | None = None  # that was asked for last, for those that come after it
        self._toolbox: Toolbox | None = None
        self._is_closed = False
        self._running_calls = 0
        self._lock = Condition()

    @contextmanager
    def use_toolbox(self) -> "Generator[Toolbox]":
        """The toolbox, in the thread of a call. ToolError if the folder or the state cannot be used, or no more."""
        from handhold.core.errors import Cancelled

        with self._lock:
            if self._is_closed:
                raise Cancelled()
            if self._toolbox is None:
                self._toolbox = self._open_toolbox()
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
    def is_idle(self) -> bool:
        return not self.pending_calls and not (self._toolbox and self._toolbox.is_busy)

    def close(self) -> None:
        """End what runs, wait until it has ended, and close the toolbox."""
        deadline = monotonic() + CLOSE_TIMEOUT_SECONDS
        with self._lock:
            self._is_closed = True
            box, self._toolbox = self._toolbox, None
            while box and self._running_calls and monotonic() < deadline:
                box.interrupt()
                self._lock.wait(CLOSE_POLL_SECONDS)
        if box:
            box.close(timeout=0)  # it has been waited for


class SessionPool:
    """All sessions of a server, for all its clients. `max_open` are open at once where nothing runs in them."""

    def __init__(self, *, max_open: int = MAX_OPEN_SESSIONS) -> None:
        self._max_open = max_open
        self._sessions: OrderedDict[tuple[ServerConfig, str], PooledSession] = OrderedDict()
        self._keys: dict[tuple[str | None, str], bytes] = {}
        self._lock = Lock()

    def acquire(self, config: ServerConfig, name: str) -> PooledSession:
        """A session, in use until it is released. Nothing is opened yet."""
        with self._lock:
            key = (config, name)
            session = self._sessions.get(key)
            if session is None:
                session = self._sessions[key] = PooledSession(config, name)
            self._sessions.move_to_end(key)
            session.pending_calls += 1
            return session

    def release(self, session: PooledSession) -> list[PooledSession]:
        """Those to close now, since there are too many: the longest unused first."""
        with self._lock:
            session.pending_calls -= 1
            excess = len(self._sessions) - self._max_open
            if excess <= 0:
                return []
            idle = [key for key, each in self._sessions.items() if each.is_idle][:excess]
            return [self._sessions.pop(key) for key in idle]

    def end_session(self, config: ServerConfig, name: str) -> None:
        """Its client wants no more of a session: what still runs there ends too. Not while it has a call."""
        with self._lock:
            session = self._sessions.get((config, name))
            if session is None or session.pending_calls:
                return
            del self._sessions[config, name]
        session.close()

    def close(self) -> None:
        """End all that runs, and close everything."""
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
        """The session that a handle names. NoSuchSession if this server did not hand it out to this client."""
        session, _, signature = handle.rpartition(".")
        if not session or not hmac.compare_digest(signature.encode(), self._sign(config, "session", session).encode()):
            raise NoSuchSession
        return session

    def seal(self, config: ServerConfig, purpose: str, text: str) -> str:
        """Text that a client is to hand back as it is."""
        return f"{self._sign(config, purpose, text)}.{text}"

    def unseal(self, config: ServerConfig, purpose: str, sealed: str) -> str | None:
        """None for what was not sealed here, for this client and this purpose."""
        signature, _, text = sealed.partition(".")
        return text if hmac.compare_digest(signature.encode(), self._sign(config, purpose, text).encode()) else None

    def _sign(self, config: ServerConfig, purpose: str, text: str) -> str:
        message = "\0".join((config.name, purpose, text)).encode("utf-8", "surrogatepass")
        return hmac.digest(self._get_key(config), message, "sha256").hex()[:SIGNATURE_HEX_DIGITS]

    def _get_key(self, config: ServerConfig) -> bytes:
        """Kept with the state, so that a handle outlives the process."""
        from handhold.backends.state.signing_key import load_or_create_key

        owner = (config.state, config.roots[0])
        if owner not in self._keys:
            self._keys[owner] = load_or_create_key(config.state_folder)
        return self._keys[owner]


class NoSuchSession(Exception):
    """A handle that this server did not hand out to this client."""
