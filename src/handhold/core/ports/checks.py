"""Checks what a change did to a file, by its text alone or by a program."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class TextError:
    """An error in a text, from its first line to its last; both start with 1."""

    line: int
    column: int
    message: str
    last_line: int = 0
    cell: str = ""  # of a notebook
    text: str = ""  # the line


class SyntaxChecker(Protocol):
    """Finds the syntax errors that a change made."""

    def get_max_bytes(self, path: str) -> int:
        """How large a file may be to be checked; 0 if its language is not known or has no parser here."""
        ...

    def find_new_errors(self, path: str, before: bytes | None, after: bytes) -> tuple[TextError, ...]:
        """Errors in `after` that were not in `before`; None if the file was not there."""
        ...
