"""What a command costs among n files: with the default rules, with a rule that can match anywhere, and the first one.

Each function lays n files in n / 20 folders and gives the medians of one call: processor time with that of its child
processes, and the system calls and stats that our own code makes through `os`.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from handhold import Rule, Toolbox

FILES_PER_FOLDER = 20
FOLDERS_PER_FOLDER = 100
WARM_UPS, RUNS = 3, 15
STATS = frozenset({"stat", "lstat", "fstat"})
ANYWHERE = Rule("pem", "deny", ["read"], "kept apart", ["a/x.pem"], ["a"], paths=["**/*.pem"])
PRINTING = "echo a line that could contain a secret"


def measure(n: int) -> dict[str, float]:
    """A command that prints nothing, with the default rules."""
    return _measure_command(n, "true")


def measure_printing(n: int) -> dict[str, float]:
    """A command that prints a line, with the default rules: the values of secret files are redacted in it."""
    return _measure_command(n, PRINTING)


def measure_watched(n: int) -> dict[str, float]:
    """A command under a user's rule that can match anywhere, while nothing changes."""
    return _measure_command(n, "true", rules=[ANYWHERE])


def measure_first(n: int) -> dict[str, float]:
    """The first command of a process, with the default rules."""
    return _measure_first(n, "true")


def measure_first_printing(n: int) -> dict[str, float]:
    """The same for a command that prints a line."""
    return _measure_first(n, PRINTING)


def measure_linked_read(n: int) -> dict[str, float]:
    """A Read of a file with a second name, with the default rules, when the same was read before."""
    with lay_workspace(n) as ws, _open(ws) as box:
        os.link(ws / "p0/q0/f0.py", ws.parent / "elsewhere")
        return _measure_calls(lambda: _call(box, "read_file", path="p0/q0/f0.py"))


def measure_linked_read_cold(n: int) -> dict[str, float]:
    """The same by toolboxes that have just been opened."""

    with lay_workspace(n) as ws:
        os.link(ws / "p0/q0/f0.py", ws.parent / "elsewhere")

        def read() -> None:
            with _open(ws) as box:
                _call(box, "read_file", path="p0/q0/f0.py")

        return _measure_calls(read, warm_ups=1)


def measure_linked_edit(n: int) -> dict[str, float]:
    """An Edit of a file with a second name in the workspace, when the same was edited before."""
    with lay_workspace(n) as ws, _open(ws) as box:
        os.link(ws / "p0/q0/f0.py", ws / "p0/q1/second.py")
        _call(box, "read_file", path="p0/q0/f0.py")
        texts = iter(range(1_000_000))

        def edit() -> None:
            n = next(texts)
            _call(box, "edit_file", path="p0/q0/f0.py", old_string=f"x = {n}\n", new_string=f"x = {n + 1}\n")

        return _measure_calls(edit)


# --- laying and measuring


@contextmanager
def lay_workspace(n: int) -> Iterator[Path]:
    """A workspace of n files, one of them secret, that has not changed for some seconds."""
    with tempfile.TemporaryDirectory(prefix="handhold-growth-") as top:
        ws = Path(top).resolve() / "ws"
        for folder in range(max(1, n // FILES_PER_FOLDER)):
            path = f"{ws}/p{folder // FOLDERS_PER_FOLDER}/q{folder % FOLDERS_PER_FOLDER}"
            os.makedirs(path)
            for name in range(FILES_PER_FOLDER):
                os.close(os.open(f"{path}/f{name}.py", os.O_CREAT | os.O_WRONLY, 0o644))
        (ws / "p0/q0/f0.py").write_text("x = 0\n")
        (ws / ".env").write_text("API_TOKEN=xK9mQ2vL7pR4tW8zA1\n")
        time.sleep(2.5)
        yield ws


@contextmanager
def _open(ws: Path, **options: Any) -> Iterator[Toolbox]:
    state = ws.parent / "state"
    with Toolbox.open(ws, state=state, settings=False, policy="open", session="s", **options) as box:
        yield box


def _call(box: Toolbox, tool: str, **arguments: Any) -> None:
    reply = box.call(tool, arguments)
    assert reply.status == "success", reply.text


def _measure_command(n: int, command: str, **options: Any) -> dict[str, float]:
    with lay_workspace(n) as ws, _open(ws, **options) as box:
        return _measure_calls(lambda: _call(box, "bash", command=command))


def _measure_calls(call: Callable[[], None], warm_ups: int = WARM_UPS) -> dict[str, float]:
    for _ in range(warm_ups):
        call()
    took: list[float] = []
    for _ in range(RUNS):
        before = _cpu_seconds()
        call()
        took.append(_cpu_seconds() - before)
    return {"cpu_ms": statistics.median(took) * 1e3, **_count(call)}


def _cpu_seconds() -> float:
    used = (resource.getrusage(each) for each in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def _count(call: Callable[[], None]) -> dict[str, float]:
    """How many functions of `os` that ask the kernel this thread calls, and how many of them are stats."""
    calls = stats = 0

    def called(_: FrameType, event: str, function: object) -> None:
        nonlocal calls, stats
        if event == "c_call" and getattr(function, "__module__", "") == os.name:
            calls += 1
            stats += getattr(function, "__name__", "") in STATS

    sys.setprofile(called)
    try:
        call()
    finally:
        sys.setprofile(None)
    return {"system_calls": calls, "stats": stats}


def _measure_first(n: int, command: str) -> dict[str, float]:
    with lay_workspace(n) as ws:
        program = (sys.executable, "-m", "bench.growth.commands", str(ws), command)

        def run(*more: str) -> dict[str, float]:
            return json.loads(subprocess.run((*program, *more), check=True, capture_output=True, text=True).stdout)

        took = [run()["cpu_ms"] for _ in range(5)]
        return {"cpu_ms": statistics.median(took), **run("--count")}


def _run_first(ws: Path, command: str, *, counting: bool) -> dict[str, float]:
    with _open(ws) as box:
        if counting:
            return _count(lambda: _call(box, "bash", command=command))
        before = _cpu_seconds()
        _call(box, "bash", command=command)
        return {"cpu_ms": (_cpu_seconds() - before) * 1e3}


if __name__ == "__main__":  # a process whose first command is measured
    print(json.dumps(_run_first(Path(sys.argv[1]), sys.argv[2], counting="--count" in sys.argv)))
