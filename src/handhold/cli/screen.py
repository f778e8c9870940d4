"""What a person is shown on a terminal: nothing that a file or a model wrote can move the cursor or hide itself."""

import os
from collections.abc import Iterator

import click

from handhold.core.text.names import FILLERS

WIDEST = 400  # characters of a line
KEPT = "\n\t"
COLOURS = (("+++", "bold"), ("---", "bold"), ("+", "green"), ("-", "red"), ("@@", "cyan"))


def visible(text: str) -> str:
    """Every character that is not seen as itself is spelled out; lines and tabs stay."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(char if char in KEPT or _seen(char) else _spelled(char) for char in text)


def _seen(char: str) -> bool:
    return char.isprintable() and char not in FILLERS


def _spelled(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is no text
        return f"\\x{code - 0xDC00:02x}"
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def on_one_line(text: str) -> str:
    return visible(text.replace("\n", " "))


def lines_of(text: str, *, most: int) -> Iterator[str]:
    """The first lines, none too wide; what is left out is said."""
    lines = text.removesuffix("\n").split("\n")
    for line in lines[:most]:
        over = len(line) - WIDEST
        yield visible(line) if over <= 0 else f"{visible(line[:WIDEST])}… ({over} more characters)"
    more = len(lines) - most
    if more > 0:
        yield f"… and {more} more {'line, which is' if more == 1 else 'lines, which are'} not shown here"


def coloured(line: str) -> str:
    """A line of a diff, by its sign."""
    colour = next((colour for sign, colour in COLOURS if line.startswith(sign)), "")
    if not colour or os.environ.get("NO_COLOR"):
        return line
    return click.style(line, bold=True) if colour == "bold" else click.style(line, fg=colour)
