"""What a model can ask for, once a dialect has read the call."""

from dataclasses import dataclass
from typing import Literal

Matching = Literal["exact", "safe", "bold"]  # how far an edit may go to find its place


@dataclass(frozen=True)
class Limits:
    """How much of a file one page shows."""

    lines: int
    line_chars: int
    chars: int
    refuse_long: bool = False  # a page over `chars` is an error; else it ends earlier
    whole_bytes: int | None = None  # a larger file must be asked for by offset or limit


@dataclass(frozen=True)
class Read:
    path: str
    limits: Limits
    offset: int | None = None  # lines count from 1
    limit: int | None = None


@dataclass(frozen=True)
class Write:
    path: str
    content: str


@dataclass(frozen=True)
class Replacement:
    """One text for another; `every` place where it stands, or the only one."""

    old: str
    new: str
    every: bool = False


@dataclass(frozen=True)
class Edit:
    path: str
    edit: Replacement


@dataclass(frozen=True)
class MultiEdit:
    path: str
    edits: tuple[Replacement, ...]


Request = Read | Write | Edit | MultiEdit
