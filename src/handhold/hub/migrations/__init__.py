"""The database schema of the hub: numbered SQL files, each applied once and in order."""

import json
from importlib.resources import files

from psycopg import Connection
from psycopg.rows import TupleRow

from handhold.core.listed_records import MAX_LISTED_BYTES, shorten_record

SHORTENED_VERSION = 5  # since which every long record has a short form
LOCK_KEY = 0x48_48_4C_44  # of the advisory lock that keeps two hubs from migrating at once


class UnsuitableDatabase(Exception):
    """A hub of this version cannot use the database."""


def migrate(connection: Connection[TupleRow]) -> int:
    """Bring a database to the current version and return it.

    UnsuitableDatabase if it is newer than this program, or not in UTF-8, without which names could not be read back.
    """
    if (encoding := connection.info.parameter_status("server_encoding")) != "UTF8":
        raise UnsuitableDatabase(f"the database has the encoding {encoding}; make one with UTF8")
    folder = files(__name__)
    scripts = sorted(each.name for each in folder.iterdir() if each.name.endswith(".sql"))
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK_KEY,))
        connection.execute("CREATE TABLE IF NOT EXISTS schema_version (version integer NOT NULL)")
        version = read_version(connection)
        if version > len(scripts):
            raise UnsuitableDatabase(f"the database has version {version}; this Handhold knows {len(scripts)}")
        for script in scripts[version:]:
            connection.execute(folder.joinpath(script).read_bytes())
        if version < SHORTENED_VERSION:
            shorten_records(connection)
        connection.execute("DELETE FROM schema_version")
        connection.execute("INSERT INTO schema_version VALUES (%s)", (len(scripts),))
        add_partitions(connection)
    return len(scripts)


def shorten_records(connection: Connection[TupleRow]) -> None:
    """Give long records their short form for lists, one after the other."""
    select = "SELECT tableoid, ctid::text, line FROM records WHERE length(line) > %s AND listed IS NULL"
    with connection.cursor(name="long_records") as rows:
        rows.itersize = 1
        for table, place, line in rows.execute(select, (MAX_LISTED_BYTES,)):
            update = "UPDATE records SET listed = %s WHERE tableoid = %s AND ctid = %s::tid"
            connection.execute(update, (shorten_record(json.loads(line), line), table, place))


def read_version(connection: Connection[TupleRow]) -> int:
    row = connection.execute("SELECT version FROM schema_version").fetchone()
    return row[0] if row else 0


def add_partitions(connection: Connection[TupleRow]) -> None:
    """Make the tables of this month and the next."""
    connection.execute(
        "SELECT add_partitions(month::date)"
        " FROM unnest(ARRAY[now() AT TIME ZONE 'UTC', now() AT TIME ZONE 'UTC' + interval '1 month']) AS month"
    )
