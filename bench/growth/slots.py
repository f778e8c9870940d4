"""What a change takes when the space for undo is full of n slots, and how far the bound is exceeded."""

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench._sql import count_statements
from handhold import Reply, Toolbox
from handhold.backends.state.records import IntentRecord
from handhold.backends.state.space_totals import DISK_OVERHEAD
from handhold.backends.state.sqlite import SqliteStore
from handhold.core.plans import FileChange, StagedContent
from handhold.core.ports.journal import Call, CallDecision, Outcome

CALLS = 120
SLOT_BYTES = 4096


def measure(n: int) -> dict[str, float]:
    """Edits and commands at the bound: each drops what is oldest."""
    with tempfile.TemporaryDirectory() as top:
        root, state = Path(top).resolve() / "root", Path(top).resolve() / "state"
        root.mkdir()
        bound = n * (SLOT_BYTES + DISK_OVERHEAD.slot)
        with Toolbox.open(root, state=state, policy="open", session="s", undo_bytes=bound) as box:
            box.call("write_file", {"path": "f", "content": "0\n"})
            box.call("bash", {"command": "true"})  # from now on, the staging area is looked through once a week
            (folder,) = [each for each in state.iterdir() if each.is_dir()]
            _fill(box, folder / "shelf", n)
        with Toolbox.open(root, state=state, policy="open", session="s", undo_bytes=bound) as box:
            edits, commands, statements = list[tuple[float, float]](), list[tuple[float, float]](), list[int]()
            first = _time(lambda: box.call("bash", {"command": "echo 0 > c"}))
            box.call("write_file", {"path": "f", "content": "warm\n"})
            for each in range(CALLS):
                write = {"path": "f", "content": f"{each}\n"}
                with count_statements(box.store) as found:
                    edits.append(_time(lambda write=write: box.call("write_file", write)))
                statements.append(len(found))
                run = {"command": f"echo {each} > c"}
                commands.append(_time(lambda run=run: box.call("bash", run)))
            held, inodes = _measure_disk(folder)
        edit_ms, command_ms = ([wall for wall, _ in each] for each in (edits, commands))
        return {
            "cpu_ms": statistics.median(cpu for _, cpu in edits),
            "worst_cpu_ms": max(cpu for _, cpu in edits),
            "median_ms": statistics.median(edit_ms),
            "worst_ms": max(edit_ms),
            "command_cpu_ms": statistics.median(cpu for _, cpu in commands),
            "worst_command_cpu_ms": max(cpu for _, cpu in commands),
            "median_command_ms": statistics.median(command_ms),
            "worst_command_ms": max(command_ms),
            "first_command_ms": first[0],
            "sql_statements": statistics.median(statements),
            "worst_sql_statements": max(statements),
            "disk_share": held / bound,
            "inode_share": inodes * DISK_OVERHEAD.entry / bound,
        }


def _fill(box: Toolbox, shelf: Path, n: int) -> None:
    """Slots as n commands leave them that each replaced a file, in one transaction."""
    store = box.store
    assert isinstance(store, SqliteStore)
    shelf.mkdir(mode=0o700, exist_ok=True)
    ended = Outcome("success", None, 1.0, None)
    for first in range(0, n, 5000):
        with store.one_transaction():
            for each in range(first, min(n, first + 5000)):
                command = f"{each:016x}"
                (shelf / command).mkdir(mode=0o700)
                (shelf / command / "note").write_bytes(b"{}")
                (shelf / command / "1").write_bytes(b"old\n")
                _record(store, box.session, _change(f"{command}/1", each), ended)


def _record(store: SqliteStore, session: str, files: Sequence[FileChange], ended: Outcome) -> None:
    # Durable transactions cannot be part of a larger one, so the parts of `record_intent` are called by themselves.
    with store._database.write_transaction() as connection:  # pyright: ignore[reportPrivateUsage]
        seq = store.begin(Call(session, "", "", "bash", "{}", "handhold"))
        connection.execute("INSERT INTO lacking VALUES (?, 0)", (seq,))
        record = IntentRecord(seq, 1, "x", CallDecision("allowed"), tuple(files), ())
        store._chain.append(connection, record)  # pyright: ignore[reportPrivateUsage]
        connection.execute("UPDATE held SET clock = clock + 2")
        store._slots.record_use(connection, seq, files, for_reversal=False)  # pyright: ignore[reportPrivateUsage]
        store.record_outcome(seq, ended, durable=False)


def _change(slot: str, number: int) -> list[FileChange]:
    old, new = (
        StagedContent(slot, "file", "00" * 32, 4, 0o644, (1, number * 2 + side), 0, allocated=SLOT_BYTES)
        for side in (0, 1)
    )
    return [FileChange(f"/ws/{number}", old, new)]


def _time(work: Callable[[], Reply]) -> tuple[float, float]:
    """Wall and processor time, in milliseconds."""
    began, cpu = time.perf_counter(), time.process_time()
    reply = work()
    took = (time.perf_counter() - began) * 1000, (time.process_time() - cpu) * 1000
    assert reply.status == "success", reply.text
    return took


def _measure_disk(state: Path) -> tuple[int, int]:
    """Blocks and inodes of what is kept for undo, without the journal."""
    held = inodes = 0
    for part in ("shelf", "contents"):
        for folder, _, files in os.walk(state / part):
            for name in (".", *files):
                held += os.lstat(os.path.join(folder, name)).st_blocks * 512
                inodes += 1
    return held, inodes
