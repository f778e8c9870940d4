"""What it costs to open a file beneath a root.

    python -m bench.boundary [--rounds 200]

Every method opens and closes the same file, four directories deep, in turns. Figures are medians.
"""

import argparse
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter_ns

from handhold.backends.files.openat2 import PathResolver, choose_resolver
from handhold.backends.files.roots import Roots

DEEP = "src/package/module/deeper/file.py"
CALLS = 50  # opens per round, for each way


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    costs = measured(parser.parse_args().rounds)
    print("open and close        µs   over os.open")
    for way, cost in costs.items():
        print(f"{way:<18} {cost:>5.1f}          {cost - costs['os.open']:>5.1f}")


def measured(rounds: int) -> dict[str, float]:
    """Microseconds for each way that this kernel supports."""
    with tempfile.TemporaryDirectory() as top:
        path = Path(top) / DEEP
        path.parent.mkdir(parents=True)
        path.touch()
        roots = Roots.open([(top, True)], {})
        ways: dict[str, Callable[[], None]] = {"os.open": lambda: os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC))}
        for name in ("openat2", "walk"):
            try:
                ways[name] = opening(choose_resolver(name, roots), roots)
            except NotImplementedError:
                continue
        costs: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, way in ways.items():
                began = perf_counter_ns()
                for _ in range(CALLS):
                    way()
                costs[name].append((perf_counter_ns() - began) / CALLS / 1000)
        roots.close()
    return {name: median(each) for name, each in costs.items()}


def opening(resolver: PathResolver, roots: Roots) -> Callable[[], None]:
    """What every read does: split the path, open it, and format it."""

    def once() -> None:
        with resolver.open(roots.parse_path(DEEP), os.O_RDONLY):
            pass

    return once


if __name__ == "__main__":
    main()
