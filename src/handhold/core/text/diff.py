"""Differences between two texts: a unified diff for people, a numbered snippet for the model."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from handhold.core.results import Snippet
from handhold.core.text.encoding import replace_undecodable
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


def compute_hunks(before: str, after: str) -> Iterator[DiffHunk]:
    """The changes with three lines of context. Common edges are cut off first, so edits in large files are cheap."""
    a, b = _split_lines(before), _split_lines(after)
    head = _count_common(a, b)
    tail = _count_common(a[head:][::-1], b[head:][::-1])
    lo = max(0, head - CONTEXT_LINES)
    hi = max(0, tail - CONTEXT_LINES)
    a, b = a[lo : len(a) - hi], b[lo : len(b) - hi]
    for group in _group_opcodes(a, b):
        yield _build_hunk(group, a, b, lo)


def _group_opcodes(a: list[str], b: list[str]) -> Iterator[list[Opcode]]:
    if max(len(a), len(b)) <= MAX_ALIGNED_LINES:
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


def _build_hunk(group: list[Opcode], a: list[str], b: list[str], shift: int) -> DiffHunk:
    lines: list[DiffLine] = []
    for kind, i, j, k, m in group:
        if kind == "equal":
            lines += [DiffLine(" ", text, k + n + shift + 1) for n, text in enumerate(b[k:m])]
            continue
        lines += [DiffLine("-", text, i + n + shift + 1) for n, text in enumerate(a[i:j])]
        lines += [DiffLine("+", text, k + n + shift + 1) for n, text in enumerate(b[k:m])]
    first, last = group[0], group[-1]
    return DiffHunk(first[1] + shift, last[2] - first[1], first[3] + shift, last[4] - first[3], tuple(lines))


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
