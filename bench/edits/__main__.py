"""How many edits land, and how many land wrongly, on real edits quoted the way language models err.

    python -m bench.edits                  the development set, the even split
    python -m bench.edits --all            all of its cases
    python -m bench.edits --set third      packages that were not used for tuning
    python -m bench.edits --sample         a small set made of Python's own library, compared with the baseline

Packages are fetched by name into a folder outside the repository (HANDHOLD_BENCH_EDITS, or the user's cache).
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from bench.edits import corpus, packages, sample
from bench.edits.editor import ALL_MATCHINGS, MATCHINGS, editor
from bench.edits.score import Score, scored, table

RESULTS = Path(__file__).with_name("results.json")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--set", default="dev", choices=list(packages.SETS))
    options.add_argument("--all", action="store_true", help="every case, not only the even split")
    options.add_argument("--folder", type=Path, default=corpus.default_folder(), help="where the corpus is kept")
    options.add_argument("--matching", choices=ALL_MATCHINGS, action="append", help="default: safe and bold")
    options.add_argument("--only", help="only classes whose name starts with this; nothing is recorded")
    options.add_argument("--failed", type=Path, help="write the ids of cases that were not exact here")
    options.add_argument("--sample", action="store_true", help="the small set, compared with the baseline")
    options.add_argument("--write", action="store_true", help="with --sample: write a new baseline")
    given = options.parse_args()
    if given.sample:
        return sample.main(write=given.write)
    folder = given.folder / given.set
    build(folder, given.set)
    failed: dict[str, Any] = {}
    for matching in given.matching or MATCHINGS:
        trials = corpus.read_trials(folder, every=given.all)
        score = scored((each for each in trials if each.name.startswith(given.only or "")), editor(matching))
        print(f"\n== {given.set} set, matching={matching}\n")
        print(table(score))
        print("  ".join(f"{name} {value:.2f}" for name, value in score.timings().items()))
        failed[matching] = score.failed
        if not given.only:
            record(given.set, matching, score, every=given.all)
    if given.failed:
        given.failed.write_text(json.dumps(failed, indent=1))
    return 0


def build(folder: Path, name: str) -> None:
    if not (folder / "edits.jsonl.gz").exists():
        print(f"fetching the packages of the {name} set into {folder}", file=sys.stderr)
        packages.collect(name, folder)
    if not (folder / "cases.jsonl.gz").exists():
        print("making cases", file=sys.stderr)
        corpus.write_cases(folder, corpus.cases(corpus.read_edits(folder)))


def record(name: str, matching: str, score: Score, *, every: bool) -> None:
    """Add to results.json, next to the figures of other sets."""
    known: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    split = "all" if every else "even"
    known.setdefault(name, {}).setdefault(split, {})[matching] = {"totals": score.totals(), "classes": score.rows()}
    RESULTS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    sys.exit(main())
