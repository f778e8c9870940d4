"""The session of the client that started this server, so that its calls of our tools and those of its own tools, which
its hooks record, are one line in the journal.

Codex says with each call to which session and turn it belongs. Other clients do not: their hooks tell which session
their process has, and the server is a child of the same process.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from handhold.core.errors import ToolError
from handhold.hooks.client_process import find_client_process
from handhold.logs import log_swallowed

if TYPE_CHECKING:  # loaded with the first call
    from handhold.backends.state.sqlite import SqliteStore

CODEX_META_KEY = "x-codex-turn-metadata"
MAX_NAME_CHARS = 200  # of a session or a turn


class SessionTurn(NamedTuple):
    session: str
    turn: str = ""


class ClientSession:
    def __init__(self, roots: Sequence[str], state: str | None) -> None:
        self._roots = roots
        self._state = Path(state) if state else None
        self._process = find_client_process()
        self._store: SqliteStore | None = None

    def find(self, meta: Mapping[str, Any]) -> SessionTurn | None:
        """The session and turn of a call; None if the client has told nothing."""
        if isinstance(given := meta.get(CODEX_META_KEY), dict):
            codex = cast(dict[str, Any], given)
            if isinstance(session := codex.get("session_id"), str) and session:
                return SessionTurn(
                    f"codex:{session}"[:MAX_NAME_CHARS], str(codex.get("turn_id") or "")[:MAX_NAME_CHARS]
                )
        try:
            store = self._open_store()
            session = store.client_sessions.find(self._process) if self._process else ""
            return SessionTurn(session, store.windows(self._roots[0]).read_turn(session)) if session else None
        except ToolError:
            log_swallowed()
            return None

    def _open_store(self) -> "SqliteStore":
        if self._store is None:
            from handhold.backends.state.sqlite import SqliteStore
            from handhold.backends.state.state_folder import ensure_state_folder

            self._store = SqliteStore(ensure_state_folder(self._state, self._roots))
        return self._store
