"""A diff as rows of a page: groups of removed and added lines with context, highlighted, a bounded number at a time."""

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise

from markupsafe import Markup, escape

from handhold.core.change_diff import is_omission
from handhold.core.text.diff import DiffHunk, DiffLine
from handhold.review.display import MAX_LINE_CHARS, has_hidden, show
from handhold.review.highlight import Span, highlight_lines

PAGE_LINES = 500
GROUP_LINES = 40
MIN_COMMON_SHARE = 0.3  # of two lines, for their difference to be marked
LINE_SIGNS = (" ", "+", "-", "\\")  # of the lines of a hunk
HUNK_HEADER = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


@dataclass(frozen=True)
class DiffRow:
    sign: str  # ' ', '+' or '-'
    number: int  # in the new text; of a removed line, in the old one
    old_number: int  # of a context line in the old text
    code: Markup


@dataclass
class DiffView:
    """Some rows of a diff, in groups that a page lays out side by side or below each other."""

    path: str
    total: int  # lines of the whole diff
    start: int = 0  # the first one shown
    shown: int = 0
    added: int = 0  # of the whole diff; at least, if it is cut
    removed: int = 0
    hidden_chars: int = 0  # of the lines shown
    groups: list[tuple[str, list[DiffRow]]] = field(default_factory=list[tuple[str, list[DiffRow]]])  # kind, rows
    notes: tuple[str, ...] = ()

    @property
    def is_cut(self) -> bool:
        """Whether the diff itself leaves something out."""
        return any(map(is_omission, self.notes))

    @property
    def end(self) -> int:
        return self.start + self.shown

    @property
    def can_split(self) -> bool:
        return bool(self.added and self.removed)

    @property
    def has_one_side(self) -> bool:
        return not (self.added and self.removed) and not any(kind == "context" for kind, _ in self.groups)


@dataclass(frozen=True)
class _Line:
    sign: str
    text: str
    number: int
    old_number: int
    hunk: int


def build_view(
    path: str, hunks: Sequence[DiffHunk], *, start: int = 0, limit: int = PAGE_LINES, notes: Sequence[str] = ()
) -> DiffView:
    lines = [line for n, hunk in enumerate(hunks) for line in _number_lines(hunk, n)]
    if all(line.text.endswith("\r") for line in lines):  # otherwise it is part of what changed
        lines = [replace(line, text=line.text[:-1]) for line in lines]
    start = max(0, min(start, max(0, len(lines) - 1)))
    page = lines[start : start + limit]
    view = DiffView(
        path,
        len(lines),
        start,
        len(page),
        sum(line.sign == "+" for line in lines),
        sum(line.sign == "-" for line in lines),
        sum(has_hidden(line.text) for line in page),
        notes=tuple(notes),
    )
    for number, of_hunk in groupby(page, key=lambda line: line.hunk):
        if number or start:
            view.groups.append(("hunk", []))
        view.groups += _build_groups(path, list(of_hunk))
    return view


def _number_lines(hunk: DiffHunk, number: int) -> Iterator[_Line]:
    old = hunk.old_start
    for line in hunk.lines:
        old += line.sign != "+"
        yield _Line(line.sign, line.text.removesuffix("\n"), line.number, old, number)


def _build_groups(path: str, lines: list[_Line]) -> Iterator[tuple[str, list[DiffRow]]]:
    old = [line for line in lines if line.sign != "+"]
    new = [line for line in lines if line.sign != "-"]
    spans = {id(line): each for line, each in zip(old, _highlight(path, old), strict=True)}
    spans |= {id(line): each for line, each in zip(new, _highlight(path, new), strict=True)}
    for is_context, group in groupby(lines, key=lambda line: line.sign == " "):
        rows = list(group)
        marks = {} if is_context else _mark_words(rows)
        removed, kept = ([row for row in rows if (row.sign == "-") is of_old] for of_old in (True, False))
        # A browser lays out small groups faster than a large one, and none that is off screen.
        for start in range(0, max(len(removed), len(kept)), GROUP_LINES):
            part = [*removed[start : start + GROUP_LINES], *kept[start : start + GROUP_LINES]]
            yield (
                "context" if is_context else "change",
                [
                    DiffRow(
                        row.sign, row.number, row.old_number, render_line(row.text, spans[id(row)], marks.get(id(row)))
                    )
                    for row in part
                ],
            )


def _highlight(path: str, lines: Sequence[_Line]) -> list[list[Span]]:
    return highlight_lines(path, [line.text[:MAX_LINE_CHARS] for line in lines])


def _mark_words(lines: Sequence[_Line]) -> dict[int, tuple[int, int]]:
    """Which part of each changed line is new, where removed and added lines correspond."""
    removed = [line for line in lines if line.sign == "-"]
    added = [line for line in lines if line.sign == "+"]
    found: dict[int, tuple[int, int]] = {}
    for old, new in zip(removed, added, strict=False):
        if len(old.text) > MAX_LINE_CHARS or len(new.text) > MAX_LINE_CHARS:
            continue
        head = _count_common(old.text, new.text)
        tail = _count_common(old.text[head:][::-1], new.text[head:][::-1])
        head, tail = _widen(old.text, new.text, head, tail)
        shared = len((old.text[:head] + old.text[len(old.text) - tail :]).strip())
        if shared < MIN_COMMON_SHARE * max(len(old.text.strip()), len(new.text.strip()), 1):
            continue
        for line in (old, new):
            if head < len(line.text) - tail:
                found[id(line)] = (head, len(line.text) - tail)
    return found


