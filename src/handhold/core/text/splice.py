"""Replace old text with new text so that it fits the file.

Three texts are involved: the old one as quoted, the new one, and the file's. Lines in both the old and the new text
keep the file's own characters: line ending, indentation and typography. Only real changes are written, indented like
the lines around them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from handhold.core.text.encoding import REPLACEMENT_CHAR
from handhold.core.text.indentation import CannotFit, Reindenter, detect_indent_unit, is_off_unit
from handhold.core.text.kept_spans import KeptSpan
from handhold.core.text.lines import detect_line_ending, iter_lines_with_endings, normalize_newlines
from handhold.core.text.match_location import MatchLocation, TextSpan
from handhold.core.text.quote_fitting import end_last_line, fit_quote_to_span, get_indent_before, widen_to_line_start
from handhold.core.text.quote_repair import Quote
from handhold.core.text.text_index import get_indent, is_blank, to_bare_bytes, to_plain_text

MAX_ALIGNMENT_SIZE = 4_000_000  # product of line counts above which only the edges are aligned
INDENT_CONTEXT_CHARS = 20_000  # characters around a place that show how the file is indented

LineWithEnding = tuple[str, str]  # a line and its ending


@dataclass(frozen=True)
class SpliceResult:
    text: str
    repaired: tuple[str, ...]  # what was adapted
    kept: tuple[KeptSpan, ...]


def splice(
    text: str,
    locations: Sequence[MatchLocation],
    quote: Quote,
    *,
    literal: bool = False,
    keeps_lines: bool = False,
    is_second: bool = False,
) -> SpliceResult:
    """Replace the quote's old text with its new text, at each location.

    With `literal`, character for character, except for line endings. With `keeps_lines`, the line below stays a line of
    its own, also if only the old text ends with a newline. Where the new text can be read as indented like the old text
    or like the file, the likelier reading is taken, or with `is_second` the other one.
    """
    out: list[str] = []
    kept: list[KeptSpan] = []
    repaired: set[str] = set()
    at = end = 0
    for location in locations:
        place = location.span.start
        if not literal and not (is_second and quote.new.strip()):
            location = widen_to_line_start(text, location, quote)
        adjusted = quote
        if keeps_lines or (not literal and get_indent_before(text, place)):
            adjusted = end_last_line(text, location.span, adjusted)
        if not literal:
            adjusted = fit_quote_to_span(text, location.span, adjusted)
        if "\n" not in adjusted.old + adjusted.new and text[location.span.start : location.span.end] == adjusted.old:
            new, shifted = adjusted.new, False  # part of a line, exactly as quoted: nothing to fit
        else:
            fitter = ReplacementFitter(text, location, adjusted, is_second=is_second)
            new, shifted = fitter.render(), fitter.has_reindented
        out += (text[at : location.span.start], new)
        kept.append(KeptSpan(at, end, location.span.start - at))
        end += location.span.start - at + len(new)
        if adjusted.new != quote.new or shifted:
            repaired.add("indentation")
        at = location.span.end
    out.append(text[at:])
    kept.append(KeptSpan(at, end, len(text) - at))
    return SpliceResult("".join(out), tuple(sorted(repaired)), tuple(kept))


class ReplacementFitter:
    """Adapts the new text to one place."""

    def __init__(self, text: str, location: MatchLocation, quote: Quote, *, is_second: bool = False) -> None:
        span = text[location.span.start : location.span.end]
        self.line_ranges = location.line_ranges
        self.has_reindented = False  # a new line was indented differently than written
        self.old_lines = (quote.old.replace("\r", "\n") if location.lone_cr else quote.old).split("\n")
        self.new_lines = quote.new.split("\n")
        self.file_lines: list[LineWithEnding] = list(iter_lines_with_endings(span, lone_cr=location.lone_cr))
        if len(self.file_lines) < max(past for _, past in self.line_ranges):
            self._handle_missing_newline()
        self.ending = _choose_ending(text, location.span, self.file_lines)
        self.is_verbatim = all(self._get_file_line(at) == line for at, line in enumerate(self.old_lines))
        around = text[max(0, location.span.start - INDENT_CONTEXT_CHARS) : location.span.end + INDENT_CONTEXT_CHARS]
        self.indent_unit = "" if self.is_verbatim else detect_indent_unit(around)
        self.pairs = {} if self.is_verbatim else dict(self._iter_indent_pairs())
        self.reindent = Reindenter(list(self.pairs.values()), self.new_lines, self.indent_unit)
        self.uses_file_indent = not self.is_verbatim and self._is_indented_like_file()
        if self.reindent.is_uniform:
            self.uses_file_indent = self.uses_file_indent != is_second
        if self.reindent.is_uniform and not self.uses_file_indent:
            self._move_quote()

    def _handle_missing_newline(self) -> None:
        """Handle a quote that ends with a newline where the file does not."""
        if len(self.old_lines) > 1 and not self.new_lines[-1] and len(self.new_lines) > 1:
            self.old_lines, self.new_lines, self.line_ranges = (
                self.old_lines[:-1],
                self.new_lines[:-1],
                self.line_ranges[:-1],
            )
        else:
            self.file_lines.append(("", ""))

    # --- lines of the file

    def _get_file_line(self, at: int) -> str | None:
        """The file's line for a quoted one; None if that is not exactly one line."""
        first, past = self.line_ranges[at]
        return self.file_lines[first][0] if past - first == 1 and not self._is_shared(at) else None

    def _is_shared(self, at: int) -> bool:
        """Whether the next or the previous quoted line is on the same line of the file."""
        first, past = self.line_ranges[at]
        before = max((each[1] for each in self.line_ranges[max(0, at - 1) : at]), default=0)
        after = min((each[0] for each in self.line_ranges[at + 1 : at + 2]), default=past)
        return first < past and (before > first or after < past)

    def _iter_indent_pairs(self) -> Iterator[tuple[int, tuple[str, str]]]:
        for at, line in enumerate(self.old_lines):
            first, past = self.line_ranges[at]
            if first < past and not is_blank(line) and not self._is_shared(at):
                yield at, (get_indent(line), get_indent(self.file_lines[first][0]))

    def _move_quote(self) -> None:
        """Where one rule explains all quoted lines, both texts move as a whole; what they share is then in the file."""
        moved = [self.reindent(line) for line in self.new_lines]
        self.has_reindented = moved != self.new_lines
        self.old_lines, self.new_lines = [self.reindent(line) for line in self.old_lines], moved
        self.is_verbatim = all(self._get_file_line(at) == line for at, line in enumerate(self.old_lines))
        self.pairs, self.reindent = {}, Reindenter([], [], "")

    def _is_indented_like_file(self) -> bool:
        """Whether the new text is indented like the file although the old one is not.

        Where all lines are shifted by the same, the outermost line of the new text says it; else, the shared lines.
        """
        shared = [
            (get_indent(self.old_lines[i]), get_indent(self._get_file_line(i) or ""), get_indent(self.new_lines[j]))
            for i, j in self._iter_shared_lines()
        ]
        as_file = sum(new == own != old for old, own, new in shared)
        as_quoted = sum(new == old != own for old, own, new in shared)
        if self.reindent.is_uniform:
            quoted, real = (min((pair[side] for pair in self.pairs.values()), key=len) for side in (0, 1))
            stated = min((get_indent(line) for line in self.new_lines if not is_blank(line)), key=len, default=quoted)
            if stated == real != quoted and as_quoted and len(quoted) == len(real) + 1:
                self._straighten_shared_lines()  # they alone are a column too deep
            elif stated == real != quoted and as_quoted and not self._loses_its_head(quoted):
                return False
            if quoted != real and stated in (quoted, real):
                return stated == real
        owns = {own for _, own, _ in shared}
        return as_file > as_quoted and not any(
            is_off_unit(depth, self.indent_unit) and depth not in owns for depth in map(get_indent, self.new_lines)
        )

    def _loses_its_head(self, outermost: str) -> bool:
        """Whether the first quoted line opens the block and is removed, so that the rest moves out."""
        kept = {at for at, _ in self._iter_shared_lines()}
        head = next(at for at, line in enumerate(self.old_lines) if not is_blank(line))
        return head not in kept and get_indent(self.old_lines[head]) == outermost

    def _straighten_shared_lines(self) -> None:
        lines = list(self.new_lines)
        for at, new in self._iter_shared_lines():
            lines[new] = self._get_file_line(at) or ""
        self.new_lines = lines

    def _iter_shared_lines(self) -> Iterator[tuple[int, int]]:
        """The old and new lines that are the same except for indentation, by position, where they are in the file."""
        olds, news = ([line.strip() for line in lines] for lines in (self.old_lines, self.new_lines))
        for kind, a, b, c, _ in align_lines(olds, news):
            if kind == "equal":
                for n in range(b - a):
                    if olds[a + n] and self._get_file_line(a + n) is not None:
                        yield a + n, c + n

    # --- alignment of old and new text

    def _build_sides(self) -> tuple[list[str], list[str]]:
        """The old and new lines as compared: strictly if the file has the old line exactly as quoted."""
        stated = {to_bare_bytes(line) for line in self.new_lines} if not self.is_verbatim else set[bytes]()
        olds = [self._normalize_old_line(at, line, stated) for at, line in enumerate(self.old_lines)]
        loose = {line for at, line in enumerate(olds) if self._get_file_line(at) != self.old_lines[at]}
        padded = {
            line
            for at, line in enumerate(olds)
            if _has_trailing_space(self.old_lines[at]) or _has_trailing_space(self._get_file_line(at) or "")
        }
        return olds, [_normalize_new_line(line, loose, padded) for line in self.new_lines]

    def _normalize_old_line(self, at: int, line: str, stated: set[bytes]) -> str:
        own = self._get_file_line(at)
        if own == line:
            return line
        if own is not None and self.uses_file_indent:
            line = own
        elif own is not None and to_bare_bytes(line) not in stated and to_bare_bytes(own) in stated:
            line = get_indent(line) + own.lstrip(" \t")  # the new text has it as the file does: unchanged
        return to_plain_text(line).rstrip()

    # --- the merge

    def render(self) -> str:
        rows = list(self._merge_lines())
        # Only the last line has no ending, whichever line that was before.
        return "".join(line + (own or self.ending) for line, own in rows[:-1]) + "".join(row[0] for row in rows[-1:])

    def _merge_lines(self) -> Iterator[LineWithEnding]:
        at = 0  # the next line of the file to process
        spaced = False  # the new text has just added its own blank lines
        for kind, a, b, c, d in align_lines(*self._build_sides()):
            if kind == "equal":
                for first, past in self.line_ranges[a:b]:
                    if not spaced:
                        yield from self.file_lines[at:first]  # blank lines that the model did not quote
                    yield from self.file_lines[max(at, first) : past]
                    spaced = spaced and all(is_blank(line) for line, _ in self.file_lines[first:past])
                    at = max(at, past)
                continue
            fresh = self.new_lines[c:d]
            first, past = self._find_removed_lines(a, b, at)
            if first < past and not any(map(is_blank, self.new_lines[c : c + 1])):
                yield from self.file_lines[at:first]
            yield from self._render_new_lines(fresh, a, b, first, past)
            spaced = bool(fresh) and (first == past or is_blank(fresh[-1]))
            at = past
        yield from self.file_lines[at:]

    def _find_removed_lines(self, a: int, b: int, at: int) -> tuple[int, int]:
        """The file's lines for quoted lines `a` to `b`. They must match those lines exactly, and no others."""
        ranges = [
            self.line_ranges[each] for each in range(a, b) if self.line_ranges[each][0] < self.line_ranges[each][1]
        ]
        first, past = (ranges[0][0], ranges[-1][1]) if ranges else (at, at)
        for each in range(a, b):
            rows = self.file_lines[slice(*self.line_ranges[each])]
            if rows and to_bare_bytes("".join(line for line, _ in rows)) != to_bare_bytes(self.old_lines[each]):
                raise CannotFit
        if first < at or self._find_next_line(b, past) < past:
            raise CannotFit
        return first, past

    def _find_next_line(self, b: int, past: int) -> int:
        """The position of the next quoted line that exists in the file."""
        return next((first for first, end in self.line_ranges[b:] if first < end), past)

    def _render_new_lines(
        self, new_lines: list[str], a: int, b: int, first: int, past: int
    ) -> Iterator[LineWithEnding]:
        rows = self.file_lines[first:past]
        new_lines = restore_undecodable(new_lines, "".join(line for line, _ in rows))
        above = sum(at < b for at in self.pairs)
        for n, line in enumerate(new_lines):
            replaced = None
            if (len(new_lines) == b - a or n == 0) and a + n < b and (own := self._get_file_line(a + n)) is not None:
                replaced = self.old_lines[a + n], own
            fitted = line if self.uses_file_indent else self.reindent(line, replaced, above)
            self.has_reindented = self.has_reindented or fitted != line
            yield fitted, rows[n][1] if n < len(rows) else self.ending


