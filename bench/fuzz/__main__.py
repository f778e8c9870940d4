"""Fuzz every target for an equal share of the time, and report how many inputs each one got.

A failing input is saved next to the corpus, and its name is printed. After the fix, add it to tests/fuzz_seeds/.
"""

import re
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from pathlib import Path

from bench.fuzz.targets import TARGETS

SEEDS = Path(__file__).parents[2] / "tests/fuzz_seeds"


def main() -> None:
    parser = ArgumentParser(prog="just fuzz", description=__doc__)
    parser.add_argument("minutes", type=float, nargs="?", default=10, help="for all targets together")
    parser.add_argument("--only", choices=TARGETS, help="fuzz only this target")
    parser.add_argument("--corpus", type=Path, help="folder that keeps interesting inputs between runs")
    options = parser.parse_args()
    names = [options.only] if options.only else list(TARGETS)
    corpus = options.corpus or Path(tempfile.mkdtemp(prefix="handhold-fuzz-"))
    seconds = max(1, round(options.minutes * 60 / len(names)))
    print(f"{'target':10} {'executions':>11} {'a second':>9} {'seconds':>8} {'corpus':>7}  found")
    broken = [name for name in names if not fuzzed(name, corpus / name, seconds)]
    print(f"corpus: {corpus}")
    sys.exit(1 if broken else 0)


def fuzzed(name: str, corpus: Path, seconds: int) -> bool:
    """Whether nothing was found."""
    corpus.mkdir(parents=True, exist_ok=True)
    seeds = SEEDS / name
    command = [
        *(sys.executable, "-m", "bench.fuzz.one", name, str(corpus), *([str(seeds)] if seeds.is_dir() else [])),
        *(f"-max_total_time={seconds}", "-print_final_stats=1", "-timeout=10", "-rss_limit_mb=2048", "-max_len=4096"),
        f"-artifact_prefix={corpus}-",
    ]
    ran = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    stats = {found[1]: int(found[2]) for found in re.finditer(r"stat::(\w+):\s+(\d+)", ran.stderr)}
    done = stats.get("number_of_executed_units", 0)
    bad = re.search(r"Test unit written to (\S+)", ran.stderr)
    kept = sum(1 for _ in corpus.iterdir())
    found = bad[1] if bad else "nothing" if ran.returncode == 0 else f"it ended with {ran.returncode}"
    print(f"{name:10} {done:>11,} {done // seconds:>9,} {seconds:>8} {kept:>7}  {found}", flush=True)
    if ran.returncode:
        print(ran.stderr[-4000:], file=sys.stderr)
    return ran.returncode == 0


if __name__ == "__main__":
    main()
