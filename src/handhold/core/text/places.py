"""Places in a file: where a quoted text stands, line by line."""

from dataclasses import dataclass

from handhold.core.text.sheet import Sheet


@dataclass(frozen=True)
class Span:
    """Characters `start` to `end` of the file's own text."""

    start: int
    end: int


@dataclass(frozen=True)
class Place:
    """Where a text stands: the characters, and which lines of them each quoted line is.

    `lines` counts from the first line of the span: (2, 3) is its third line, (2, 4) two lines that were quoted as
    one, (2, 2) none, for a blank line that the file lacks.
    """

    span: Span
    lines: tuple[tuple[int, int], ...]
    lone_cr: bool = False  # a lone CR ends a line too

    @classmethod
    def of_lines(
        cls, sheet: Sheet, first: int, past: int, lines: tuple[tuple[int, int], ...], *, ended: bool
    ) -> "Place":
        """Whole lines of a sheet. A quote that ends its last line takes that line's ending too."""
        span = Span(*sheet.between(first, past, ended=ended))
        return cls(span, (*lines, (past - first, past - first + 1)) if ended else lines)

    @classmethod
    def of_block(cls, sheet: Sheet, first: int, size: int, edges: tuple[int, int], *, ended: bool) -> "Place":
        """Lines that are the quoted ones one by one, but for blank ones above and below that the file lacks."""
        above, below = edges
        lines = (*[(0, 0)] * above, *((n, n + 1) for n in range(size)), *[(size, size)] * below)
        return cls.of_lines(sheet, first, first + size, lines, ended=ended)

    def whole_lines_of(self, text: str) -> bool:
        start, end = self.span.start, self.span.end
        ends = text[end : end + 1] in ("", "\n") or text[end : end + 2] == "\r\n" or text[end - 1 : end] == "\n"
        return ends and text[start - 1 : start] in ("", "\n")