def _has_trailing_space(line: str) -> bool:
    return line != line.rstrip()


def _normalize_new_line(line: str, loose: set[str], padded: set[str]) -> str:
    """A new line as it is compared: unchanged, unless the file has it with other whitespace or typography."""
    seen = to_plain_text(line)
    if seen.rstrip() in padded:
        return seen.rstrip()
    return seen if seen in loose else line


def restore_undecodable(new_lines: list[str], file_text: str) -> list[str]:
    """Put the file's undecodable bytes back where the lines have U+FFFD, in order."""
    if file_text.isascii() or not any(REPLACEMENT_CHAR in line for line in new_lines):
        return new_lines
    broken = [char for char in file_text if char == REPLACEMENT_CHAR or "\ud800" <= char <= "\udfff"]
    if all(char == REPLACEMENT_CHAR for char in broken):
        return new_lines
    if sum(line.count(REPLACEMENT_CHAR) for line in new_lines) != len(broken):
        raise CannotFit
    own = iter(broken)
    return ["".join(next(own) if char == REPLACEMENT_CHAR else char for char in line) for line in new_lines]


def _choose_ending(text: str, span: TextSpan, file_lines: list[LineWithEnding]) -> str:
    """The ending for new lines: that of the replaced lines, otherwise of the line itself, otherwise of the file."""
    if file_lines and file_lines[0][1]:
        return file_lines[0][1]
    close = text.find("\n", span.end)
    if close != -1:
        return "\r\n" if text[close - 1 : close] == "\r" else "\n"
    return detect_line_ending(text)


