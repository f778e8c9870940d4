"""One PostgreSQL and one SeaweedFS for all tests of a process, with a database for each test that wants one."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from handhold.hub.migrations import migrate
from tests.hub.servers import Postgres, SeaweedFS, running


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    server = Postgres(tmp_path_factory.mktemp("postgres") / "server")
    with running(server):
        yield server


@pytest.fixture(scope="session")
def seaweed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeaweedFS]:
    server = SeaweedFS(tmp_path_factory.mktemp("seaweed") / "server")
    with running(server):
        yield server


@pytest.fixture
def database(postgres: Postgres, tmp_path: Path) -> str:
    """A database of the hub's schema, for one test."""
    url = postgres.make_database()
    with psycopg.connect(url) as connection:
        migrate(connection)
    return url
