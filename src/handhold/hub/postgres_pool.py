"""Connections to PostgreSQL that never wait for ever: not for a server that stopped, nor for a network that is gone."""

import time
from collections.abc import Generator
from typing import Any, TypeVar

from psycopg import Connection, OperationalError
from psycopg.rows import TupleRow
from psycopg_pool import ConnectionPool

CONNECT_TIMEOUT_SECONDS = 5.0
STATEMENT_SECONDS = 60  # then PostgreSQL ends it; a record of 100,000 files takes up to 15
ANSWER_SECONDS = STATEMENT_SECONDS + 5.0  # then the server itself does not answer, and the connection is given up
NETWORK_OPTIONS: dict[str, Any] = {
    "connect_timeout": int(CONNECT_TIMEOUT_SECONDS),
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,  # milliseconds
}

T = TypeVar("T")


class BoundedConnection(Connection[TupleRow]):
    """Raises OperationalError if the server does not answer in time."""

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **options: Any) -> T:
        until = time.monotonic() + ANSWER_SECONDS

        def bounded() -> Generator[Any, Any, T]:
            """As `gen`, which is told several times a second that nothing came."""
            try:
                wanted = next(gen)
                while True:
                    ready = yield wanted
                    if not ready and time.monotonic() > until:
                        self.pgconn.finish()  # a rollback would wait as long
                        raise OperationalError(f"the server did not answer for {ANSWER_SECONDS} s")
                    wanted = gen.send(ready)
            except StopIteration as end:
                return end.value

        return super().wait(bounded(), *args, **options)


def open_pool(conninfo: str, *, max_size: int = 16) -> ConnectionPool[Connection[TupleRow]]:
    """For requests. Their commits wait for the disk, whatever the server's setting is."""

    def configure(connection: Connection[TupleRow]) -> None:
        connection.execute("SET synchronous_commit = on")
        connection.execute("SELECT set_config('statement_timeout', %s, false)", (f"{STATEMENT_SECONDS}s",))
        connection.commit()

    return ConnectionPool(
        conninfo,
        connection_class=BoundedConnection,
        min_size=1,
        max_size=max_size,
        timeout=CONNECT_TIMEOUT_SECONDS,
        configure=configure,
        kwargs=NETWORK_OPTIONS,
        open=True,
    )


def open_upkeep_pool(conninfo: str) -> ConnectionPool[Connection[TupleRow]]:
    """For migrations and retention, which take as long as they take. Its connections are made when they are needed."""
    return ConnectionPool(
        conninfo, min_size=0, max_size=2, timeout=CONNECT_TIMEOUT_SECONDS, kwargs=NETWORK_OPTIONS, open=True
    )