def align_lines(old_lines: list[str], new_lines: list[str]) -> Iterator[tuple[str, int, int, int, int]]:
    """Align old and new lines, as difflib's opcodes.

    The edges are cheap and come first. A blank line matches another only next to lines that match.
    """
    head = 0
    while head < min(len(old_lines), len(new_lines)) and old_lines[head] == new_lines[head]:
        head += 1
    tail = 0
    while tail < min(len(old_lines), len(new_lines)) - head and old_lines[-1 - tail] == new_lines[-1 - tail]:
        tail += 1
    if head:
        yield "equal", 0, head, 0, head
    a, b = old_lines[head : len(old_lines) - tail], new_lines[head : len(new_lines) - tail]
    if a and b and len(a) * len(b) <= MAX_ALIGNMENT_SIZE:
        for kind, i, j, k, m in SequenceMatcher(is_blank, a, b, autojunk=False).get_opcodes():
            yield kind, i + head, j + head, k + head, m + head
    elif a or b:
        yield "replace", head, head + len(a), head, head + len(b)
    if tail:
        yield "equal", len(old_lines) - tail, len(old_lines), len(new_lines) - tail, len(new_lines)


def keep_line_endings(before: str, content: str) -> str:
    """`content` with the line endings of the file it replaces."""
    kinds = {ending for _, ending in iter_lines_with_endings(before) if ending}
    plain = normalize_newlines(content)
    if not kinds or kinds == {"\n"}:
        return plain
    if kinds == {"\r\n"}:
        return plain.replace("\n", "\r\n")
    return _keep_mixed_endings(before, plain)


def _keep_mixed_endings(before: str, plain: str) -> str:
    """In a file with mixed endings, unchanged lines keep theirs, and new lines take the most common one."""
    own = list(iter_lines_with_endings(before))
    usual = detect_line_ending(before)
    news = plain.split("\n")
    endings = [usual] * len(news)
    for kind, a, b, c, d in align_lines([line for line, _ in own], news):
        if kind == "equal" or b - a == d - c:
            endings[c:d] = [ending or usual for _, ending in own[a:b]]
    return "".join(line + ending for line, ending in zip(news[:-1], endings, strict=False)) + news[-1]
