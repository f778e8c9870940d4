"""Forks: how long they take to make and to merge, how much slower a program is in one, and the space that they take.

    python -m bench.forks [--large]

`--large` adds a million files.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from handhold import Toolbox

FILES_IN_FOLDER = 100
WORK = "for n in $(seq 300); do cat f0/* >/dev/null; echo $n >f1/out$n; python3 -c 1; done"


def main() -> None:
    home = Path(tempfile.mkdtemp(prefix="bench-forks-", dir=os.environ.get("TMPDIR", "/var/tmp")))
    try:
        for count in (1_000, 100_000, *((1_000_000,) if "--large" in sys.argv else ())):
            measure_making(home / str(count), count)
        for count in (10, 10_000):
            measure_merging(home / f"merge-{count}", count)
        measure_overhead(home / "overhead")
        measure_space(home / "space")
    finally:
        shutil.rmtree(home)


def make_files(root: Path, count: int, content: str = "x\n") -> None:
    for n in range(0, count, FILES_IN_FOLDER):
        folder = root / f"f{n // FILES_IN_FOLDER}"
        folder.mkdir(parents=True)
        for name in range(min(FILES_IN_FOLDER, count - n)):
            (folder / str(name)).write_text(content)


def median_ms(times: int, work: Callable[[int], object]) -> float:
    taken: list[float] = []
    for n in range(times):
        started = time.perf_counter()
        work(n)
        taken.append((time.perf_counter() - started) * 1000)
    return statistics.median(taken)


def measure_making(home: Path, count: int) -> None:
    make_files(home / "root", count)
    with Toolbox.open(home / "root", state=home / "state") as box:
        box.fork("warm").run(["true"])
        bare = median_ms(11, lambda _: subprocess.run(["sh", "-c", "echo 1 >f0/0"], cwd=home / "root", check=True))
        made = median_ms(11, lambda n: box.fork(f"n{n}").run(["sh", "-c", "echo 1 >f0/0"]))
        again = median_ms(11, lambda n: box.fork(f"n{n}").run(["sh", "-c", "echo 1 >f0/0"]))
        print(f"{count:>9,} files: first write {made:.1f} ms, another {again:.1f} ms; without a fork {bare:.1f} ms")


def measure_merging(home: Path, count: int) -> None:
    make_files(home / "root", count)
    with Toolbox.open(home / "root", state=home / "state") as box:
        box.fork("try").run(["sh", "-c", "for f in f*/*; do echo y >$f; done"])
        merged = median_ms(1, lambda _: box.fork("try").merge())
        undone = median_ms(1, lambda _: box.undo())
        print(f"{count:>9,} changed files: merge {merged:,.0f} ms, undo {undone:,.0f} ms")


def measure_overhead(home: Path) -> None:
    make_files(home / "root", 1_000)
    with Toolbox.open(home / "root", state=home / "state") as box:
        bare = median_ms(5, lambda _: subprocess.run(["sh", "-c", WORK], cwd=home / "root", check=True))
        inside = median_ms(5, lambda n: box.fork(f"n{n}").run(["sh", "-c", WORK]))
        print(
            f"a script that starts 600 programs, reads 30,000 and writes 300 files: {inside / bare:.2f} times the time"
        )


def measure_space(home: Path) -> None:
    make_files(home / "root", 1_000, "x" * 100_000)
    with Toolbox.open(home / "root", state=home / "state") as box:
        before = used(home)
        for n in range(50):
            box.fork(f"n{n}").run(["sh", "-c", "echo 1 >f0/0"])
        print(f"50 forks of {before / 1e6:.0f} MB, one file changed in each: {(used(home) - before) / 1e6:.1f} MB")


def used(folder: Path) -> int:
    return int(
        subprocess.run(["du", "-s", "-B1", folder], check=True, capture_output=True, text=True).stdout.split()[0]
    )


if __name__ == "__main__":
    main()
