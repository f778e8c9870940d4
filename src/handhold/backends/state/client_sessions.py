"""The sessions of agent clients, as their hooks tell of them: so that the calls of our server, which the same client
makes, are booked in the client's session."""

from handhold.backends.state.database import Database
from handhold.backends.state.text_codec import to_bytes, to_text

SCHEMA = (
    # The newest has the highest id. A process is a client; a session is active while a turn of it is under way.
    """CREATE TABLE client_sessions (
        id INTEGER PRIMARY KEY, session BLOB NOT NULL UNIQUE, process BLOB NOT NULL, prompt BLOB NOT NULL,
        is_active INTEGER NOT NULL
    )""",
    "CREATE INDEX client_sessions_process ON client_sessions (process)",
)


class SqliteClientSessions:
    def __init__(self, database: Database) -> None:
        self._database = database

    def note(self, session: str, process: str, prompt: str, *, is_active: bool | None) -> bool:
        """Take note of a session; returns whether its prompt is another one. Without a prompt, only an activity that
        begins is one. None leaves the activity as it is: events may come out of order."""
        with self._database.write_transaction() as connection:
            key = to_bytes(session)
            row = connection.execute(
                "SELECT prompt, is_active FROM client_sessions WHERE session = ?", (key,)
            ).fetchone()
            before, was_active = (to_text(row[0]), bool(row[1])) if row else ("", False)
            if is_active is None:
                is_active = was_active
            is_new = prompt != before if prompt else is_active and not was_active
            connection.execute(
                "INSERT OR REPLACE INTO client_sessions (session, process, prompt, is_active) VALUES (?, ?, ?, ?)",
                (key, to_bytes(process), to_bytes(prompt or before), is_active),
            )
            return is_new

    def read_process(self, session: str) -> str:
        row = self._database.fetch_row("SELECT process FROM client_sessions WHERE session = ?", (to_bytes(session),))
        return to_text(row[0]) if row else ""

    def find(self, process: str) -> str:
        """The session of a client's process; empty if there is none, or if several have turns under way."""
        with self._database.read_transaction() as connection:
            rows = connection.execute(
                "SELECT session, is_active FROM client_sessions WHERE process = ? ORDER BY id DESC",
                (to_bytes(process),),
            ).fetchall()
        active = [session for session, is_active in rows if is_active]
        if len(active) > 1:
            return ""
        return to_text(active[0] if active else rows[0][0]) if rows else ""
