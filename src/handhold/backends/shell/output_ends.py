"""What is shown of a long output: its first and last lines, without tokens, and in complete characters."""

from collections.abc import Callable
from dataclasses import dataclass

from handhold.core.text.terminal import render_terminal_text
from handhold.core.text.token_rules import MAX_KEY_CHARS, MAX_KEY_LINES

RedactText = Callable[[str], str]  # keeps line breaks


def decode(data: bytes) -> tuple[str, bool]:
    """As text, and whether bytes were replaced."""
    try:
        return data.decode(), False
    except UnicodeDecodeError:
        return data.decode(errors="replace"), True


def drop_partial_start(data: bytes) -> bytes:
    """Drop a character that was cut off at the start."""
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:  # a continuation byte
        start += 1
    return data[start:]


def drop_partial_end(data: bytes) -> bytes:
    """Drop a character that was cut off at the end."""
    for back in range(1, min(4, len(data)) + 1):
        lead = data[-back]
        if lead & 0xC0 != 0x80:  # not a continuation byte
            length = 4 if lead >= 0xF0 else 3 if lead >= 0xE0 else 2 if lead >= 0xC0 else 1
            return data[:-back] if length > back else data
    return data


@dataclass(frozen=True)
class OutputEnds:
    """The first and last lines of an output, each cut to a width, and the number of lines between them."""

    head: list[str]
    tail: list[str]
    left_out: int
    replaced: bool


def take_head(beginning: bytes, *, lines: int, max_bytes: int, redact: RedactText) -> OutputEnds:
    """The first bytes only, in complete characters."""
    text, replaced = decode(drop_partial_end(beginning))
    shown = redact(render_terminal_text(text)[: max_bytes + MAX_KEY_CHARS])
    head = drop_partial_end(shown.encode()[:max_bytes]).decode()
    return OutputEnds([head], [], lines - head.count("\n"), replaced)


def take_head_and_tail(
    beginning: bytes, ending: bytes, *, total: int, lines: int, max_lines: int, width: int, redact: RedactText = str
) -> OutputEnds:
    """At most `max_lines` from each end. No line is shown twice, except that a long line may show both its ends."""
    cut_after, cut_before = len(beginning) < total, len(ending) < total
    first, head_replaced = decode(drop_partial_end(beginning) if cut_after else beginning)
    last, tail_replaced = decode(drop_partial_start(ending) if cut_before else ending)
    head = render_terminal_text(first.removesuffix("\n")).split("\n")
    in_part = cut_after and len(head) <= max_lines and not first.endswith("\n")
    is_long = len(head[:max_lines][-1]) > width + MAX_KEY_CHARS
    head = redact("\n".join(line[: width + MAX_KEY_CHARS] for line in head[:max_lines])).split("\n")
    tail = render_terminal_text(last.removesuffix("\n")).split("\n")
    from_within = cut_before and len(tail) <= max_lines
    around = [_shorten(line, width + MAX_KEY_CHARS) for line in tail[-max_lines - MAX_KEY_LINES :]]
    tail = redact("\n".join(around)).split("\n")[-max_lines:]
    before_tail = lines - len(tail)
    has_more = in_part or is_long or len(head[-1]) > width
    overlap = max(0, len(head) - has_more - before_tail)
    tail = tail[overlap:]
    shared = has_more and before_tail + overlap == len(head) - 1
    return OutputEnds(
        [_truncate(line, width) for line in head[:-1]] + [_truncate(head[-1], width, has_more=has_more)],
        [_take_line_end(line, width) for line in tail[:1] if shared or (from_within and not overlap)]
        + [_truncate(line, width) for line in tail[1 if shared or (from_within and not overlap) else 0 :]],
        lines - len(head) - len(tail) + shared,
        head_replaced or tail_replaced,
    )


def _shorten(line: str, end_chars: int) -> str:
    return line if len(line) <= 2 * end_chars else line[:end_chars] + line[-end_chars:]


def _truncate(line: str, width: int, *, has_more: bool = False) -> str:
    return line[:width] + "…" if has_more or len(line) > width else line


def _take_line_end(line: str, width: int) -> str:
    return "…" + line[-width:]
