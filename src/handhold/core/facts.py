"""What is known of a file at one moment."""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Kind = Literal["file", "directory", "other"]


@dataclass(frozen=True)
class Identity:
    """Which file it was, and in which state, as far as the file system tells."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


@dataclass(frozen=True)
class Look:
    """What stands at a path: its one spelling, links resolved, its identity and its permission bits."""

    path: str
    kind: Kind
    identity: Identity
    mode: int


@dataclass(frozen=True)
class Whole:
    """A file, read at one moment."""

    path: str
    data: bytes = field(repr=False)
    hash: str
    identity: Identity


class Line(NamedTuple):  # a page has two thousand of them, and a tuple is made in half the time
    """A line as shown: its text, and how many characters of it were left out."""

    text: str
    cut: int = 0


@dataclass(frozen=True)
class Page:
    """Some lines of a file, cut to a width, and what was seen of it on the way."""

    path: str
    first: int
    lines: tuple[Line, ...]
    more: bool  # the file goes on after the last line
    total: int | None  # None: nobody counted to the end
    encoding: str
    replaced: bool  # some bytes could not be decoded and are shown as U+FFFD
    identity: Identity
    span: tuple[int, int]  # the bytes shown
    span_hash: str
    whole: Whole | None  # the file itself, where it was small enough to be read at once
