"""The corpus on disk: real edits, and the cases made of them.

Everything follows from the packages and the seed, so that two machines that fetch the same packages run the
same cases. A case names its file and how it was changed; the files are stored next to it.
"""

import gzip
import hashlib
import json
import os
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.edits.doubles import DOUBLE
from bench.edits.material import Before, Case, Edit, Maker
from bench.edits.negatives import NEGATIVE
from bench.edits.positives import POSITIVE
from bench.edits.shapes import RECORDED_REFUSALS, RECORDED_SHAPES
from handhold.core.text.encoding import Text
from handhold.core.tools.edit import make_syntax_judge
from handhold.factory import load_syntax_checker

CLASSES: dict[str, Maker] = {**POSITIVE, **RECORDED_SHAPES, **DOUBLE, **NEGATIVE, **RECORDED_REFUSALS}
SEED = 7
PER_CLASS = 500  # `exact` uses every edit
EVEN = 200  # cases per class in the even split, round-robin over the languages
OLD_MOST = 6000
PLAINLY_REPLACED = ("exact", "exact_norm_dup", "first_line_lstrip", "bom_file")


def default_folder() -> Path:
    """Outside the repository, which does not store other people's code."""
    if given := os.environ.get("HANDHOLD_BENCH_EDITS"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "handhold" / "bench-edits"


@dataclass(frozen=True)
class Trial:
    """A case, ready to run."""

    id: str
    name: str  # the name of its class
    kind: str  # pos | neg
    even: bool  # part of the even split
    before: str
    old: str
    new: str
    span: tuple[int, int] | None
    accept: tuple[str, ...]
    lang: str
    path: str


# --- rows


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as rows:
        yield from map(json.loads, rows)


def write_rows(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    part = path.with_suffix(".part")
    with gzip.open(part, "wt", encoding="utf-8", newline="\n", compresslevel=6) as out:
        out.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    part.rename(path)


def read_edits(folder: Path) -> list[Edit]:
    files = {row["file"]: row["text"].split("\n") for row in read_rows(folder / "files.jsonl.gz")}
    pool: list[Edit] = []
    pool += (Edit(**row, lines=files[row["file"]], pool=pool) for row in read_rows(folder / "edits.jsonl.gz"))
    return pool


# --- making cases


def cases(
    edits: Sequence[Edit], *, most: int = PER_CLASS, classes: dict[str, Maker] = CLASSES
) -> dict[str, list[Case]]:
    """The cases of each class, without those whose truth is debatable."""
    made: dict[str, list[Case]] = {}
    for name, make in classes.items():
        order = list(edits)
        random.Random(f"{SEED}:{name}:order").shuffle(order)
        found = made[name] = []
        for edit in order:
            if name != "exact" and len(found) >= most:
                break
            seed = hashlib.sha256(f"{SEED}:{name}:{edit.id}".encode()).hexdigest()
            case = make(edit, random.Random(int(seed[:12], 16)))
            if case and len(case.old) < OLD_MOST and not arguable(name, case) and not breaks_syntax(name, case):
                verify(name, case)
                found.append(case)
    return made


def verify(name: str, case: Case) -> None:
    """Whether the truth is consistent: if a plain replacement is right, it gives the accepted text."""
    if case.span is None:
        return
    text, (start, end) = case.before.text(), case.span
    assert 0 <= start < end <= len(text), (name, case)
    if name in PLAINLY_REPLACED:
        assert text.replace(case.old, case.new) == text[:start] + case.accept[0] + text[end:], (name, case)


def breaks_syntax(name: str, case: Case) -> bool:
    """Whether the right result breaks a file that parsed: one of several edits of a commit may do so alone.

    What is quoted exactly is applied nevertheless; else Handhold asks for the exact text.
    """
    if case.span is None or name in PLAINLY_REPLACED:
        return False
    before, (start, end) = case.before.text(), case.span
    find_error = make_syntax_judge(load_syntax_checker, case.edit.path)
    assert find_error
    return find_error(Text(before), Text(before[:start] + case.accept[0] + before[end:])) is not None


def arguable(name: str, case: Case) -> bool:
    if (name.startswith("neg_a") and not name.startswith("neg_ambiguous")) or name == "neg_decoy_equidistant":
        return "".join(case.old.split()) in "".join(case.before.text().split())  # matches except for whitespace
    if name in ("trailing_ws_in_file", "smart_quotes_changed") and case.span:
        block, olds, news = (
            case.before.text()[slice(*case.span)].split("\n"),
            case.old.split("\n"),
            case.new.split("\n"),
        )
        special = [old for line, old in zip(block, olds, strict=True) if line != old]
        return any(olds.count(line) > 1 or news.count(line) > 1 for line in special)  # which of the two is ambiguous
    return False


def even_split(found: Sequence[Case], name: str) -> set[int]:
    """The same number of cases from each language, as far as there are enough, in turn."""
    by_language: dict[str, list[int]] = defaultdict(list)
    for at, case in enumerate(found):
        by_language[case.edit.lang].append(at)
    rng = random.Random(f"{SEED}:{name}")
    for places in by_language.values():
        rng.shuffle(places)
    chosen: set[int] = set()
    while len(chosen) < EVEN and any(by_language.values()):
        for language in sorted(by_language):
            if by_language[language] and len(chosen) < EVEN:
                chosen.add(by_language[language].pop())
    return chosen


def trials(made: dict[str, list[Case]]) -> Iterator[Trial]:
    for name, found in made.items():
        even = even_split(found, name)
        for at, case in enumerate(found):
            yield Trial(
                f"{name}/{case.edit.id}",
                name,
                "neg" if case.span is None else "pos",
                at in even,
                case.before.text(),
                case.old,
                case.new,
                case.span,
                tuple(case.accept),
                case.edit.lang,
                case.edit.path,
            )


# --- cases on disk


def write_cases(folder: Path, made: dict[str, list[Case]]) -> None:
    def rows() -> Iterator[dict[str, Any]]:
        for name, found in made.items():
            even = even_split(found, name)
            for at, case in enumerate(found):
                yield {
                    "id": f"{name}/{case.edit.id}",
                    "class": name,
                    "kind": "neg" if case.span is None else "pos",
                    "lang": case.edit.lang,
                    "repo": case.edit.repo,
                    "path": case.edit.path,
                    "even": at in even,
                    "before": case.before.described(),
                    "old": case.old,
                    "new": case.new,
                    "span": case.span,
                    "accept": case.accept,
                }

    write_rows(folder / "cases.jsonl.gz", rows())


def read_trials(folder: Path, *, every: bool) -> Iterator[Trial]:
    files = {row["file"]: row["text"].split("\n") for row in read_rows(folder / "files.jsonl.gz")}
    for row in read_rows(folder / "cases.jsonl.gz"):
        if every or row["even"]:
            before = Before.made(row["before"], files[row["before"]["file"]]).text()
            span = tuple(row["span"]) if row["span"] else None
            yield Trial(
                row["id"],
                row["class"],
                row["kind"],
                row["even"],
                before,
                row["old"],
                row["new"],
                span,
                tuple(row["accept"]),
                row["lang"],
                row["path"],
            )


def languages(made: dict[str, list[Case]]) -> Counter[str]:
    return Counter(case.edit.lang for found in made.values() for case in found)
