"""What an undo after a redo, and a command that changes a file, take after n reads."""

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

from bench._sql import count_statements
from handhold import Toolbox
from handhold.core.facts import FileIdentity
from handhold.core.ports.journal import Call, Outcome
from handhold.core.ports.read_records import ReadRecord

REPEATS = 7


def measure(n: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as top:
        root = Path(top).resolve() / "root"
        root.mkdir()
        (root / "f").write_text("a\n", encoding="utf-8")
        with Toolbox.open(root, state=Path(top) / "state", policy="open") as box:
            _call(box, "read_file", path="f")
            _call(box, "edit_file", path="f", old="a", new="b")
            _read_many(box, root, n)
            found: dict[str, float] = {}
            with count_statements(box.store) as statements:
                found["cpu_ms"] = _median_cpu_ms(box.undo, box.redo)
            found["sql_statements"] = len(statements) / REPEATS
            if box.call("bash", {"command": "true"}).status == "success":
                found["command_cpu_ms"] = _median_cpu_ms(lambda: box.call("bash", {"command": "date +%N >> g"}))
            return found


def _read_many(box: Toolbox, root: Path, n: int) -> None:
    """Records as n reads of n files leave them."""
    outcome, records = Outcome("success", None, 1.0, None), box.store.read_records(box.session)
    for each in range(n):
        call = Call(box.session, "", "", "read_file", f'{{"path":"other/{each}"}}', "handhold")
        box.store.record_call(call, outcome)
        identity = FileIdentity(1, each, 10, 0, 0)
        records.put(ReadRecord(f"{root}/other/{each}", identity, "00" * 32, ((1, 1),), is_complete=True))


def _median_cpu_ms(work: Callable[[], object], after: Callable[[], object] = lambda: None) -> float:
    """Of this process and of the children that it waited for."""
    times: list[float] = []
    for _ in range(REPEATS):
        began = _cpu_seconds()
        work()
        times.append(_cpu_seconds() - began)
        after()
    return statistics.median(times) * 1000


def _cpu_seconds() -> float:
    children = getrusage(RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _call(box: Toolbox, tool: str, **arguments: str) -> None:
    reply = box.call(tool, arguments)
    assert reply.status == "success", reply.text
