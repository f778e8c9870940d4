"""Putting new text where old text stood, so that it fits there.

Lines that stand in both the old and the new text keep the file's own characters: their ending, their
indentation, their typographic marks. Only what really changed is written.
"""

from collections.abc import Iterator
from difflib import SequenceMatcher

from handhold.core.text.lines import pieces, prevailing_ending, unified
from handhold.core.text.match import Span

ALIGN_MOST = 4_000_000  # product of line counts beyond which only the edges are aligned


class Unfit(Exception):
    """The indentation of the place and of the quoted text are not related in a way that could be carried over."""


def splice(text: str, spans: tuple[Span, ...], old: str, new: str) -> str:
    """`text` with `new` in place of `old` at each span."""
    out: list[str] = []
    at = 0
    for span in spans:
        out += (text[at : span.start], fitted(text, span, old, new))
        at = span.end
    out.append(text[at:])
    return "".join(out)


def fitted(text: str, span: Span, old: str, new: str) -> str:
    """`new` as it should stand at `span`, where the file says `old` in its own way."""
    there = list(pieces(text[span.start : span.end]))
    olds, news = unified(old).split("\n"), unified(new).split("\n")
    ending = _ending_at(text, span, there)
    if len(there) != len(olds):  # a lone CR stood for a line ending
        there = list(pieces(text[span.start : span.end], lone_cr=True))
    if len(there) == len(olds) - 1 and not olds[-1]:  # the quote ends its last line, the file does not
        there.append(("", ""))
    if len(there) != len(olds):
        raise Unfit
    shift = Reindent([(o, line) for o, (line, _) in zip(olds, there, strict=True) if o.strip()])
    rows: list[tuple[str, str]] = []
    for kind, a, b, c, d in aligned(olds, news):
        if kind == "equal":
            rows += there[a:b]
        else:
            endings = [row[1] for row in there[a:b]]
            rows += [(shift(line), endings[n] if n < len(endings) else ending) for n, line in enumerate(news[c:d])]
    # Only the last line is without an ending, whichever line that was before.
    return "".join(line + (own or ending) for line, own in rows[:-1]) + rows[-1][0]


def _ending_at(text: str, span: Span, there: list[tuple[str, str]]) -> str:
    """The line ending that a new line gets here: of the lines replaced, else of the line itself, else of the file."""
    if there[0][1]:
        return there[0][1]
    close = text.find("\n", span.end)
    if close != -1:
        return "\r\n" if text[close - 1 : close] == "\r" else "\n"
    return prevailing_ending(text)


class Reindent:
    """How lines that the model wrote are indented to stand among the file's: the rule that turns each quoted
    line's indentation into the file's."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self.known: dict[str, str] = {}
        for quoted, real in pairs:
            if self.known.setdefault(indent(quoted), indent(real)) != indent(real):
                raise Unfit
        self.same = all(quoted == real for quoted, real in self.known.items())

    def __call__(self, line: str) -> str:
        if self.same or not line.strip():
            return line
        depth = indent(line)
        return self._real(depth) + line[len(depth) :]

    def _real(self, depth: str) -> str:
        if depth in self.known:
            return self.known[depth]
        if (
            added := self._one(
                real.removesuffix(quoted) for quoted, real in self.known.items() if real.endswith(quoted)
            )
        ) is not None:
            return added + depth
        if (
            taken := self._one(
                quoted.removesuffix(real) for quoted, real in self.known.items() if quoted.endswith(real)
            )
        ) is not None:
            if depth.startswith(taken):
                return depth.removeprefix(taken)
            raise Unfit
        return self._by_unit(depth)

    def _one(self, prefixes: Iterator[str]) -> str | None:
        """The prefix, if every line has the same."""
        found = list(prefixes)
        return found[0] if len(found) == len(self.known) and len(set(found)) == 1 else None

    def _by_unit(self, depth: str) -> str:
        """Depth by depth: so many columns in the quote are so many characters of one kind in the file."""
        deep = [(quoted, real) for quoted, real in self.known.items() if quoted]
        kinds = {char for _, real in deep for char in real}
        ratios = {len(real) / len(quoted) for quoted, real in deep if len(set(quoted)) == 1}
        if len(kinds) != 1 or len(ratios) != 1 or any(real for quoted, real in self.known.items() if not quoted):
            raise Unfit
        length = len(depth) * ratios.pop()
        if length != int(length) or len(set(depth) | set("".join(quoted for quoted, _ in deep))) != 1:
            raise Unfit
        return kinds.pop() * int(length)


def indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def aligned(olds: list[str], news: list[str]) -> Iterator[tuple[str, int, int, int, int]]:
    """Which lines of the one are which of the other, as difflib's opcodes. The edges are cheap and come first."""
    head = 0
    while head < min(len(olds), len(news)) and olds[head] == news[head]:
        head += 1
    tail = 0
    while tail < min(len(olds), len(news)) - head and olds[-1 - tail] == news[-1 - tail]:
        tail += 1
    if head:
        yield "equal", 0, head, 0, head
    a, b = olds[head : len(olds) - tail], news[head : len(news) - tail]
    if a and b and len(a) * len(b) <= ALIGN_MOST:
        for kind, i, j, k, m in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
            yield kind, i + head, j + head, k + head, m + head
    elif a or b:
        yield "replace", head, head + len(a), head, head + len(b)
    if tail:
        yield "equal", len(olds) - tail, len(olds), len(news) - tail, len(news)


def rewritten(before: str, content: str) -> str:
    """`content` as the new body of a file: its line endings are the file's own."""
    kinds = {ending for _, ending in pieces(before) if ending}
    plain = unified(content)
    if not kinds or kinds == {"\n"}:
        return plain
    if kinds == {"\r\n"}:
        return plain.replace("\n", "\r\n")
    return _keeping_each(before, plain)


def _keeping_each(before: str, plain: str) -> str:
    """In a file of mixed endings a line that stays keeps its own, and a new one takes the most common."""
    own = list(pieces(before))
    usual = prevailing_ending(before)
    news = plain.split("\n")
    endings = [usual] * len(news)
    for kind, a, b, c, d in aligned([line for line, _ in own], news):
        if kind == "equal" or b - a == d - c:
            endings[c:d] = [ending or usual for _, ending in own[a:b]]
    return "".join(line + ending for line, ending in zip(news[:-1], endings, strict=False)) + news[-1]
