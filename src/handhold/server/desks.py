"""Which toolbox serves a call.

A session is a name in the journal; what it knows is in the store, so an open toolbox is only where it sits just now:
a desk. Desks are opened at the first call and cleared when others need the room. A client without a session of its
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

from handhold.server.serving import Serving

if TYPE_CHECKING:
    from asyncio import Future

    from handhold.toolbox import Toolbox

GRACE = 5.0  # seconds for calls to end when their desk is closed
STEP = 0.05
MOST_OPEN = 64  # desks; those with a call or a job on them stay, however many
CLOSED_AT_ONCE = 16
PROOF = 20  # hexadecimal digits: 80 bits


class Desk:
    """One session, and its toolbox once a call needed it."""

    def __init__(self, serving: Serving, session: str) -> None:
        self.serving = serving
        self.session = session
        self.in_use = 0
        self.handle = ""  # once it was told
        self.change: Future[None] | None = None  # that was asked for last, for those that come after it
        self._box: Toolbox | None = None
        self._closed = False
        self._at_work = 0
        self._lock = Condition()

    @contextmanager
    def box(self) -> "Generator[Toolbox]":
        """The toolbox, in the thread of a call. ToolError if the folder or the state cannot be used, or no more."""
        from handhold.core.errors import Cancelled

        with self._lock:
            if self._closed:
                raise Cancelled()
            if self._box is None:
                self._box = self._opened()
            self._at_work += 1
        try:
            yield self._box
        finally:
            with self._lock:
                self._at_work -= 1
                self._lock.notify_all()

    def _opened(self) -> "Toolbox":
        from handhold.server.approvals import Person

        return self.serving.opened(self.session, Person())

    def interrupt(self, thread: int) -> None:
        if self._box:
            self._box.interrupt(thread)

    @property
    def idle(self) -> bool:
        return not self.in_use and not (self._box and self._box.is_busy)

    def close(self) -> None:
        """End what runs, wait until it has ended, and close the toolbox."""
        until = monotonic() + GRACE
        with self._lock:
            self._closed = True
            box, self._box = self._box, None
            while box and self._at_work and monotonic() < until:
                box.interrupt()
                self._lock.wait(STEP)
        if box:
            box.close(timeout=0)  # it has been waited for


class Desks:
    """All desks of a server, for all its clients. `most` are open at once where nothing runs on them."""

    def __init__(self, *, most: int = MOST_OPEN) -> None:
        self._most = most
        self._desks: OrderedDict[tuple[Serving, str], Desk] = OrderedDict()
        self._keys: dict[tuple[str | None, str], bytes] = {}
        self._lock = Lock()

    def take(self, serving: Serving, session: str) -> Desk:
        """The desk of a session, in use until it is left. Nothing is opened yet."""
        with self._lock:
            key = (serving, session)
            desk = self._desks.get(key)
            if desk is None:
                desk = self._desks[key] = Desk(serving, session)
            self._desks.move_to_end(key)
            desk.in_use += 1
            return desk

    def leave(self, desk: Desk) -> list[Desk]:
        """Those to close now, since there are too many: the longest unused first."""
        with self._lock:
            desk.in_use -= 1
            over = len(self._desks) - self._most
            if over <= 0:
                return []
            idle = [key for key, each in self._desks.items() if each.idle][:over]
            return [self._desks.pop(key) for key in idle]

    def end(self, serving: Serving, session: str) -> None:
        """Its client wants no more of a session: what still runs there ends too. Not while a call is on its desk."""
        with self._lock:
            desk = self._desks.get((serving, session))
            if desk is None or desk.in_use:
                return
            del self._desks[serving, session]
        desk.close()

    def close(self) -> None:
        """End all that runs, and close everything."""
        from concurrent.futures import ThreadPoolExecutor

        with self._lock:
            desks = list(self._desks.values())
            self._desks.clear()
        with ThreadPoolExecutor(CLOSED_AT_ONCE) as threads:
            list(threads.map(Desk.close, desks))

    def __len__(self) -> int:
        return len(self._desks)

    # --- handles

    def mint(self) -> str:
        """A name for a new session."""
        return f"mcp-{token_hex(8)}"

    def handle(self, serving: Serving, session: str) -> str:
        return f"{session}.{self._proof(serving, 'session', session)}"

    def named_by(self, serving: Serving, handle: str) -> str:
        """The session that a handle names. NoSuchSession if this server did not hand it out to this client."""
        session, _, proof = handle.rpartition(".")
        if not session or not hmac.compare_digest(proof.encode(), self._proof(serving, "session", session).encode()):
            raise NoSuchSession
        return session

    def sealed(self, serving: Serving, purpose: str, text: str) -> str:
        """Text that a client is to hand back as it is."""
        return f"{self._proof(serving, purpose, text)}.{text}"

    def unsealed(self, serving: Serving, purpose: str, sealed: str) -> str | None:
        """None for what was not sealed here, for this client and this purpose."""
        proof, _, text = sealed.partition(".")
        return text if hmac.compare_digest(proof.encode(), self._proof(serving, purpose, text).encode()) else None

    def _proof(self, serving: Serving, purpose: str, text: str) -> str:
        said = "\0".join((serving.name, purpose, text)).encode("utf-8", "surrogatepass")
        return hmac.digest(self._key(serving), said, "sha256").hex()[:PROOF]

    def _key(self, serving: Serving) -> bytes:
        """Kept with the state, so that a handle outlives the process."""
        from handhold.world.state.key import kept_key

        whose = (serving.state, serving.roots[0])
        if whose not in self._keys:
            self._keys[whose] = kept_key(serving.folder)
        return self._keys[whose]


class NoSuchSession(Exception):
    """A handle that this server did not hand out to this client."""
