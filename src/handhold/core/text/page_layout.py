"""Turn pieces of text on a page into lines for reading: columns one by one, tables row by row."""

from collections.abc import Iterator, Sequence
from statistics import median
from typing import NamedTuple

GUTTER_POSITIONS = 120  # positions across a page that are tried
MIN_COLUMN_LINE_CHARS = 20  # average of a column's lines; table cells have fewer
MIN_COLUMN_LINES = 3
MAX_COLUMN_DEPTH = 6  # nested columns
MAX_PIECES = 5_000  # with more pieces, columns are not detected
MAX_PAD_SPACES = 120  # spaces in a row


class TextPiece(NamedTuple):
    """Text in a box; y grows downwards."""

    left: float
    top: float
    right: float
    bottom: float
    text: str

    @property
    def height(self) -> float:
        return self.bottom - self.top


PieceRow = list[TextPiece]


def lay_out(pieces: Sequence[TextPiece]) -> str:
    return "\n".join(_format_lines(_group_rows(pieces), MAX_COLUMN_DEPTH if len(pieces) <= MAX_PIECES else 0))


def _group_rows(pieces: Sequence[TextPiece]) -> list[PieceRow]:
    """Group pieces into rows, top to bottom, each left to right."""
    rows: list[PieceRow] = []
    for piece in sorted(pieces, key=lambda each: each.top + each.bottom):
        if rows and _is_same_row(rows[-1][0], piece):
            rows[-1].append(piece)
        else:
            rows.append([piece])
    for row in rows:
        row.sort()
    return rows


def _is_same_row(one: TextPiece, other: TextPiece) -> bool:
    shared = min(one.bottom, other.bottom) - max(one.top, other.top)
    return shared * 2 > min(one.height, other.height)


def _format_lines(rows: list[PieceRow], depth: int) -> Iterator[str]:
    gutter = _find_gutter(rows) if depth else None
    if gutter is None:
        yield from _format_rows(rows)
        return
    first, past, at = gutter
    band = rows[first:past]
    left = [[piece for piece in row if piece.right <= at] for row in band]
    right = [[piece for piece in row if piece.right > at] for row in band]
    for part in (rows[:first], left, right, rows[past:]):
        if part := [row for row in part if row]:
            yield from _format_lines(part, depth - 1)


def _find_gutter(rows: list[PieceRow]) -> tuple[int, int, float] | None:
    """The rows that a gutter runs through, and its position: the gutter with most lines on both sides."""
    start = min((row[0].left for row in rows), default=0.0)
    end = max((piece.right for row in rows for piece in row), default=0.0)
    best: tuple[int, int, int, float] = (0, 0, 0, 0.0)
    for n in range(1, GUTTER_POSITIONS):
        at = start + (end - start) * n / GUTTER_POSITIONS
        for first, past in _find_uncovered_runs(rows, at):
            best = max(best, (_count_column_lines(rows[first:past], at), first, past, at))
    return best[1:] if best[0] else None


def _find_uncovered_runs(rows: list[PieceRow], at: float) -> Iterator[tuple[int, int]]:
    """The runs of rows that no piece covers at this position."""
    first = 0
    for n, row in enumerate(rows):
        if any(piece.left < at < piece.right for piece in row):
            if n - first >= MIN_COLUMN_LINES:
                yield first, n
            first = n + 1
    if len(rows) - first >= MIN_COLUMN_LINES:
        yield first, len(rows)


def _count_column_lines(rows: list[PieceRow], at: float) -> int:
    """How many lines the shorter of the two columns has; 0 if they are not columns."""
    left = [len(piece.text) for row in rows for piece in row if piece.right <= at]
    right = [len(piece.text) for row in rows for piece in row if piece.right > at]
    fewer = min(len(left), len(right))
    if fewer < MIN_COLUMN_LINES or min(sum(left) / len(left), sum(right) / len(right)) < MIN_COLUMN_LINE_CHARS:
        return 0
    return fewer


def _format_rows(rows: list[PieceRow]) -> Iterator[str]:
    """Rows as lines, with spaces for gaps."""
    pieces = [piece for row in rows for piece in row]
    if not pieces:
        return
    start = min(piece.left for piece in pieces)
    widths = [(piece.right - piece.left) / len(piece.text) for piece in pieces if piece.text]
    width = max(median(widths), 0.01) if widths else 1.0
    height = median(piece.height for piece in pieces)
    before: PieceRow | None = None
    for row in rows:
        if before and row[0].top - before[0].bottom > height:
            yield ""
        yield _format_row(row, start, width)
        before = row


def _format_row(row: PieceRow, start: float, width: float) -> str:
    line = ""
    for piece in row:
        column = round((piece.left - start) / width)
        gap = 1 if line else 0
        line += " " * min(max(column - len(line), gap), MAX_PAD_SPACES) + piece.text
    return line.rstrip()
