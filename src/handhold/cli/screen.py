"""What a person is shown on a terminal: nothing that a file or a model wrote can move the cursor or hide itself."""

import os
import sys
from collections.abc import Iterator, Sequence
from unicodedata import category, east_asian_width

import click

COLOURS = (("+++", "bold"), ("---", "bold"), ("+", "green"), ("-", "red"), ("@@", "cyan"), ("[", "yellow"))
NARROWEST, USUAL = 40, 100  # columns that are made use of, however few there are; and where nobody knows


def coloured(line: str) -> str:
    """A line of a diff, by its sign."""
    return painted(line, next((colour for sign, colour in COLOURS if line.startswith(sign)), ""))


def painted(text: str, colour: str) -> str:
    """In a colour, or `bold` or `dim`; click takes it off again where no terminal looks."""
    if not colour or not text or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return click.style(text, **{colour: True}) if colour in ("bold", "dim") else click.style(text, fg=colour)


def looked_at() -> bool:
    """Whether somebody looks at standard output."""
    return sys.stdout.isatty()


def columns() -> int:
    """How wide the terminal is; COLUMNS says it where it is set."""
    said = os.environ.get("COLUMNS", "")
    if said.isascii() and said.isdigit():
        return max(NARROWEST, int(said))
    try:
        return max(NARROWEST, os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1).columns)
    except (OSError, ValueError):
        return USUAL


# --- how wide it is there


def width(text: str) -> int:
    """In columns: some characters take two, and some none."""
    return len(text) if text.isascii() else sum(map(_columns_of, text))


def _columns_of(char: str) -> int:
    if category(char) in ("Mn", "Me"):
        return 0
    return 2 if east_asian_width(char) in "WF" else 1


def fitted(text: str, room: int) -> str:
    """The text, or as much of its start as there is room for."""
    if width(text) <= room:
        return text
    kept = ""
    for char in text:
        if width(kept) + _columns_of(char) >= room:
            break
        kept += char
    return f"{kept}…" if room > 0 else ""


def fitted_path(path: str, room: int) -> str:
    """The same of a path, whose end says more."""
    return path if width(path) <= room else fitted(path[::-1], room)[::-1]


def padded(text: str, room: int) -> str:
    return text + " " * (room - width(text))


def table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows of words in columns, the last as long as it is."""
    rooms = [max(map(width, column)) for column in zip(*rows, strict=True)]
    for *row, last in rows:
        yield "  ".join([*(padded(cell, room) for cell, room in zip(row, rooms, strict=False)), last]).rstrip()
