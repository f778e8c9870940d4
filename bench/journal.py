"""What a long journal and a large set of changes cost.

python bench/journal.py [--calls 100000] [--files 50000]
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench._memory import peak_kib
from handhold.backends.state.sqlite import SqliteStore
from handhold.core.plans import ContentRef, FileChange, InlineContent
from handhold.core.ports.journal import Call, CallDecision, Outcome

RUNS = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--files", type=int, default=50_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        long_journal(Path(folder) / "calls", arguments.calls)
        large_changes(Path(folder) / "files", arguments.files)
    print(f"peak memory                 {peak_kib() / 1024:9.1f} MB")


def long_journal(folder: Path, calls: int) -> None:
    store = SqliteStore(folder)
    started = time.perf_counter()
    for n in range(calls):
        write_call(store, n)
    spent = time.perf_counter() - started
    print(f"{calls:,} calls written         {spent:9.1f} s   ({spent / calls * 1e6:.0f} µs each, every tenth an edit)")
    newest = InlineContent(f"{calls - 10}\n".encode()).hash
    for name, ask in {
        "entries(last=20)": lambda: store.entries(last=20),
        "entries(session, last=20)": lambda: store.entries(session="s1", last=20),
        "recall": lambda: store.find_call("s1", "t1", "c1"),
        "writer": lambda: store.last_writer("/ws/a.py", newest),
        "broken": store.incomplete_transactions,
    }.items():
        print(f"{name:27} {median_ms(ask):9.3f} ms")
    store.close()
    print(f"reopened                    {median_ms(lambda: SqliteStore(folder).close()):9.3f} ms")
    print(f"database                    {(folder / 'state.db').stat().st_size / 1e6:9.1f} MB")


def write_call(store: SqliteStore, n: int) -> None:
    edit = n % 10 == 0
    call = Call(f"s{n % 3}", f"t{n // 50}", f"c{n}", "Edit" if edit else "Read", '{"file_path":"/ws/a.py"}', "claude")
    seq = store.begin(call)
    if edit:
        before, after = InlineContent(f"{n - 10}\n".encode()), InlineContent(f"{n}\n".encode())
        store.record_intent(seq, f"x{n}", [FileChange("/ws/a.py", before, after)], decision=CallDecision("allowed"))
    store.record_outcome(seq, Outcome("success", None, 1.0, f"{n:6}→line\n" * 20), durable=edit)
    if edit:
        store.mark_cleaned_up(seq)


def large_changes(folder: Path, files: int) -> None:
    store = SqliteStore(folder)
    changes = [
        FileChange(
            f"/ws/some/folder/of/a/project/file_{n}.py",
            InlineContent(f"def f{n}():\n    return {n}\n".encode() * 8),
            InlineContent(f"def f{n}():\n    return {n} + 1\n".encode() * 8),
        )
        for n in range(files)
    ]
    idle = peak_kib()
    timed(f"intend {files:,} files", lambda: intend(store, "command", changes))
    grown = (peak_kib() - idle) / 1024
    print(f"memory for it               {grown:9.1f} MB")
    back = [
        FileChange(
            each.path, ContentRef(each.after.hash, each.after.size), ContentRef(each.before.hash, each.before.size)
        )
        for each in changes
        if each.after and each.before
    ]
    timed("intend taking it back", lambda: intend(store, "undo", back))
    timed("its files, from the journal", lambda: store.changes_of(1))
    print(f"entries(last=20)            {median_ms(lambda: store.entries(last=20)):9.3f} ms")
    store.close()


def intend(store: SqliteStore, tool: str, changes: list[FileChange]) -> None:
    seq = store.begin(Call("s", "t", tool, tool, "{}", "claude"))
    store.record_intent(seq, tool, changes, decision=CallDecision("allowed"), reverses=[1] if tool == "undo" else [])
    store.record_outcome(seq, Outcome("success", None, 1.0, "done"), durable=True)
    store.mark_cleaned_up(seq)


def timed(name: str, work: Callable[[], object]) -> None:
    started = time.perf_counter()
    work()
    print(f"{name:27} {time.perf_counter() - started:9.3f} s")


def median_ms(work: Callable[[], object]) -> float:
    times: list[float] = []
    for _ in range(RUNS):
        started = time.perf_counter()
        work()
        times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times)


if __name__ == "__main__":
    main()
