"""Colours, widths and tables for terminal output."""

import os
import shlex
import sys
import termios
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TextIO
from unicodedata import category, east_asian_width

import click

from handhold.logs import log_swallowed

DIFF_COLOURS = (("+++", "bold"), ("---", "bold"), ("+", "green"), ("-", "red"), ("@@", "cyan"), ("[", "yellow"))
STDIN = 0
MIN_COLUMNS, DEFAULT_COLUMNS = 40, 100  # the narrowest layout; the width if it is unknown


def colour_diff_line(line: str) -> str:
    """Colour a line of a diff by its prefix."""
    return colour_text(line, next((colour for sign, colour in DIFF_COLOURS if line.startswith(sign)), ""))


def colour_text(text: str, colour: str) -> str:
    """Apply a colour, `bold` or `dim`. click strips it when the output is not a terminal."""
    if not colour or not text or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return click.style(text, **{colour: True}) if colour in ("bold", "dim") else click.style(text, fg=colour)


def is_stdout_terminal() -> bool:
    return is_terminal(sys.stdout)


def is_stderr_terminal() -> bool:
    return is_terminal(sys.stderr)


def is_terminal(stream: TextIO | None) -> bool:
    """False for a stream that was closed when we started, which is None."""
    return stream is not None and stream.isatty()


def print_lines(lines: Iterable[str]) -> None:
    """Print for a person to read: at a terminal through their pager, which ends at once if all of it fits."""
    if not (is_stdout_terminal() and is_terminal(sys.stdin)) or os.environ.get("TERM", "dumb") == "dumb":
        for line in lines:
            click.echo(line)
        return
    from handhold.backends.program_search import find_program, is_trusted

    program, *words = shlex.split(os.environ.get("PAGER", "")) or ("less",)
    path = program if is_trusted(program) else find_program(os.path.basename(program))  # none of the workspace
    if not path:
        for line in lines:
            click.echo(line)
        return
    os.environ["PAGER"] = shlex.join((path, *words))
    os.environ.setdefault("LESS", "FRX")
    text = (f"\n{line}" if n else line for n, line in enumerate(lines))  # click ends it with a new line
    click.echo_via_pager(text, color=True)


def is_in_background() -> bool:
    """Whether standard input is our terminal, and another job has it now."""
    try:
        return os.tcgetpgrp(STDIN) != os.getpgrp()
    except OSError:  # no terminal, or not ours
        log_swallowed()
        return False


def save_terminal_settings() -> Callable[[], None]:
    """A function that restores the present settings of the terminal, such as echo; without one, it does nothing."""
    try:
        settings = termios.tcgetattr(STDIN)
    except termios.error:
        log_swallowed()
        return lambda: None
    return lambda: termios.tcsetattr(STDIN, termios.TCSANOW, settings)


def get_columns() -> int:
    """The width of the terminal. COLUMNS takes precedence if it is set."""
    setting = os.environ.get("COLUMNS", "")
    if setting.isascii() and setting.isdigit():
        return max(MIN_COLUMNS, int(setting))
    try:
        return max(MIN_COLUMNS, os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1).columns)
    except (OSError, ValueError):
        log_swallowed()
        return DEFAULT_COLUMNS


# --- widths


def measure_width(text: str) -> int:
    """The width in columns: some characters take two, some none."""
    return len(text) if text.isascii() else sum(map(_measure_char, text))


def _measure_char(char: str) -> int:
    if category(char) in ("Mn", "Me"):
        return 0
    return 2 if east_asian_width(char) in "WF" else 1


def truncate(text: str, max_columns: int) -> str:
    """The text, cut at the end if it is too wide."""
    if measure_width(text) <= max_columns:
        return text
    kept = ""
    for char in text:
        if measure_width(kept) + _measure_char(char) >= max_columns:
            break
        kept += char
    return f"{kept}…" if max_columns > 0 else ""


def truncate_path(path: str, max_columns: int) -> str:
    """The path, cut at the start if it is too wide, because the end is more informative."""
    return path if measure_width(path) <= max_columns else truncate(path[::-1], max_columns)[::-1]


def pad(text: str, min_columns: int) -> str:
    return text + " " * (min_columns - measure_width(text))


def format_table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Align the rows in columns. The last column is not padded."""
    widths = [max(map(measure_width, column)) for column in zip(*rows, strict=True)]
    for *row, last in rows:
        yield "  ".join([*(pad(cell, room) for cell, room in zip(row, widths, strict=False)), last]).rstrip()
