"""What each request of the review page costs in journals of two sizes: SQLite's steps, and milliseconds.

python -m bench.records [--calls 10000 1000000] [--folder FOLDER]

A journal of a thousand real calls is multiplied by SQL. Half of the calls are of one session, one in ten changed a
file. Undos are not multiplied: a session's summary counts its undone calls.
"""

import argparse
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from statistics import median
from time import perf_counter

from handhold import Toolbox
from handhold.backends.state.sqlite import SqliteStore
from handhold.core.ports.records import CallFilter

BASE_CALLS = 1_000
TABLES = ("calls", "intents", "changes", "outcomes", "finished")


def make_journal(folder: Path) -> Path:
    """A journal of real calls; returns its state folder."""
    (root := folder / "ws").mkdir()
    (root / "a.py").write_text("x = 1\n")
    state = folder / "state"
    for session in ("s", *(f"other{n}" for n in range(10))):
        with Toolbox.open(root, state=state, settings=False, policy="open", session=session) as box:
            for n in range(BASE_CALLS // 2 if session == "s" else BASE_CALLS // 20):
                turn = f"t{n // 5}"
                if n % 10:
                    box.call("read_file", {"path": "a.py"}, turn=turn)
                else:
                    box.call("write_file", {"path": f"{n % 7}.py", "content": f"x = {n}\n"}, turn=turn)
                if n % 100 == 90:
                    box.undo()
    return state


def grow(database: Path, many: int) -> None:
    """Append copies of the first calls, with the triggers that a real call fires."""
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        base, last = connection.execute("SELECT count(*), max(seq) FROM calls").fetchone()
        columns = {table: [row[1] for row in connection.execute(f"PRAGMA table_info({table})")] for table in TABLES}
        connection.execute("BEGIN")
        for copy in range(1, max(1, many // base)):
            for table in TABLES:
                shown = ", ".join(f"seq + {copy * last}" if name == "seq" else name for name in columns[table])
                connection.execute(f"INSERT INTO {table} SELECT {shown} FROM {table} WHERE seq <= {last}")
        connection.execute("COMMIT")


def list_requests(store: SqliteStore, seq: int) -> dict[str, Callable[[], object]]:
    records = store.records
    return {
        "version": records.version,
        "list_sessions": lambda: records.list_sessions(limit=20),
        "count_sessions": records.count_sessions,
        "find_session": lambda: records.find_session("s"),
        "list_turns": lambda: records.list_turns("s", ["t1", "t2", "t3"]),
        "list_calls": lambda: records.list_calls(CallFilter(session="s"), limit=50),
        "list_calls, tool": lambda: records.list_calls(CallFilter(session="s", tool="write_file"), limit=50),
        "list_calls, decision": lambda: records.list_calls(CallFilter(session="s", decision="refused"), limit=50),
        "list_calls, text": lambda: records.list_calls(CallFilter(session="s", text="no such text"), limit=50),
        "list_calls, path": lambda: records.list_calls(CallFilter(session="s", path="no/such/*"), limit=50),
        "find_neighbours": lambda: records.find_neighbours(seq),
        "find_entry": lambda: records.find_entry(seq),
        "list_path_changes": lambda: records.list_path_changes("/no/such/file", limit=20),
        "list_tools": lambda: records.list_tools("s"),
        "list_marks": lambda: records.list_marks("s", limit=2_000),
        "list_running": records.list_running,
        "measure_output": lambda: records.measure_output(seq),
    }


def measure(state: Path) -> dict[str, tuple[int, float]]:
    found: dict[str, tuple[int, float]] = {}
    with closing(SqliteStore(state)) as store, store._database.connection as connection:  # pyright: ignore[reportPrivateUsage]
        seq: int = connection.execute("SELECT max(seq) / 2 FROM calls").fetchone()[0]
        for name, request in list_requests(store, seq).items():
            request()
            steps = list[None]()
            connection.set_progress_handler(lambda steps=steps: steps.append(None), 10)
            request()
            connection.set_progress_handler(None, 0)
            times: list[float] = []
            for _ in range(7):
                started = perf_counter()
                request()
                times.append((perf_counter() - started) * 1000)
            found[name] = 10 * len(steps), median(times)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, nargs=2, default=(10_000, 1_000_000))
    parser.add_argument("--folder", help="where the journal is made; it takes 1 GB")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        state = make_journal(Path(folder))
        (database,) = (file for file in state.rglob("*") if file.is_file() and file.read_bytes()[:6] == b"SQLite")
        results: list[dict[str, tuple[int, float]]] = []
        for many in chosen.calls:
            grow(database, many)
            results.append(measure(database.parent))
            print(f"{many:,} calls, {database.stat().st_size / 1024**2:,.0f} MB", flush=True)
        print(f"{'':<22}" + "".join(f"{f'{many:,}':>24}" for many in chosen.calls))
        for name in results[0]:
            print(f"{name:<22}" + "".join(f"{each[name][0]:>12,} steps {each[name][1]:>6.2f} ms" for each in results))


if __name__ == "__main__":
    main()
