"""What a page deep in a large file costs.

    python -m bench.pages [--size 1000000000] [--line 1000000] [--width 500]

The raw read covers the bytes before the page. Each figure is measured with and without numpy, in separate processes.
The time to import numpy is not included; without numpy, that is enough to count the lines of about 250 MB.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from time import process_time, sleep
from typing import Any

from bench._memory import peak_kib
from handhold.backends.files.line_pages import BLOCK_BYTES
from handhold.backends.files.workspace import Workspace

ROUNDS = 9  # raw and first in turns; the best of each is used, because the machine is shared
PAGES = ((2000, 2000), (100, 2000))  # lines per page, and their width


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=1_000_000_000)
    parser.add_argument("--line", type=int, default=1_000_000)
    parser.add_argument("--width", type=int, default=500)
    parser.add_argument("--measure", metavar="FILE", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measured(Path(arguments.measure), arguments.line)))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.txt"
        fill(path, arguments.size, arguments.width)
        for numpy in (False, True):
            report(path, arguments.line, numpy=numpy)


def fill(path: Path, size: int, width: int) -> None:
    block = b"".join(b"%-*d\n" % (width - 1 - n % 7, n) for n in range(2000))
    with path.open("wb") as file:
        for _ in range(size // len(block)):
            file.write(block)


def run(path: Path, line: int, *, numpy: bool) -> dict[str, Any]:
    """The figures, measured in a separate process."""
    before = "import numpy" if numpy else "import sys; sys.modules['numpy'] = None"
    code = f"{before}; import runpy; runpy.run_module('bench.pages', run_name='__main__', alter_sys=True)"
    command = [sys.executable, "-c", code, "--measure", str(path), "--line", str(line)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, cwd=Path(__file__).parents[1]).stdout)


def report(path: Path, line: int, *, numpy: bool) -> None:
    found = run(path, line, numpy=numpy)
    raw = found["raw"]
    print(f"line {line:,} of {path.stat().st_size / 1e9:.2f} GB, {'with' if numpy else 'without'} numpy")
    print(f"  raw read of {found['bytes'] / 1e6:,.0f} MB   {raw * 1e3:9.2f} ms")
    print(f"  first page            {found['first'] * 1e3:9.2f} ms   {found['first'] / raw:.2f} x raw")
    for lines, took in found["second"].items():
        print(f"  again, {lines:>4} lines     {took * 1e3:9.3f} ms   ({found['nearby'][lines] * 1e3:.3f} ms nearby)")
    print(f"  peak memory           {found['peak'] / 1024:9.1f} MB, {found['grown'] / 1024:.1f} MB of it by reading")


def measured(path: Path, line: int) -> dict[str, Any]:
    sleep(0.1)  # an index is kept only for files that are no longer changing
    before = peak_kib()
    files = Workspace([path.parent], None)  # pyright: ignore[reportArgumentType]
    end = files.read_page(path.name, line, 1, 80).byte_span[0]
    raws: list[float] = []
    firsts: list[float] = []
    for _ in range(ROUNDS):
        raws.append(timed(lambda: raw_read(path, end)))
        fresh = Workspace([path.parent], None)  # pyright: ignore[reportArgumentType]
        firsts.append(timed(partial(fresh.read_page, path.name, line, *PAGES[0])))
        fresh.close()
    seconds: dict[int, float] = {}
    nearby: dict[int, float] = {}
    for lines, width in PAGES:
        again = partial(files.read_page, path.name, limit=lines, width=width)
        seconds[lines] = median([timed(partial(again, offset=line)) for _ in range(50)][1:])
        nearby[lines] = median(timed(partial(again, offset=line - 1 - n)) for n in range(50))
    files.close()
    return {
        "raw": min(raws),
        "first": min(firsts),
        "second": seconds,
        "nearby": nearby,
        "bytes": end,
        "peak": peak_kib(),
        "grown": peak_kib() - before,
    }


def raw_read(path: Path, end: int) -> None:
    fd = os.open(path, os.O_RDONLY)
    at = 0
    while at < end:
        at += len(os.pread(fd, BLOCK_BYTES, at))
    os.close(fd)


def timed(work: Callable[[], object]) -> float:
    """Processor seconds: the file is in the page cache, so there is nothing else to wait for."""
    began = process_time()
    work()
    return process_time() - began


if __name__ == "__main__":
    main()
