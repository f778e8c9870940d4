"""How well syntax errors are told after an edit, and how long it takes.

python -m bench.syntax [--breaking 400] [--harmless 2000] [--show]

Needs pip, npm and apt-get, and the compilers of the languages: see `bench.syntax_edits`. The cases are kept in the
user's cache. TYPESCRIPT names the folder of the npm package typescript.
"""

import argparse
import pickle
import random
from collections import Counter
from pathlib import Path
from statistics import median
from time import process_time

from bench.edits.corpus import default_folder
from bench.syntax_edits import SEED, SUFFIXES, Cases, RealEdit, choose
from handhold.backends.checks.syntax import LanguageSyntax

SYNTAX = LanguageSyntax()


def load(breaking: int, harmless: int, seed: int = SEED) -> Cases:
    kept = Path(default_folder()).parent / f"bench-syntax-{seed}-{breaking}-{harmless}.pickle"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(pickle.dumps(choose(breaking, harmless, seed)))
    return pickle.loads(kept.read_bytes())


def name_of(edit: RealEdit) -> str:
    return f"a{Path(edit.path).suffix}"


def tell(edit: RealEdit, before: str, after: str) -> tuple[int, float]:
    started = process_time()
    found = SYNTAX.find_new_errors(name_of(edit), before.encode(), after.encode())
    return len(found), (process_time() - started) * 1000


def broken_pairs(cases: Cases, rng: random.Random) -> list[tuple[RealEdit, str, str]]:
    """A file that was broken elsewhere before a harmless edit, and after it."""
    pairs: list[tuple[RealEdit, str, str]] = []
    for edit in cases.harmless:
        before, after = edit.before.split("\n"), edit.after.split("\n")
        shift, last = len(after) - len(before), len(before) - 1
        far = [n for n in range(1, last) if n < edit.start - 2 or n > edit.end - shift + 2]
        if far and before[: edit.start] == after[: edit.start] and before[edit.end - shift :] == after[edit.end :]:
            n = rng.choice(far)
            m = n if n < edit.start else n + shift
            pairs.append((edit, _insert(before, n), _insert(after, m)))
    return pairs


def _insert(lines: list[str], at: int) -> str:
    return "\n".join([*lines[:at], "<<<<<<< HEAD", *lines[at:]])


def measure_large(cases: Cases) -> tuple[list[float], list[float]]:
    """Milliseconds of processor time for the largest files that are checked, real files of each language joined:
    those that are valid so, and those that are not, which are parsed before and after."""
    valid: list[float] = []
    broken: list[float] = []
    for suffix in SUFFIXES:
        limit, parts, size = SYNTAX.get_max_bytes(f"a{suffix}"), list[str](), 0
        chosen = {each.before for each in cases.harmless if each.path.endswith(suffix)}
        for text in sorted(chosen, key=len):
            if size + len(text.encode()) < limit:
                parts.append(text)
                size += len(text.encode()) + 1
        data = "\n".join(parts).encode()
        if size < limit // 2:
            continue
        times = broken if SYNTAX.find_new_errors(f"a{suffix}", None, data) else valid
        for _ in range(10):
            started = process_time()
            SYNTAX.find_new_errors(f"a{suffix}", data, data + b"\n")
            times.append((process_time() - started) * 1000)
    return sorted(valid), sorted(broken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--breaking", type=int, default=400)
    parser.add_argument("--harmless", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=SEED, help="another seed gives other edits of the same packages")
    parser.add_argument("--show", action="store_true", help="print the cases that went wrong")
    chosen = parser.parse_args()
    cases = load(chosen.breaking, chosen.harmless, chosen.seed)
    per: Counter[tuple[str, str]] = Counter()
    kinds: Counter[tuple[str, str]] = Counter()
    times: list[float] = []
    for edit, text, mistake in cases.breaking:
        count, took = tell(edit, edit.before, text)
        times.append(took)
        per[edit.language, "breaking"] += 1
        per[edit.language, "told"] += bool(count)
        kinds[mistake, "all"] += 1
        kinds[mistake, "told"] += bool(count)
        if not count and chosen.show:
            print("missed", edit.language, mistake, edit.path, edit.start)
    pairs = broken_pairs(cases, random.Random(SEED))
    for edit in cases.harmless:
        count, took = tell(edit, edit.before, edit.after)
        times.append(took)
        per[edit.language, "harmless"] += 1
        per[edit.language, "false"] += bool(count)
        if count and chosen.show:
            found = SYNTAX.find_new_errors(name_of(edit), edit.before.encode(), edit.after.encode())
            print("false", edit.language, edit.path, edit.start, found[0])
    for edit, before, after in pairs:
        count, _ = tell(edit, before, after)
        per[edit.language, "broken"] += 1
        per[edit.language, "false in broken"] += bool(count)
        if count and chosen.show:
            print("false in broken", edit.language, edit.path, edit.start)
    columns = ("breaking", "told", "harmless", "false", "broken", "false in broken")
    print(f"{'':<12}" + "".join(f"{each:>16}" for each in columns))
    for language in sorted({language for language, _ in per}):
        print(f"{language:<12}" + "".join(f"{per[language, each]:>16,}" for each in columns))
    totals = {each: sum(per[language, each] for language in {key for key, _ in per}) for each in columns}
    print(f"{'all':<12}" + "".join(f"{totals[each]:>16,}" for each in columns))
    print(
        ", ".join(f"{kind} {kinds[kind, 'told']}/{kinds[kind, 'all']}" for kind, what in sorted(kinds) if what == "all")
    )
    print(
        f"told {100 * totals['told'] / totals['breaking']:.1f} %, false alarms "
        f"{100 * totals['false'] / totals['harmless']:.2f} % in whole files, "
        f"{100 * totals['false in broken'] / totals['broken']:.2f} % in broken ones"
    )
    times.sort()
    print(f"processor time per file: median {median(times):.2f} ms, p99 {times[len(times) * 99 // 100]:.1f} ms")
    for kind, large in zip(("valid", "broken before and after"), measure_large(cases), strict=True):
        print(f"largest files, {kind}: median {median(large):.1f} ms, p99 {large[len(large) * 99 // 100]:.1f} ms")


if __name__ == "__main__":
    main()
