"""Make untrusted text safe to display: nothing in it can move the cursor or hide itself."""

from collections.abc import Iterator

from handhold.core.text.path_escaping import is_visible

MAX_LINE_CHARS = 400
MAX_ID_CHARS = 100
UNESCAPED_CHARS = "\n\t"


def escape_invisible(text: str) -> str:
    """Escape every character that is not visible as itself; newlines and tabs stay."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(char if char in UNESCAPED_CHARS or is_visible(char) else _escape_char(char) for char in text)


def _escape_char(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # an undecodable byte
        return f"\\x{code - 0xDC00:02x}"
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def to_single_line(text: str) -> str:
    return escape_invisible(text.replace("\n", " "))


def format_id(text: str) -> str:
    """An id chosen by somebody else, short and on one line."""
    line = " ".join(escape_invisible(text).split())
    over = len(line) - MAX_ID_CHARS
    return line if over <= 0 else f"{line[:MAX_ID_CHARS]}... ({over} more characters)"


def iter_visible_lines(text: str) -> Iterator[str]:
    """Every line, in full."""
    return map(escape_invisible, text.removesuffix("\n").split("\n"))


def iter_first_lines(text: str, *, max_lines: int, uncut: int = 0) -> Iterator[str]:
    """The first `uncut` lines in full, then up to `max_lines` more, cut to a width; says what was left out."""
    lines = text.removesuffix("\n").split("\n")
    yield from map(escape_invisible, lines[:uncut])
    lines = lines[uncut:]
    for line in lines[:max_lines]:
        over = len(line) - MAX_LINE_CHARS
        yield (
            escape_invisible(line)
            if over <= 0
            else f"{escape_invisible(line[:MAX_LINE_CHARS])}… ({over} more characters)"
        )
    more = len(lines) - max_lines
    if more > 0:
        yield f"… and {more} more {'line, which is' if more == 1 else 'lines, which are'} not shown here"
