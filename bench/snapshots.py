"""Snapshots: what a scan costs beside `git status`, and how long a first command waits.

    python -m bench.snapshots [--large]

Processor time of a scan that finds nothing, and of `git status -uall --ignored` in the same tree, by turns. Then the
wait of the first window, in a new process. `--large` adds 100,000 files and 3 GB.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from handhold import Toolbox
from handhold.core.ports.recording import Window

ROUNDS = 7
FILES_IN_A_FOLDER = 20


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.snapshots")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--wait", metavar="ROOT", help="the wait of a first window, in this process")
    options = parser.parse_args()
    if options.wait:
        print(first_wait(Path(options.wait)))
        return 0
    for files in (1_000, 20_000, *((100_000,) if options.large else ())):
        with tempfile.TemporaryDirectory(prefix="snapshots-") as top:
            root = lay(Path(top) / "work", files)
            wait = measure_wait(root)
            copied = finish(root)
            ours, git, statx = compare(root)
            print(
                f"{files:7,} files: scan {ours:.0f} ms of processor time, git status {git:.0f} ms, {ours / git:.2f} x;"
                f" {statx} stats; first window waits {wait:.2f} s, all copied after {copied:.1f} s",
                flush=True,
            )
    if options.large:
        with tempfile.TemporaryDirectory(prefix="snapshots-") as top:
            root = Path(top) / "work"
            root.mkdir()
            for n in range(60):
                (root / f"large{n}").write_bytes(os.urandom(1024) * (50 * 1024))
            print(f"3 GB in 60 files: first window waits {measure_wait(root):.2f} s", flush=True)
    return 0


def lay(root: Path, files: int) -> Path:
    """A repository with some untracked and some ignored files."""
    for n in range(files):
        folder = root / f"p{n // 1000}" / f"q{n // FILES_IN_A_FOLDER}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"f{n}.txt").write_text(f"file {n}\n" * (1 + n % 50))
    (root / ".gitignore").write_text("*5.txt\n")
    git = ["git", "-C", str(root), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for arguments in (["init", "--quiet"], ["add", "p0"], ["commit", "--quiet", "--message", "one"]):
        subprocess.run([*git, *arguments], check=True)
    return root


def open_box(root: Path) -> Toolbox:
    return Toolbox.open(root, state=root.parent / "state", session="s", settings=False)


def first_wait(root: Path) -> float:
    with open_box(root) as box:
        began = time.perf_counter()
        box.snapshots.begin(Window("s", "first", "Bash"))
        waited = time.perf_counter() - began
        box.snapshots.end("s", "first")
        return waited


def measure_wait(root: Path) -> float:
    command = [sys.executable, "-m", "bench.snapshots", "--wait", str(root)]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def finish(root: Path) -> float:
    """Seconds until everything is copied."""
    began = time.perf_counter()
    with open_box(root) as box:
        while not box.snapshots.complete() or box.snapshots.recorder.baseline.due(1):
            time.sleep(0.05)
    return time.perf_counter() - began


def compare(root: Path) -> tuple[float, float, int]:
    """Medians in milliseconds, and how many entries were looked at."""
    ours: list[float] = []
    others: list[float] = []
    with open_box(root) as box:
        box.snapshots.sweep()
        time.sleep(0.1)
        box.snapshots.sweep()  # nothing is young any more
        for _ in range(ROUNDS):
            began = time.process_time()
            recorded = box.snapshots.sweep()
            ours.append(time.process_time() - began)
            assert not recorded.paths
            assert not recorded.foreign
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            status = ["git", "-C", str(root), "--no-optional-locks", "status", "--short", "-uall", "--ignored"]
            subprocess.run(status, check=True, stdout=subprocess.DEVNULL)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            others.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    entries = sum(len(names) + len(folders) for _, folders, names in os.walk(root))
    return median(ours) * 1000, median(others) * 1000, entries


if __name__ == "__main__":
    sys.exit(main())
