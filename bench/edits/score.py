"""Scores what an editor did with a case, and adds up the verdicts.

    exact        the result is one of the accepted ones, byte for byte
    loose        the right place; only blanks or typographic characters differ, and Python that parsed still does
    refused      nothing was written
    noop         it claimed success and changed nothing: counts as refused
    collateral   wrong text, but every changed byte is in the true block
    wrong        a write elsewhere, or any write where it had to refuse

A *wrong write* is collateral or wrong.
"""

import ast
import statistics
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from bench.edits.corpus import Trial
from handhold.core.errors import ToolError

Editor = Callable[[str, str, str, str], str]  # (path, before, old, new) → after, or ToolError to refuse

PLAIN = str.maketrans(
    {char: "'" for char in "‘’‚‛"}
    | {char: '"' for char in "“”„‟"}
    | {char: "-" for char in "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"}
    | {"\ufeff": ""}
)


def judge(trial: Trial, after: str | None) -> str:
    if after is None:
        return "refused"
    if after == trial.before:
        return "noop"
    if trial.span is None:
        return "wrong"
    start, end = trial.span
    head, tail = trial.before[:start], trial.before[end:]
    accepted = [head + text + tail for text in trial.accept]
    if after in accepted:
        return "exact"
    if bare(after) in map(bare, accepted):
        broken = trial.lang == "python" and parses(trial.before) and not parses(after)
        return "collateral" if broken else "loose"
    lo, hi = changed_range(trial.before, after)
    return "collateral" if lo >= start - 1 and hi <= end + 2 else "wrong"


def parses(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text.removeprefix("\ufeff"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def bare(text: str) -> str:
    """Without blanks and typography."""
    return "".join(text.translate(PLAIN).split())


def changed_range(before: str, after: str) -> tuple[int, int]:
    limit = min(len(before), len(after))
    head = tail = 0
    while head < limit and before[head] == after[head]:
        head += 1
    while tail < limit - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    return head, len(before) - tail


@dataclass
class Score:
    kinds: dict[str, str] = field(default_factory=dict[str, str])
    verdicts: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    failed: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])  # (id, verdict), except exact ones
    milliseconds: list[float] = field(default_factory=list[float])

    def add(self, trial: Trial, verdict: str) -> None:
        self.kinds[trial.name] = trial.kind
        self.verdicts[trial.name][verdict] += 1
        if verdict != ("exact" if trial.kind == "pos" else "refused"):
            self.failed.append((trial.id, verdict))

    def rows(self) -> dict[str, dict[str, Any]]:
        """Per class: counts, which can be added up exactly, and the share of exact results."""
        return {
            name: {
                "kind": self.kinds[name],
                "cases": (total := sum(count.values())),
                "exact": count["exact"],
                "loose": count["loose"],
                "refused": count["refused"] + count["noop"],
                "wrong": count["wrong"] + count["collateral"],
                "percent": round(100 * count["exact"] / total, 2) if self.kinds[name] == "pos" else None,
            }
            for name, count in self.verdicts.items()
        }

    def totals(self) -> dict[str, Any]:
        """Percentages are means over classes, so that a class with few cases weighs as much as one with many."""
        rows = self.rows()
        positive = [row for row in rows.values() if row["kind"] == "pos"]
        negative = [row for row in rows.values() if row["kind"] == "neg"]
        return {
            "cases": sum(row["cases"] for row in rows.values()),
            "negatives": sum(row["cases"] for row in negative),
            "exact": _mean([row["exact"] / row["cases"] for row in positive]),
            "loose": _mean([row["loose"] / row["cases"] for row in positive]),
            "wrong_on_positives": sum(row["wrong"] for row in positive),
            "wrong_on_negatives": sum(row["wrong"] for row in negative),
        }

    def timings(self) -> dict[str, float]:
        return {
            "median_ms": statistics.median(self.milliseconds),
            "p99_ms": statistics.quantiles(self.milliseconds, n=100)[98],
            "most_ms": max(self.milliseconds),
        }


def _mean(shares: list[float]) -> float:
    """In percent."""
    return round(100 * statistics.fmean(shares), 2) if shares else 0.0


KINDS: dict[str, tuple[tuple[int, int, int], tuple[str, ...]]] = {
    "a whole block shifted": (
        (49, 20, 8),
        (
            "dedent_all",
            "dedent_old_only",
            "indent_shift_more",
            "indent_shift_less",
            "one_column_more",
            "wrapped_shallow",
        ),
    ),
    "some lines shifted": ((6, 13, 1), ("first_line_lstrip", "indent_one_line_off", "half_indent")),
    "blanks at line ends": ((0, 12, 0), ("trailing_ws_in_file", "trailing_ws_in_old")),
    "already there": ((7, 9, 33), ("neg_already_applied", "neg_wrap_applied")),
    "nothing like it": ((9, 15, 34), ("neg_absent_other_file", "neg_absent_sibling")),
    "one line differs": ((4, 10, 3), ("typo_context_old", "typo_context_both", "stale_context")),
}
"""Why recorded quotes do not match, in percent for each family, and the classes that are like it.

Several lines that differ and lines left out without a mark (22, 16 and 20 %) have none.
"""
FAMILIES = ("Claude 4 to 5", "GPT-5", "GPT-4o and Claude 3 Opus")


def weigh(score: Score) -> dict[str, tuple[float, int]]:
    """For each family, the percentage of right outcomes, with kinds as frequent as recorded, and what they cover."""
    rows = score.rows()
    weighed: dict[str, tuple[float, int]] = {}
    for at, family in enumerate(FAMILIES):
        total = right = 0.0
        for shares, classes in KINDS.values():
            known = [rows[name] for name in classes if name in rows]
            if known:
                good = [row["exact" if row["kind"] == "pos" else "refused"] / row["cases"] for row in known]
                right += shares[at] * statistics.fmean(good)
                total += shares[at]
        if total:
            weighed[family] = round(100 * right / total, 2), round(total)
    return weighed


def scored(trials: Iterable[Trial], editor: Editor) -> Score:
    score = Score()
    for trial in trials:
        started = time.perf_counter()
        try:
            after = editor(trial.path, trial.before, trial.old, trial.new)
        except ToolError:
            after = None
        score.milliseconds.append((time.perf_counter() - started) * 1000)
        score.add(trial, judge(trial, after))
    return score


def table(score: Score) -> str:
    lines = [f"{'class':28}{'cases':>7}{'exact %':>9}{'loose':>7}{'refused':>9}{'wrong':>7}"]
    for name, row in score.rows().items():
        percent = "" if row["percent"] is None else f"{row['percent']:.1f}"
        lines.append(f"{name:28}{row['cases']:>7}{percent:>9}{row['loose']:>7}{row['refused']:>9}{row['wrong']:>7}")
    totals = score.totals()
    lines.append("")
    lines.append(
        f"{totals['cases']} cases: exact {totals['exact']} %, loose {totals['loose']} %, "
        f"wrong writes: {totals['wrong_on_positives']} on positives, "
        f"{totals['wrong_on_negatives']} on {totals['negatives']} negatives"
    )
    lines += [
        f"weighted by what was recorded of {family}: {percent} % right ({covered} % of its misses)"
        for family, (percent, covered) in weigh(score).items()
    ]
    return "\n".join(lines)
