"""How many edits that models really sent are applied as they were meant.

    python -m bench.recorded                    the sample in bench/recorded_sample
    python -m bench.recorded FILE [FILE…]       any corpus of this format, of edits or of patches, .jsonl or .jsonl.xz

A corpus has one JSON object a line: the file as it was (`before`), the quote (`old`), its replacement (`new`), which
results are known to be right (`accepted`) or wrong (`never`), and whether the edit was made before (`already`); a
patch has `patch`, `files` and `expected`. Known results are [first, end, text]: lines of `before` that are replaced.

    right       the known result; of an exact quote, character for character, else apart from space at line ends
    refused     nothing was written
    unknown     written, and nobody judged the result
    wrong       known to be wrong, or not the known result
    broken      Python that parsed and no longer does
    repeated    an edit that had been made before was made again
"""

import argparse
import ast
import json
import lzma
import re
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from bench.edits.editor import editor
from bench.edits.score import Editor
from handhold import Toolbox
from handhold.core.errors import ToolError

SAMPLE = Path(__file__).parent / "recorded_sample" / "sample.jsonl.xz"
RESULTS = Path(__file__).with_name("recorded.json")
FAMILIES = {"claude": "Claude", "gpt": "GPT", "gemini": "Gemini"}
VERDICTS = ("right", "refused", "unknown", "wrong", "broken", "repeated")
FAILURES = ("wrong", "broken", "repeated")
Verdict = Literal["right", "refused", "unknown", "wrong", "broken", "repeated"]
Case = Mapping[str, Any]
Scores = dict[str, Counter[str]]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("files", nargs="*", type=Path, default=[SAMPLE])
    options.add_argument(
        "--write", action="store_true", help="keep the figures in recorded.json, under the file's name"
    )
    options.add_argument("--matching", default="safe", choices=("exact", "safe", "bold"))
    given = options.parse_args()
    failed: list[str] = []
    for path in given.files:
        by_family, by_kind, failures = score(path, editor(given.matching))
        print(f"\n== {path.name}, matching={given.matching}\n")
        print(format_table("family", by_family), format_table("kind", by_kind), *failures, sep="\n")
        failed += failures
        if given.write:
            known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
            known[path.name] = {"families": by_family, "kinds": by_kind}
            RESULTS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    return 1 if failed else 0


def score(path: Path, apply: Editor) -> tuple[Scores, Scores, list[str]]:
    """Verdicts by model family and by kind of miss, and what failed."""
    by_family: Scores = defaultdict(Counter)
    by_kind: Scores = defaultdict(Counter)
    failures: list[str] = []
    for case in read_cases(path):
        verdict = judge_patch(case) if "patch" in case else judge_edit(case, apply)
        kind = case.get("kind", "patch")
        group = kind if kind in ("exact", "patch") else "misses"
        family = FAMILIES.get(case.get("model") or "", "several models")
        for key in (f"{family}, {group}", f"all, {group}"):
            by_family[key][verdict] += 1
        by_kind[kind][verdict] += 1
        if verdict in FAILURES or (kind == "exact" and verdict != "right"):
            failures.append(f"{verdict}: {case['id']} ({family}, {kind})")
    return by_family, by_kind, failures


def read_cases(path: Path) -> Iterator[Case]:
    data = path.read_bytes()
    text = (lzma.decompress(data) if path.suffix == ".xz" else data).decode()
    yield from (json.loads(line) for line in text.split("\n") if line)


# --- verdicts


def judge_edit(case: Case, apply: Editor) -> Verdict:
    before: str = case["before"]
    try:
        after = apply(f"recorded{case['ext']}", before, case["old"], case["new"])
    except ToolError:
        return "refused"
    if case["kind"] == "exact":
        return "right" if with_lf(after) == with_lf(put(before, case["accepted"][0])) else "wrong"
    if after == before:
        return "refused"
    known = {name: {bare(put(before, each)) for each in case[name] or ()} for name in ("accepted", "never")}
    if bare(after) in known["accepted"]:
        return "right"
    if case["already"]:
        return "repeated"
    if case["ext"] == ".py" and parses(before) and not parses(after):
        return "broken"
    return "wrong" if case["accepted"] or bare(after) in known["never"] else "unknown"


def judge_patch(case: Case) -> Verdict:
    files: dict[str, str] = case["files"]
    box = Toolbox.in_memory(files or {"other": ""}, dialect="codex")
    reply = box.call("apply_patch", {"input": case["patch"]})
    if reply.status != "success":
        return "refused"
    if case["expected"] is None:
        return "unknown"
    same = all(read(box, name) == (text or "").rstrip("\n") for name, text in case["expected"].items())
    return "right" if same else "wrong"


def read(box: Toolbox, name: str) -> str:
    try:
        return box.files.read(name).data.decode().rstrip("\n")
    except ToolError:  # there is none
        return ""


def put(before: str, replacement: tuple[int, int, str]) -> str:
    first, end, text = replacement
    lines = re.findall(r"[^\n]*\n|[^\n]+$", before)
    return "".join(lines[:first]) + text + "".join(lines[end:])


def with_lf(text: str) -> str:
    return text.replace("\r\n", "\n")


def bare(text: str) -> str:
    """Without the space at the ends of lines and of the file."""
    return "\n".join(line.rstrip() for line in with_lf(text).split("\n")).rstrip("\n")


def parses(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def format_table(title: str, scores: Scores) -> str:
    width = max(map(len, (*scores, title)))
    rows = [f"{title:{width}}{'all':>7}" + "".join(f"{name:>10}" for name in VERDICTS)]
    for key, counts in sorted(scores.items()):
        rows.append(f"{key:{width}}{counts.total():7}" + "".join(f"{counts[name]:10}" for name in VERDICTS))
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    sys.exit(main())
