"""Text that somebody else wrote, as a person may be shown it: nothing in it can move a cursor or hide itself."""

from collections.abc import Iterator

from handhold.core.text.names import is_visible

WIDEST = 400  # characters of a line
LONGEST_ID = 100
KEPT = "\n\t"


def visible(text: str) -> str:
    """Every character that is not seen as itself is spelled out; lines and tabs stay."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(char if char in KEPT or is_visible(char) else _spelled(char) for char in text)


def _spelled(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is no text
        return f"\\x{code - 0xDC00:02x}"
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def on_one_line(text: str) -> str:
    return visible(text.replace("\n", " "))


def format_id(text: str) -> str:
    """An id that somebody else chose, as a reply may show it: on one line, and short."""
    line = " ".join(visible(text).split())
    over = len(line) - LONGEST_ID
    return line if over <= 0 else f"{line[:LONGEST_ID]}... ({over} more characters)"


def all_lines_of(text: str) -> Iterator[str]:
    """Every line, whole."""
    return map(visible, text.removesuffix("\n").split("\n"))


def lines_of(text: str, *, most: int, uncut: int = 0) -> Iterator[str]:
    """The first `uncut` lines whole, then the next ones, none too wide; what is left out is said."""
    lines = text.removesuffix("\n").split("\n")
    yield from map(visible, lines[:uncut])
    lines = lines[uncut:]
    for line in lines[:most]:
        over = len(line) - WIDEST
        yield visible(line) if over <= 0 else f"{visible(line[:WIDEST])}… ({over} more characters)"
    more = len(lines) - most
    if more > 0:
        yield f"… and {more} more {'line, which is' if more == 1 else 'lines, which are'} not shown here"
