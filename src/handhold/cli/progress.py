"""How far long work has come: a bar on standard error, if a person looks and it takes more than a second."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from time import monotonic

from handhold.cli.screen import columns, fitted
from handhold.progress import looking

PATIENCE = 1.0  # seconds before it is worth telling
PAUSE = 0.1  # seconds between two drawings
BAR = 24  # columns


@contextmanager
def watched() -> Generator[None]:
    """While this is done. The bar is gone when it is: what remains on the terminal is the reply."""
    if not sys.stderr.isatty():
        yield
        return
    bar = Bar(monotonic() + PATIENCE)
    try:
        with looking(bar):
            yield
    finally:
        bar.wipe()


class Bar:
    def __init__(self, next_at: float) -> None:
        self._next_at = next_at
        self._drawn = False

    def __call__(self, what: str, done: int, of: int) -> None:
        if of and done >= of:  # somebody may print something next
            self.wipe()
        elif monotonic() >= self._next_at:
            self.draw(line(what, done, of))

    def draw(self, said: str) -> None:
        sys.stderr.write(f"\r{fitted(said, columns() - 1)}\x1b[K")
        sys.stderr.flush()
        self._drawn = True
        self._next_at = monotonic() + PAUSE

    def wipe(self) -> None:
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._drawn = False


def line(what: str, done: int, of: int) -> str:
    if not of:
        return f"{done:,} {what}"
    full = BAR * min(done, of) // of
    return f"[{'#' * full}{'.' * (BAR - full)}] {done:,} of {of:,} {what}"
