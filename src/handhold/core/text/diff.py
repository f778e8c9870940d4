"""Differences between two texts: a unified diff for people, a numbered snippet for the model."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from handhold.core.results import Snippet
from handhold.core.text.encoding import replace_undecodable
from handhold.core.text.kept_spans import Gap, KeptSpan, common_edges, iter_gaps
from handhold.core.text.lines import iter_lines_with_endings
from handhold.core.text.path_escaping import format_path

Opcode = tuple[str, int, int, int, int]
CONTEXT_LINES = 3
MAX_ALIGNED_LINES = 2_000  # with more changed lines on one side, difflib takes too long


@dataclass(frozen=True)
class DiffLine:
    """A line of a diff: ' ', '+' or '-', its text, and its number in the new text (for '-', in the old one)."""

    sign: str
    text: str
    number: int


@dataclass(frozen=True)
class DiffHunk:
    old_start: int
    old_count: int
    new_start: int
    new_count: int
    lines: tuple[DiffLine, ...]


def compute_hunks(before: str, after: str, kept: Sequence[KeptSpan] | None = None) -> Iterator[DiffHunk]:
    """The changes with three lines of context. Only lines around what was not `kept` are compared.

    Without it, everything between the common start and the common end is compared.
    """
    old_line = new_line = old_at = new_at = 0
    for window in _iter_windows(before, after, common_edges(before, after) if kept is None else kept):
        old_line += before.count("\n", old_at, window.before)
        new_line += after.count("\n", new_at, window.after)
        old_at, new_at = window.before, window.after
        a = _split_lines(before[window.before : window.before_end])
        b = _split_lines(after[window.after : window.after_end])
        head = _count_common(a, b)
        tail = _count_common(a[head:][::-1], b[head:][::-1])
        lo = max(0, head - CONTEXT_LINES)
        hi = max(0, tail - CONTEXT_LINES)
        a, b = a[lo : len(a) - hi], b[lo : len(b) - hi]
        for group in _group_opcodes(a, b, head - lo, tail - hi):
            yield _build_hunk(group, a, b, old_line + lo, new_line + lo)


def _iter_windows(before: str, after: str, kept: Sequence[KeptSpan]) -> Iterator[Gap]:
    """The gaps, extended to whole lines and their context. Those that touch are joined."""
    window: Gap | None = None
    for gap in iter_gaps(before, after, kept):
        start = before.rfind("\n", 0, gap.before) + 1
        for _ in range(CONTEXT_LINES):
            start = before.rfind("\n", 0, max(0, start - 1)) + 1
        end = gap.before_end
        are_lines_whole = _starts_line(before, end) and _starts_line(after, gap.after_end)
        for _ in range(CONTEXT_LINES + (not are_lines_whole)):
            end = before.find("\n", end) + 1 or len(before)
        added = Gap(start, end, gap.after + start - gap.before, gap.after_end + end - gap.before_end)
        if window is None:
            window = added
        elif start <= window.before_end:
            window = Gap(window.before, added.before_end, window.after, added.after_end)
        else:
            yield window
            window = added
    if window:
        yield window


def _starts_line(text: str, at: int) -> bool:
    return not at or text[at - 1] == "\n"


def _group_opcodes(a: list[str], b: list[str], head: int, tail: int) -> Iterator[list[Opcode]]:
    """Align the lines between the first `head` and the last `tail` ones, which are equal."""
    old, new = len(a) - head - tail, len(b) - head - tail
    if not old or not new or old == new == 1:
        kind = "insert" if not old else "delete" if not new else "replace"
        parts = (
            ("equal", 0, head, 0, head),
            (kind, head, head + old, head, head + new),
            ("equal", head + old, len(a), head + new, len(b)),
        )
        yield [part for part in parts if part[2] > part[1] or part[4] > part[3]]
    elif max(len(a), len(b)) <= MAX_ALIGNED_LINES:
        from difflib import SequenceMatcher

        yield from SequenceMatcher(None, a, b).get_grouped_opcodes(CONTEXT_LINES)
    elif len(a) == len(b):
        yield from _group_line_by_line(a, b)
    else:
        yield [("replace", 0, len(a), 0, len(b))]


def _group_line_by_line(a: list[str], b: list[str]) -> Iterator[list[Opcode]]:
    """Group lines that were replaced one for one, for example when a name was replaced everywhere."""
    group: list[Opcode] = []
    runs = [(same, [*run]) for same, run in groupby(range(len(a)), lambda n: a[n] == b[n])]
    for n, (same, run) in enumerate(runs):
        first, end = run[0], run[-1] + 1
        if not same:
            group.append(("replace", first, end, first, end))
            continue
        if n and end - first > 2 * CONTEXT_LINES and n < len(runs) - 1:
            group.append(("equal", first, first + CONTEXT_LINES, first, first + CONTEXT_LINES))
            yield group
            group = []
        start = max(first, end - CONTEXT_LINES) if not group else first
        stop = min(end, first + CONTEXT_LINES) if n == len(runs) - 1 else end
        group.append(("equal", start, stop, start, stop))
    yield group


def _build_hunk(group: list[Opcode], a: list[str], b: list[str], old_line: int, new_line: int) -> DiffHunk:
    """A hunk of texts that start at these lines."""
    lines: list[DiffLine] = []
    for kind, i, j, k, m in group:
        if kind == "equal":
            lines += [DiffLine(" ", text, k + n + new_line + 1) for n, text in enumerate(b[k:m])]
            continue
        lines += [DiffLine("-", text, i + n + old_line + 1) for n, text in enumerate(a[i:j])]
        lines += [DiffLine("+", text, k + n + new_line + 1) for n, text in enumerate(b[k:m])]
    first, last = group[0], group[-1]
    return DiffHunk(first[1] + old_line, last[2] - first[1], first[3] + new_line, last[4] - first[3], tuple(lines))


def unified_diff(
    path: str, before: str | None, after: str | None, known_hunks: Iterable[DiffHunk] | None = None
) -> str:
    """Format as `difflib.unified_diff` does; None is a missing file. `known_hunks` avoids computing them again."""
    changed_hunks = compute_hunks(before or "", after or "") if known_hunks is None else known_hunks
    body = [line for hunk in changed_hunks for line in _format_hunk(hunk)]
    if not body and (before is None) == (after is None):
        return ""
    name = format_path(path).lstrip("/")
    source = "/dev/null" if before is None else f"a/{name}"
    target = "/dev/null" if after is None else f"b/{name}"
    return "".join([f"--- {source}\n", f"+++ {target}\n", *body])


def _format_hunk(hunk: DiffHunk) -> Iterator[str]:
    yield f"@@ -{_format_range(hunk.old_start, hunk.old_count)} +{_format_range(hunk.new_start, hunk.new_count)} @@\n"
    for line in hunk.lines:
        text = replace_undecodable(line.text)
        yield f"{line.sign}{text}" if text.endswith("\n") else f"{line.sign}{text}\n\\ No newline at end of file\n"


def _format_range(start: int, count: int) -> str:
    if count == 1:
        return f"{start + 1}"
    return f"{start + 1 if count else start},{count}"


def build_snippet(diff_hunks: Iterable[DiffHunk]) -> Snippet:
    """The new text around a change: context and added lines, with numbers."""
    return Snippet(
        tuple(
            (row.number, replace_undecodable(row.text.rstrip("\n").removesuffix("\r")))
            for hunk in diff_hunks
            for row in hunk.lines
            if row.sign != "-"
        )
    )


def truncate_diff(diff: str, *, max_lines: int = 60, max_chars: int = 4000) -> tuple[str, bool]:
    """The start of a diff, and whether it is complete."""
    head = "\n".join(diff.split("\n")[: max_lines + 1])[:max_chars]
    if len(head) >= len(diff):
        return diff, True
    return head[: head.rfind("\n") + 1], False


def _split_lines(text: str) -> list[str]:
    return [line + ending for line, ending in iter_lines_with_endings(text) if line or ending]


def _count_common(a: list[str], b: list[str]) -> int:
    """The number of leading lines that two lists share."""
    count = 0
    for mine, yours in zip(a, b, strict=False):
        if mine != yours:
            break
        count += 1
    return count
