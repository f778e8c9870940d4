"""How the cost of a call grows with files, sessions, earlier calls and other processes.

    python -m bench.growth [--rounds 5] [--large] [--save] [curve ...]

Each curve is measured at n, 10 n and 100 n, by turns, each time in a new process; the medians are shown. Fails if one
grows more than it may. `--large` adds sizes that take minutes to prepare, `--save` puts the figures where the picture
is drawn from.
"""

import argparse
import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from bench.growth.curves import CURVES, Curve, Figures

RESULTS = Path(__file__).parents[1] / "results.json"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.growth")
    parser.add_argument("curves", nargs="*", metavar="curve", help=", ".join(CURVES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--save", action="store_true")
    parser.add_argument("--one", metavar="SIZE", type=int, help="measure a single size, in this process")
    options = parser.parse_args()
    if unknown := [name for name in options.curves if name not in CURVES]:
        parser.error(f"no curve is called {unknown[0]}; there are {', '.join(CURVES)}")
    if options.one is not None:
        (name,) = options.curves
        print(json.dumps(CURVES[name].load()(options.one)))
        return 0
    exceeded: list[str] = []
    measured: dict[str, dict[int, Figures]] = {}
    for name in options.curves or CURVES:
        curve = CURVES[name]
        sizes = curve.sizes + (curve.large if options.large else ())
        measured[name] = measure_curve(name, sizes, options.rounds)
        print_curve(name, curve, measured[name])
        exceeded += find_exceeded(name, curve, measured[name])
    if options.save:
        save(measured)
    for each in exceeded:
        print(f"over its limit: {each}")
    return bool(exceeded)


def measure_curve(name: str, sizes: tuple[int, ...], rounds: int) -> dict[int, Figures]:
    """The medians by size. The rounds of all sizes take turns, so that a busy moment meets all of them."""
    found: dict[int, list[Figures]] = {size: [] for size in sizes}
    for _ in range(rounds):
        for size in sizes:
            command = [sys.executable, "-m", "bench.growth", name, "--one", str(size)]
            found[size].append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))
    return {size: {key: median(each[key] for each in all_of) for key in all_of[0]} for size, all_of in found.items()}


def print_curve(name: str, curve: Curve, measured: dict[int, Figures]) -> None:
    print(f"\n{name}: {curve.title}, by {curve.unit}")
    first = next(iter(measured.values()))
    print(f"{'':24}" + "".join(f"{size:>14,}" for size in measured) + "   at most")
    for key in first:
        limit = f"{curve.limits[key]:9g} x" if key in curve.limits else ""
        limit = f"{curve.floors[key]:9g} x at least" if key in curve.floors else limit
        print(f"  {key:22}" + "".join(f"{each[key]:14,.2f}" for each in measured.values()) + limit, flush=True)


def find_exceeded(name: str, curve: Curve, measured: dict[int, Figures]) -> list[str]:
    (_, base), *rest = measured.items()
    ratios = {(key, size): figures[key] / base[key] for size, figures in rest for key in base if base[key]}
    most, least = curve.limits, curve.floors
    return [
        f"{name}, {key}: {ratio:.2f} x at {size:,}, {most[key]:g} x allowed"
        for (key, size), ratio in ratios.items()
        if key in most and ratio > most[key]
    ] + [
        f"{name}, {key}: {ratio:.2f} x at {size:,}, {least[key]:g} x needed"
        for (key, size), ratio in ratios.items()
        if key in least and ratio < least[key]
    ]


def save(measured: dict[str, dict[int, Figures]]) -> None:
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    group = results["groups"]["growth"]
    group["date"] = f"{datetime.now(UTC):%Y-%m-%d}"
    group["rows"] = [row for row in group["rows"] if row["curve"] not in measured]
    group["rows"] += [
        {"curve": name, "what": CURVES[name].title, "by": CURVES[name].unit, "unit": "ms", "sizes": [*sizes]}
        | {key: [round(each[key], 3) for each in sizes.values()] for key in next(iter(sizes.values()))}
        for name, sizes in measured.items()
    ]
    RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
