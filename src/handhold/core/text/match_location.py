"""Places in a file: where a quoted text is, line by line."""

from dataclasses import dataclass

from handhold.core.text.text_index import TextIndex


@dataclass(frozen=True)
class TextSpan:
    """Characters `start` to `end` of the file's text."""

    start: int
    end: int


@dataclass(frozen=True)
class MatchLocation:
    """Where a quoted text is: its characters, and which lines of the file each quoted line corresponds to.

    `line_ranges` is relative to the first line of the span: (2, 3) is its third line, (2, 4) two lines quoted as
    one, (2, 2) none, for a blank line that the file lacks.
    """

    span: TextSpan
    line_ranges: tuple[tuple[int, int], ...]
    lone_cr: bool = False  # a lone CR ends a line, too

    @classmethod
    def from_lines(
        cls, index: TextIndex, first: int, past: int, line_ranges: tuple[tuple[int, int], ...], *, ended: bool
    ) -> "MatchLocation":
        """Whole lines of the index. A quote that ends with a newline includes the last line's ending."""
        span = TextSpan(*index.get_span(first, past, ended=ended))
        return cls(span, (*line_ranges, (past - first, past - first + 1)) if ended else line_ranges)

    @classmethod
    def from_block(
        cls, index: TextIndex, first: int, size: int, edges: tuple[int, int], *, ended: bool
    ) -> "MatchLocation":
        """Lines that equal the quoted ones one by one, except for blank lines above and below that the file lacks."""
        above, below = edges
        line_ranges = (*[(0, 0)] * above, *((n, n + 1) for n in range(size)), *[(size, size)] * below)
        return cls.from_lines(index, first, first + size, line_ranges, ended=ended)

    def covers_whole_lines(self, text: str) -> bool:
        start, end = self.span.start, self.span.end
        ends = text[end : end + 1] in ("", "\n") or text[end : end + 2] == "\r\n" or text[end - 1 : end] == "\n"
        return ends and text[start - 1 : start] in ("", "\n")
