"""A small set to run on every change: made-up edits of Python's own library, generated without a network.

The results are compared with `baseline.json`. On the Python version it was written with, the cases are the same, so
no class may get worse; on another version the library and the figures may differ a little. No version may have a wrong
write.
"""

import hashlib
import json
import platform
import random
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.edits import corpus
from bench.edits.editor import MATCHINGS, editor
from bench.edits.material import Edit, indent_of
from bench.edits.packages import Hunk, made_up, usable, usable_text
from bench.edits.score import Score, scored, table
from handhold.core.choices import Matching

BASELINE = Path(__file__).with_name("baseline.json")
FILES = 70
PER_FILE = 4
PER_CLASS = 24
SLACK = 8.5  # points that a class may lose on another Python: two cases
SEED = 3


def main(*, write: bool, matchings: Sequence[Matching] = MATCHINGS) -> int:
    """The exit status: 0 if nothing got worse."""
    measured = {matching: score(matching) for matching in matchings}
    for matching, each in measured.items():
        print(f"\n== sample, matching={matching}\n\n{table(each)}")
    if write:
        rows = {matching: each.rows() for matching, each in measured.items()}
        BASELINE.write_text(json.dumps({"python": platform.python_version(), **rows}, indent=1) + "\n")
        return 0
    worse = [line for matching, each in measured.items() for line in fallen(each.rows(), matching)]
    print("\n".join(worse) or "\nnothing fell")
    return 1 if worse else 0


def score(matching: Any) -> Score:
    made = corpus.cases(edits(), most=PER_CLASS)
    return scored(corpus.trials({name: found[:PER_CLASS] for name, found in made.items()}), editor(matching))


def fallen(rows: dict[str, dict[str, Any]], matching: str) -> list[str]:
    """What is worse than the baseline, in sentences."""
    known = json.loads(BASELINE.read_text())
    same = known["python"] == platform.python_version()
    worse: list[str] = []
    for name, before in known[matching].items():
        now = rows.get(name)
        if now is None:
            worse.append(f"{matching}: {name} has no cases any more")
        elif now["wrong"]:
            worse.append(f"{matching}: {name} has {now['wrong']} wrong writes")
        elif same and (now["cases"], now["exact"]) < (before["cases"], before["exact"]):
            worse.append(f"{matching}: {name} fell from {before['exact']} to {now['exact']} of {now['cases']}")
        elif before["percent"] and now["percent"] < before["percent"] - (0 if same else SLACK):
            worse.append(f"{matching}: {name} fell from {before['percent']} % to {now['percent']} %")
    return worse


def edits() -> list[Edit]:
    """A few edits of each file; some files are indented with tabs."""
    rng = random.Random(SEED)
    pool: list[Edit] = []
    for n, (path, text) in enumerate(library()):
        lines = [tabbed(line) for line in text.split("\n")] if n % 3 == 2 else text.split("\n")
        key = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
        for start, removed, added in hunks(lines, rng):
            where = (path.name, path.as_posix().rsplit("/", 1)[-1], "python", key)
            pool.append(Edit(f"s{len(pool):04d}", *where, start, removed, added, lines, pool))
    return pool


def library() -> Sequence[tuple[Path, str]]:
    """Medium-sized modules, by name."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    paths = sorted(path for path in folder.glob("*.py") if 6_000 < path.stat().st_size < 60_000)
    texts = ((path, usable_text(path.read_bytes())) for path in paths)
    return [(path, text) for path, text in texts if text][:FILES]


def hunks(lines: list[str], rng: random.Random) -> list[Hunk]:
    found = [hunk for _ in range(PER_FILE) for hunk in made_up(lines, rng)]
    return [hunk for hunk in found if usable(lines, hunk)]


def tabbed(line: str) -> str:
    depth = len(indent_of(line))
    return "\t" * (depth // 4) + " " * (depth % 4) + line[depth:]
