"""A progress bar on standard error, if that is a terminal and the work takes more than a second."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from time import monotonic

from handhold.cli.terminal import get_columns, is_stderr_terminal, truncate
from handhold.progress import listen

SHOW_AFTER_SECONDS = 1.0
REDRAW_INTERVAL_SECONDS = 0.1
BAR_COLUMNS = 24


@contextmanager
def show_progress() -> Generator[None]:
    """Show a bar during the block and erase it afterwards."""
    if not is_stderr_terminal():
        yield
        return
    bar = ProgressBar(monotonic() + SHOW_AFTER_SECONDS)
    try:
        with listen(bar):
            yield
    finally:
        bar.clear()


class ProgressBar:
    def __init__(self, next_at: float) -> None:
        self._next_at = next_at
        self._is_drawn = False

    def __call__(self, what: str, done: int, total: int) -> None:
        if total and done >= total:  # the next line on the terminal may be output
            self.clear()
        elif monotonic() >= self._next_at:
            self.draw(format_progress(what, done, total))

    def draw(self, text: str) -> None:
        sys.stderr.write(f"\r{truncate(text, get_columns() - 1)}\x1b[K")
        sys.stderr.flush()
        self._is_drawn = True
        self._next_at = monotonic() + REDRAW_INTERVAL_SECONDS

    def clear(self) -> None:
        if self._is_drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._is_drawn = False


def format_progress(what: str, done: int, total: int) -> str:
    if not total:
        return f"{done:,} {what}"
    full = BAR_COLUMNS * min(done, total) // total
    return f"[{'#' * full}{'.' * (BAR_COLUMNS - full)}] {done:,} of {total:,} {what}"
