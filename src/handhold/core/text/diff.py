"""Differences between two texts: a unified diff for people, a numbered snippet for the model."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from handhold.core.results import Snippet
from handhold.core.text.encoding import shown
from handhold.core.text.lines import pieces
from handhold.core.text.names import spelled

Opcode = tuple[str, int, int, int, int]
CONTEXT = 3
ALIGN_MOST = 2_000  # changed lines on one side beyond which difflib takes too long to align them


@dataclass(frozen=True)
class Row:
    """A line of a diff: ' ', '+' or '-', its text, its number in the new text (in the old one for '-')."""

    sign: str
    text: str
    number: int


@dataclass(frozen=True)
class Hunk:
    old_start: int
    old_count: int
    new_start: int
    new_count: int
    rows: tuple[Row, ...]


def hunks(before: str, after: str) -> Iterator[Hunk]:
    """The changes with three lines of context. The common edges are cut off first: an edit in a large file is cheap."""
    a, b = _lines(before), _lines(after)
    head = _common(a, b)
    tail = _common(a[head:][::-1], b[head:][::-1])
    lo = max(0, head - CONTEXT)
    hi = max(0, tail - CONTEXT)
    a, b = a[lo : len(a) - hi], b[lo : len(b) - hi]
    for group in _groups(a, b):
        yield _hunk(group, a, b, lo)


def _groups(a: list[str], b: list[str]) -> Iterator[list[Opcode]]:
    if max(len(a), len(b)) <= ALIGN_MOST:
        from difflib import SequenceMatcher

        yield from SequenceMatcher(None, a, b).get_grouped_opcodes(CONTEXT)
    elif len(a) == len(b):
        yield from _line_by_line(a, b)
    else:
        yield [("replace", 0, len(a), 0, len(b))]


def _line_by_line(a: list[str], b: list[str]) -> Iterator[list[Opcode]]:
    """Lines that were replaced one for one, as by replacing a name everywhere."""
    group: list[Opcode] = []
    runs = [(same, [*run]) for same, run in groupby(range(len(a)), lambda n: a[n] == b[n])]
    for n, (same, run) in enumerate(runs):
        first, end = run[0], run[-1] + 1
        if not same:
            group.append(("replace", first, end, first, end))
            continue
        if n and end - first > 2 * CONTEXT and n < len(runs) - 1:
            group.append(("equal", first, first + CONTEXT, first, first + CONTEXT))
            yield group
            group = []
        start = max(first, end - CONTEXT) if not group else first
        stop = min(end, first + CONTEXT) if n == len(runs) - 1 else end
        group.append(("equal", start, stop, start, stop))
    yield group


def _hunk(group: list[Opcode], a: list[str], b: list[str], shift: int) -> Hunk:
    rows: list[Row] = []
    for kind, i, j, k, m in group:
        if kind == "equal":
            rows += [Row(" ", text, k + n + shift + 1) for n, text in enumerate(b[k:m])]
            continue
        rows += [Row("-", text, i + n + shift + 1) for n, text in enumerate(a[i:j])]
        rows += [Row("+", text, k + n + shift + 1) for n, text in enumerate(b[k:m])]
    first, last = group[0], group[-1]
    return Hunk(first[1] + shift, last[2] - first[1], first[3] + shift, last[4] - first[3], tuple(rows))


def unified_diff(path: str, before: str | None, after: str | None, found: Iterable[Hunk] | None = None) -> str:
    """As `difflib.unified_diff` writes it; None is a file that is not there. `found` are its hunks, if at hand."""
    changed = hunks(before or "", after or "") if found is None else found
    body = [line for hunk in changed for line in _written(hunk)]
    if not body and (before is None) == (after is None):
        return ""
    name = spelled(path).lstrip("/")
    source = "/dev/null" if before is None else f"a/{name}"
    target = "/dev/null" if after is None else f"b/{name}"
    return "".join([f"--- {source}\n", f"+++ {target}\n", *body])


def _written(hunk: Hunk) -> Iterator[str]:
    yield f"@@ -{_range(hunk.old_start, hunk.old_count)} +{_range(hunk.new_start, hunk.new_count)} @@\n"
    for row in hunk.rows:
        text = shown(row.text)
        yield f"{row.sign}{text}" if text.endswith("\n") else f"{row.sign}{text}\n\\ No newline at end of file\n"


def _range(start: int, count: int) -> str:
    if count == 1:
        return f"{start + 1}"
    return f"{start + 1 if count else start},{count}"


def snippet(found: Iterable[Hunk]) -> Snippet:
    """What the new text shows of a change: its context and its added lines, by number."""
    return Snippet(
        tuple(
            (row.number, shown(row.text.rstrip("\n").removesuffix("\r")))
            for hunk in found
            for row in hunk.rows
            if row.sign != "-"
        )
    )


def bounded(diff: str, *, lines: int = 60, chars: int = 4000) -> tuple[str, bool]:
    """The start of a diff, and whether that is all of it."""
    head = "\n".join(diff.split("\n")[: lines + 1])[:chars]
    if len(head) >= len(diff):
        return diff, True
    return head[: head.rfind("\n") + 1], False


def _lines(text: str) -> list[str]:
    return [line + ending for line, ending in pieces(text) if line or ending]


def _common(a: list[str], b: list[str]) -> int:
    """How many lines two lists share at their start."""
    count = 0
    for mine, yours in zip(a, b, strict=False):
        if mine != yours:
            break
        count += 1
    return count
