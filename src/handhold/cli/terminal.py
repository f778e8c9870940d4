"""What a person is shown on a terminal: nothing that a file or a model wrote can move the cursor or hide itself."""

import os
import sys
from collections.abc import Iterator, Sequence
from unicodedata import category, east_asian_width

import click

from handhold.logs import log_swallowed

DIFF_COLOURS = (("+++", "bold"), ("---", "bold"), ("+", "green"), ("-", "red"), ("@@", "cyan"), ("[", "yellow"))
MIN_COLUMNS, DEFAULT_COLUMNS = 40, 100  # columns that are made use of, however few there are; and where nobody knows


def colour_diff_line(line: str) -> str:
    """A line of a diff, by its sign."""
    return colour_text(line, next((colour for sign, colour in DIFF_COLOURS if line.startswith(sign)), ""))


def colour_text(text: str, colour: str) -> str:
    """In a colour, or `bold` or `dim`; click takes it off again where no terminal looks."""
    if not colour or not text or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return click.style(text, **{colour: True}) if colour in ("bold", "dim") else click.style(text, fg=colour)


def is_stdout_terminal() -> bool:
    """Whether somebody looks at standard output."""
    return sys.stdout.isatty()


def get_columns() -> int:
    """How wide the terminal is; COLUMNS says it where it is set."""
    setting = os.environ.get("COLUMNS", "")
    if setting.isascii() and setting.isdigit():
        return max(MIN_COLUMNS, int(setting))
    try:
        return max(MIN_COLUMNS, os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1).columns)
    except (OSError, ValueError):
        log_swallowed()
        return DEFAULT_COLUMNS


# --- how wide it is there


def measure_width(text: str) -> int:
    """In columns: some characters take two, and some none."""
    return len(text) if text.isascii() else sum(map(_measure_char, text))


def _measure_char(char: str) -> int:
    if category(char) in ("Mn", "Me"):
        return 0
    return 2 if east_asian_width(char) in "WF" else 1


def truncate(text: str, max_columns: int) -> str:
    """The text, or as much of its start as there is room for."""
    if measure_width(text) <= max_columns:
        return text
    kept = ""
    for char in text:
        if measure_width(kept) + _measure_char(char) >= max_columns:
            break
        kept += char
    return f"{kept}…" if max_columns > 0 else ""


def truncate_path(path: str, max_columns: int) -> str:
    """The same of a path, whose end says more."""
    return path if measure_width(path) <= max_columns else truncate(path[::-1], max_columns)[::-1]


def pad(text: str, min_columns: int) -> str:
    return text + " " * (min_columns - measure_width(text))


def format_table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows of words in columns, the last as long as it is."""
    widths = [max(map(measure_width, column)) for column in zip(*rows, strict=True)]
    for *row, last in rows:
        yield "  ".join([*(pad(cell, room) for cell, room in zip(row, widths, strict=False)), last]).rstrip()
