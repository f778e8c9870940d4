"""How often each encoding detector is right and wrong, and how long it takes.

    python -m bench.encodings [--table] [--rounds 3]
    python -m bench.encodings --count FOLDER     count pairs of letters in FOLDER/<language>.txt, most common first
    python -m bench.encodings --held-out FOLDER  use its packages; `just bench-encodings --held-out` fetches them

The texts are ours: ten kinds in each of 22 languages, in 25 encodings. A detector is right where its answer gives the
same text as the true encoding. `unknown` means that it gave no answer, which never damages a file. Other detectors are
measured if they are installed: charset-normalizer, chardet, faust-cchardet. On held-out texts they may refuse as well:
below a confidence that is chosen on other texts, and if their answer does not encode to the same bytes.
"""

import argparse
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from bench import _held_out
from handhold.core.text.encoding import Text
from tests.core.text.languages import cuts, samples, stored, texts

SIZES = (20, 200, 2_000, 20_000)
Detector = Callable[[bytes], str | None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true", help="print what our detector reports for each encoding")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--count", type=Path, metavar="FOLDER")
    parser.add_argument("--held-out", type=Path, metavar="FOLDER")
    given = parser.parse_args()
    if given.held_out:
        _held_out.report(given.held_out)
        return
    if given.count:
        count(given.count)
        return
    for name, detector in detectors().items():
        report(name, detector, given.rounds)
    if given.table:
        table()


def detectors() -> dict[str, Detector]:
    """Our detector, and the others that are installed."""
    found: dict[str, Detector] = {"handhold": ours}
    if find_spec("charset_normalizer"):
        normalizer: Any = import_module("charset_normalizer")

        def best(data: bytes) -> str | None:
            match = normalizer.from_bytes(data).best()
            return match.encoding if match else None

        found["charset_normalizer"] = best
    for module in ("chardet", "cchardet"):
        if find_spec(module):
            other: Any = import_module(module)
            found[module] = lambda data, other=other: other.detect(data)["encoding"]
    return found


def ours(data: bytes) -> str | None:
    coding = Text.decode(data).encoding
    return None if coding.is_unknown else coding.name


def judged(data: bytes, encoding: str, answer: str | None) -> str:
    if answer is None:
        return "unknown"
    try:
        return "right" if data.decode(answer) == data.decode(encoding) else "wrong"
    except (UnicodeError, LookupError):
        return "wrong"


def report(name: str, detector: Detector, rounds: int) -> None:
    print(f"\n{name}: {imported(name):.0f} ms to import, {speed(detector, rounds):.0f} ms for 1 MB of Russian")
    print(f"  {'':<10} {'right':>7} {'unknown':>8} {'wrong':>6}")
    show("texts", Counter(judged(data, encoding, detector(data)) for encoding, _, _, data in samples()))
    for size in SIZES:
        show(f"{size:,} B", Counter(judged(data, encoding, detector(data)) for encoding, _, data in cuts(size)))


def show(label: str, seen: Counter[str]) -> None:
    share = {verdict: 100 * seen[verdict] / seen.total() for verdict in ("right", "unknown", "wrong")}
    print(f"  {label:<10} {share['right']:>6.1f}% {share['unknown']:>7.1f}% {share['wrong']:>5.1f}%  of {seen.total()}")


def speed(detector: Detector, rounds: int) -> float:
    data = stored("".join(texts("ru").values()), "cp1251")
    data *= 1_000_000 // len(data)
    times: list[float] = []
    for _ in range(rounds):
        began = perf_counter()
        detector(data)
        times.append(1000 * (perf_counter() - began))
    return median(times)


def imported(name: str) -> float:
    before, module = ("handhold", "handhold.core.text.encoding_detection") if name == "handhold" else ("sys", name)
    code = f"import {before}, time; a = time.perf_counter(); import {module}; print(1000 * (time.perf_counter() - a))"
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout)


def table() -> None:
    """For each encoding, what it was detected as; `=` is the same text under another name."""
    taken: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for encoding, _, _, data in samples():
        answer = ours(data)
        same = judged(data, encoding, answer) == "right" and answer != encoding
        taken[encoding][("=" if same else "") + (answer or "unknown")] += 1
    print("\nwhat handhold takes ten texts a language for")
    for encoding, answers in taken.items():
        print(f"  {encoding:<12} " + "  ".join(f"{answer} {n}" for answer, n in answers.most_common()))


def count(folder: Path) -> None:
    """The data for `letters.LETTER_PAIRS`: pairs with a non-ASCII letter, inside words and at their ends."""
    for path in sorted(folder.glob("*.txt")):
        body = "".join(char.lower() if char.isalpha() else "." for char in f".{path.read_text(encoding='utf-8')}.")
        pairs = Counter(first + second for first, second in pairwise(body) if not (first + second).isascii())
        print(path.stem, " ".join(f"{pair}{n}" for pair, n in pairs.most_common(600)))


if __name__ == "__main__":
    main()
