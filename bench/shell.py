"""What a command costs compared with bare bash: starting it, committing 20,000 files, and 10 GB of output.

python -m bench.shell [--runs 100] [--files 20000] [--flood 10] [--only start,files,flood]

Figures are medians, measured in turns with bare bash. The exit status says whether every row is within its budget.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench._memory import peak_kib
from handhold import Toolbox
from handhold.backends.shell import SandboxedShell
from handhold.core.ports.shell import CommandResult
from handhold.core.requests import Run

START_MS = 10.0  # over bare bash
FILES_RATIO = 1.25
FLOOD_MB, FLOOD_RATE = 32, 1.0  # over idle; GB/s
REPEATS = 5
FORMAT = "{:<34} {:>10} {:>10} {:>12} {:>10} {:>5}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--flood", type=int, default=10, help="GiB of output")
    parser.add_argument("--only", default="start,files,flood")
    parser.add_argument("--flooded", type=Path, help=argparse.SUPPRESS)  # how this program calls itself
    chosen = parser.parse_args()
    if chosen.flooded:
        return flooded(chosen.flooded, chosen.flood)
    print(FORMAT.format("", "bare bash", "handhold", "", "budget", ""))
    measured = {
        "start": lambda top: start(top, chosen.runs),
        "files": lambda top: files(top, chosen.files),
        "flood": lambda top: flood(top, chosen.flood),
    }
    verdicts = [within(measured[name]) for name in chosen.only.split(",")]
    return not all(verdicts)


@dataclass(frozen=True)
class Row:
    what: str
    bare: str
    ours: str
    compared: str
    budget: str = ""
    good: bool = True


def within(measured: Callable[[Path], Iterator[Row]]) -> bool:
    with tempfile.TemporaryDirectory(prefix="handhold-bench-") as top:
        good = True
        for row in measured(Path(top).resolve()):
            over = "" if row.good else "OVER"
            print(FORMAT.format(row.what, row.bare, row.ours, row.compared, row.budget, over), flush=True)
            good &= row.good
        return good


# --- the rows


def start(top: Path, runs: int) -> Iterator[Row]:
    with opened(top) as box:
        shell = box.shell
        assert isinstance(shell, SandboxedShell)
        bare, ours = alternately(lambda: bash("true", top), lambda: ran(shell, "true"), runs)
        over = (ours - bare) * 1e3
        told = f"+ {over:.2f} ms"
        yield Row(
            "start", f"{bare * 1e3:.2f} ms", f"{ours * 1e3:.2f} ms", told, f"+ {START_MS:.0f} ms", over <= START_MS
        )


def files(top: Path, count: int) -> Iterator[Row]:
    command = f"mkdir -p made; for ((n = 0; n < {count}; n++)); do echo $n > made/file$n; done"
    (top / "bare").mkdir()
    with opened(top) as box:
        fresh: tuple[list[float], list[float]] = ([], [])
        again: tuple[list[float], list[float]] = ([], [])
        for _ in range(REPEATS):
            for folder in ("bare", "root"):
                shutil.rmtree(top / folder / "made", ignore_errors=True)
            for times in (fresh, again):
                times[0].append(timed(lambda: bash(command, top / "bare")))
                times[1].append(timed(lambda: called(box, command)))
                assert len(os.listdir(top / "root" / "made")) == count
    for what, times, most in (("made", fresh, FILES_RATIO), ("replaced", again, None)):
        bare, ours = map(statistics.median, times)
        ratio = ours / bare
        budget = f"{most} ×" if most else "none"
        told = f"{bare:.2f} s", f"{ours:.2f} s", f"{ratio:.2f} ×"
        yield Row(f"{count:,} files {what}, committed", *told, budget, most is None or ratio <= most)


def flood(top: Path, size: int) -> Iterator[Row]:
    took = timed(lambda: bash(f"yes | head -c {size}G | cat > /dev/null", top))
    told = subprocess.run(
        [sys.executable, "-m", "bench.shell", "--flood", str(size), "--flooded", str(top)],
        capture_output=True,
        text=True,
        check=True,
    )
    rate, megabytes, kept = map(float, told.stdout.split())
    bare = size * 1024**3 / 1e9 / took
    rates = f"{bare:.2f} GB/s", f"{rate:.2f} GB/s", f"{rate / bare:.2f} ×"
    yield Row(f"flood of {size} GiB", *rates, f"{FLOOD_RATE} GB/s", rate >= FLOOD_RATE)
    yield Row("  memory over idle", "", f"{megabytes:.1f} MB", "", f"{FLOOD_MB} MB", megabytes <= FLOOD_MB)
    yield Row("  kept of it", "", f"{kept / 1e9:.2f} GB", "")


def flooded(top: Path, size: int) -> int:
    """In a separate process, so that its memory has nothing else in it."""
    with opened(top) as box:
        shell = box.shell
        assert isinstance(shell, SandboxedShell)
        ran(shell, "true")
        idle = peak_kib()
        finished = ran(shell, f"yes | head -c {size}G", seconds=600)
        assert finished.output.total_bytes == size * 1024**3 == 2 * finished.output.total_lines, finished.output
        print(
            finished.output.total_bytes / 1e9 / finished.exit_status.seconds,
            (peak_kib() - idle) / 1024,
            finished.output.kept_bytes,
        )
    return 0


# --- measuring


def opened(top: Path) -> Toolbox:
    (top / "root").mkdir(exist_ok=True)
    return Toolbox.open(top / "root", state=top / "state", policy="edit")


def bash(command: str, folder: Path) -> None:
    subprocess.run(["bash", "-c", command], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, check=True)


def ran(shell: SandboxedShell, command: str, *, seconds: float = 60) -> CommandResult:
    with shell.run(Run(command, seconds, 80_000)) as finished:
        assert finished.exit_status.code == 0, finished
        assert finished.undo_scope == "all", finished.sandbox
        return finished


def called(box: Toolbox, command: str) -> None:
    reply = box.call("bash", {"command": command})
    assert reply.status == "success", reply.text


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def alternately(one: Callable[[], object], other: Callable[[], object], runs: int) -> tuple[float, float]:
    """In turns, so that other load on the machine affects both."""
    one()
    other()
    times = [(timed(one), timed(other)) for _ in range(runs)]
    first, second = zip(*times, strict=True)
    return statistics.median(first), statistics.median(second)


if __name__ == "__main__":
    sys.exit(main())
