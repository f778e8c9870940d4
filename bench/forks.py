"""Forks: how long they take to make and to merge, how much slower programs are in one, and what they take.

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
BUILD = """
import resource, subprocess, sys
subprocess.run("rm -f *.o; make -s", shell=True, check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
open(sys.argv[1], "w").write(str(used.ru_utime + used.ru_stime))
"""
WORK = "for n in $(seq 300); do cat f0/* >/dev/null; echo $n >f1/out$n; python3 -c 1; done"


def main() -> None:
    home = Path(tempfile.mkdtemp(prefix="bench-forks-", dir=os.environ.get("TMPDIR", "/var/tmp")))
    try:
        for count in (1_000, 100_000, *((1_000_000,) if "--large" in sys.argv else ())):
            measure_making(home / str(count), count)
        for count in (10, 10_000):
            measure_merging(home / f"merge-{count}", count)
        measure_overhead(home / "overhead")
        measure_build(home / "build")
        measure_tools(home / "tools")
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


def measure_build(home: Path) -> None:
    """A build with make and gcc, from clean, in turns, by processor time: others on the machine change that less."""
    root = home / "root"
    root.mkdir(parents=True)
    names = [f"part{n}" for n in range(40)]
    for name in names:
        functions = "\n".join(f'int {name}_{n}(int x) {{ return printf("%d", x + {n}); }}' for n in range(60))
        (root / f"{name}.c").write_text(f"#include <stdio.h>\n#include <stdlib.h>\n{functions}\n")
    (root / "Makefile").write_text(f"all: {' '.join(f'{name}.o' for name in names)}\n\tar rcs all.a $^\n")
    with Toolbox.open(root, state=home / "state") as box:
        script = [sys.executable, "-c", BUILD, str(home / "used")]
        box.fork("try").run(script)
        bare, inside = list[float](), list[float]()
        for _ in range(5):
            subprocess.run(script, cwd=root, check=True)
            bare.append(float((home / "used").read_text()))
            box.fork("try").run(script)
            inside.append(float((home / "used").read_text()))
        ratio = statistics.median(inside) / statistics.median(bare)
        print(f"a build of 40 files with make and gcc: {ratio:.2f} times the processor time")


def measure_tools(home: Path) -> None:
    make_files(home / "root", 1_000)
    with Toolbox.open(home / "root", state=home / "state") as box, box.fork("try") as fork:

        def call(n: int) -> None:
            assert fork.call("bash", {"command": f"echo {n} >f0/0"}).ok

        first, command = median_ms(1, call), median_ms(11, call)
        read = median_ms(11, lambda _: fork.call("read_file", {"path": "f1/1"}))
        bare = median_ms(11, lambda n: box.call("bash", {"command": f"echo {n} >f0/0"}))
        print(f"tools: first call {first:.0f} ms, command {command:.0f} ms (outside {bare:.0f} ms), read {read:.1f} ms")


def measure_space(home: Path) -> None:
    make_files(home / "root", 10_000, "x" * 100_000)
    with Toolbox.open(home / "root", state=home / "state") as box:
        before = used(home)
        for n in range(50):
            box.fork(f"n{n}").run(["sh", "-c", "echo 1 >f0/0"])
        size = (used(home) - before) / 1e6
        print(f"50 forks of {before / 1e6:,.0f} MB, one file changed in each: {size:.1f} MB")
        running = [path for path in Path("/proc").glob("[0-9]*/cmdline") if str(home).encode() in read(path)]
        print(f"processes for 50 idle forks: {len(running)}")


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it has ended
        return b""


def used(folder: Path) -> int:
    return int(
        subprocess.run(["du", "-s", "-B1", folder], check=True, capture_output=True, text=True).stdout.split()[0]
    )


if __name__ == "__main__":
    main()
