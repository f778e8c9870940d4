"""Counts what SQLite does for a store."""

from collections.abc import Generator
from contextlib import contextmanager

from handhold.core.ports.store import Store


@contextmanager
def count_statements(store: Store) -> Generator[list[str]]:
    """The statements that are executed meanwhile."""
    statements: list[str] = []
    database = store._database  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
    with database.connection as connection:
        connection.set_trace_callback(statements.append)
        try:
            yield statements
        finally:
            connection.set_trace_callback(None)
