"""What a session costs when there are many: n sessions on one workspace in one process, as a server has them."""

import os
import tempfile
from pathlib import Path
from time import process_time

from handhold.server.server_config import ServerConfig
from handhold.server.session_pool import SessionPool
from handhold.toolbox import Toolbox

CALLS = 2_000  # measured ones, of all sessions in turn
TRACED_CALLS = 100
READ = ("read_file", {"path": "a.py"})


def measure(n: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as top:
        root = Path(top) / "root"
        root.mkdir()
        (root / "a.py").write_text("".join(f"line {number}\n" for number in range(300)))
        pool = SessionPool()
        config = ServerConfig((str(root),), state=str(Path(top) / "state"), settings=False)
        try:
            return measure_pool(pool, config, n)
        finally:
            pool.close()


def measure_pool(pool: SessionPool, config: ServerConfig, n: int) -> dict[str, float]:
    call(pool, config, "first")
    call(pool, config, "first")
    descriptors, memory, began = count_descriptors(), read_memory_kib(), process_time()
    for number in range(n):
        call(pool, config, f"s{number}")
    opened = (process_time() - began) / n
    kept_descriptors, kept_memory = count_descriptors() - descriptors, read_memory_kib() - memory
    spent = sorted(timed_call(pool, config, f"s{number % n}") for number in range(CALLS))
    return {
        "cpu_ms": sum(spent) / CALLS * 1000,
        "p99_ms": spent[CALLS * 99 // 100] * 1000,
        "first_call_cpu_ms": opened * 1000,
        "descriptors": kept_descriptors / n,
        "memory_kb": kept_memory / n,
        "sql_statements": count_statements(pool, config, n) / TRACED_CALLS,
    }


def timed_call(pool: SessionPool, config: ServerConfig, name: str) -> float:
    began = process_time()
    call(pool, config, name)
    return process_time() - began


def call(pool: SessionPool, config: ServerConfig, name: str) -> None:
    session = pool.acquire(config, name)
    with session.use_toolbox() as box:
        reply = box.call(*READ)
        assert reply.ok, reply.text
    for unused in pool.release(session):
        unused.close()


def count_statements(pool: SessionPool, config: ServerConfig, n: int) -> int:
    """Including those of opening and closing, if a session has to be opened."""
    statements: list[str] = []
    trace(config, statements.append)
    for number in range(TRACED_CALLS):
        call(pool, config, f"s{number % n}")
    return len(statements)


def trace(config: ServerConfig, callback: object) -> None:
    """Trace the connection that all sessions of this process share."""
    with Toolbox.open(config.roots, state=config.state, settings=config.settings) as box:
        database = box.store._database  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
        with database.connection as connection:  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            connection.set_trace_callback(callback)  # pyright: ignore[reportUnknownMemberType]


def count_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def read_memory_kib() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmRSS:")[2].split()[0])
