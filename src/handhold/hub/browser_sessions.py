"""Browsers that look at the review page of a hub: a token is exchanged for a cookie once.

The cookie is a secret of its own, and of no use as a token. Any hub process knows it, since it is in the database.
"""

from dataclasses import dataclass, field
from hashlib import sha256
from secrets import token_urlsafe

from psycopg import Connection
from psycopg.rows import TupleRow
from psycopg_pool import ConnectionPool

from handhold.hub.access import Access, hash_token

SESSION_HOURS = 4


@dataclass(frozen=True)
class HubSession:
    """Implements the protocol FormSession."""

    access: Access
    csrf: str = field(repr=False)

    @property
    def client(self) -> str:
        return self.access.client


class BrowserSessions:
    """Thread-safe."""

    def __init__(self, pool: ConnectionPool[Connection[TupleRow]]) -> None:
        self._pool = pool

    def start(self, token: str) -> str | None:
        """A cookie for the token of a reader or an admin; None for anything else."""
        cookie = token_urlsafe(32)
        with self._pool.connection() as connection:
            connection.execute("DELETE FROM browser_sessions WHERE expires < now()")
            made = connection.execute(
                "INSERT INTO browser_sessions (hash, token, expires)"
                " SELECT %s, id, now() + %s * interval '1 hour' FROM tokens"
                " WHERE hash = %s AND role IN ('reader', 'admin') AND (expires IS NULL OR expires > now())",
                (hash_token(cookie), SESSION_HOURS, hash_token(token)),
            )
            return cookie if made.rowcount else None

    def find(self, cookie: str) -> HubSession | None:
        if not cookie:
            return None
        with self._pool.connection() as connection:
            row = connection.execute(
                "SELECT tokens.tenant, role, workspace, name FROM browser_sessions"
                " JOIN tokens ON tokens.id = browser_sessions.token LEFT JOIN workspaces ON workspaces.id = workspace"
                " WHERE browser_sessions.hash = %s AND browser_sessions.expires > now()"
                " AND (tokens.expires IS NULL OR tokens.expires > now())",
                (hash_token(cookie),),
            ).fetchone()
        csrf = sha256(b"form " + cookie.encode("utf-8", "surrogateescape")).hexdigest()
        return HubSession(Access(*row), csrf) if row else None

    def end(self, cookie: str) -> None:
        with self._pool.connection() as connection:
            connection.execute("DELETE FROM browser_sessions WHERE hash = %s", (hash_token(cookie),))