def _widen(one: str, other: str, head: int, tail: int) -> tuple[int, int]:
    """The same common ends, without parts of words."""

    def splits_word(text: str, at: int) -> bool:
        return 0 < at < len(text) and (text[at - 1] + text[at]).replace("_", "a").isalnum()

    while head and (splits_word(one, head) or splits_word(other, head)):
        head -= 1
    while tail and (splits_word(one, len(one) - tail) or splits_word(other, len(other) - tail)):
        tail -= 1
    return head, tail


def _count_common(one: str, other: str) -> int:
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count


def render_line(text: str, spans: Sequence[Span], mark: tuple[int, int] | None = None) -> Markup:
    """A line with its colours and its changed part."""
    over = len(text) - MAX_LINE_CHARS
    text = text[:MAX_LINE_CHARS]
    cuts = {0, len(text), *(end for _, a, b in spans for end in (a, b)), *(mark or ())}
    edges = sorted(cut for cut in cuts if 0 <= cut <= len(text))
    classes = {a: (css, b) for css, a, b in spans}
    pieces: list[Markup] = []
    css, until = "", 0
    for a, b in pairwise(edges):
        if a in classes:
            css, until = classes[a]
        elif a >= until:
            css = ""
        piece = show(text[a:b])
        if css:
            piece = Markup('<span class="{}">{}</span>').format(css, piece)
        if mark and mark[0] <= a < mark[1]:
            piece = Markup("<mark>{}</mark>").format(piece)
        pieces.append(piece)
    if over > 0:
        pieces.append(Markup('<span class="dim"> … {:,} more characters</span>').format(over))
    return Markup("").join(pieces)


def parse_unified(diff: str) -> tuple[list[DiffHunk], list[str]]:
    """The hunks of one file's unified diff, and the lines that are in none.

    Lines are counted by the hunk headers, because a line of a file can look like a header.
    """
    hunks: list[DiffHunk] = []
    notes: list[str] = []
    lines = deque(diff.removesuffix("\n").split("\n") if diff else ())
    while lines:
        line = lines.popleft()
        if header := HUNK_HEADER.match(line):
            hunks.append(_parse_hunk(header, lines))
        elif line and not line.startswith(("--- ", "+++ ", "\\ No newline")):
            notes.append(line)
    return hunks, notes


def _parse_hunk(header: re.Match[str], lines: deque[str]) -> DiffHunk:
    """Takes the lines of the hunk; fewer than its header says, if the diff is cut."""
    old_start, old_count, new_start, new_count = (1 if part is None else int(part) for part in header.groups())
    old_start, new_start = old_start - (old_count > 0), new_start - (new_count > 0)
    old, new = old_start, new_start
    found: list[DiffLine] = []
    while (old < old_start + old_count or new < new_start + new_count) and lines and lines[0].startswith(LINE_SIGNS):
        line = lines.popleft()
        if line.startswith("\\"):
            continue
        sign = line[0]
        old += sign != "+"
        new += sign != "-"
        found.append(DiffLine(sign, line[1:], old if sign == "-" else new))
    return DiffHunk(old_start, old_count, new_start, new_count, tuple(found))


def split_by_file(diff: str) -> tuple[list[tuple[str, str]], list[str]]:
    """A diff over several files, by file, each with its name; and what it says that it leaves out besides them.

    Lines are counted by the hunk headers.
    """
    found: list[tuple[str, str]] = []
    omissions: list[str] = []
    name, piece = "", list[str]()
    old = new = 0  # lines left of the current hunk

    def close() -> None:
        if piece:
            first = piece[0]
            shown = name or (first[1:-1].rpartition(": ")[0] if first.startswith("[") else "")
            text = "\n".join(piece)
            if found and found[-1][0] == shown:  # its mode, then its content
                text = f"{found.pop()[1]}\n{text}"
            found.append((shown, text))

    for line in diff.removesuffix("\n").split("\n") if diff else ():
        if (old > 0 or new > 0) and line.startswith(LINE_SIGNS):
            old -= not line.startswith(("+", "\\"))
            new -= not line.startswith(("-", "\\"))
            piece.append(line)
            continue
        if is_omission(line):
            (piece if " more characters of " in line else omissions).append(line)
            old = new = 0
            continue
        if line.startswith(("--- ", "[")):
            close()
            piece, name = [], ""
        piece.append(line)
        if line.startswith(("--- a/", "+++ b/")):
            name = line[6:]
        elif header := HUNK_HEADER.match(line):
            old, new = (1 if count is None else int(count) for count in header.group(2, 4))
    close()
    return found, omissions


def render_plain(path: str, text: str, *, start: int = 0, limit: int = PAGE_LINES) -> DiffView:
    """A whole file, with line numbers."""
    if text.count("\r\n") == text.count("\n"):
        text = text.replace("\r\n", "\n")
    lines = text.removesuffix("\n").split("\n") if text else []
    hunk = DiffHunk(0, len(lines), 0, len(lines), tuple(DiffLine(" ", line, n + 1) for n, line in enumerate(lines)))
    return build_view(path, [hunk], start=start, limit=limit)


def show_json(text: str) -> Markup:
    """JSON with colours."""
    lines = text.split("\n")
    spans = highlight_lines("a.json", lines)
    return Markup("\n").join(render_line(line, each) for line, each in zip(lines, spans, strict=True)) or escape("")
