"""What a call would do.

A plan is an answer already known, a set of file changes, or a search. Contents go by reference, so that a set of
fifty thousand files is a list and not a heap of bytes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256

from handhold.core.facts import Page
from handhold.core.requests import Glob, Grep, ListFiles
from handhold.core.results import Result


def digest(data: bytes) -> str:
    """The name of a content."""
    return sha256(data).hexdigest()


@dataclass(frozen=True)
class Bytes:
    """Content at hand."""

    data: bytes = field(repr=False)

    @cached_property
    def hash(self) -> str:
        return digest(self.data)

    @property
    def size(self) -> int:
        return len(self.data)


@dataclass(frozen=True)
class Stored:
    """Content that the store holds, or that lies on the disk and is only compared."""

    hash: str
    size: int


@dataclass(frozen=True)
class Directory:
    """A directory: it has no content of its own."""

    hash: str = "directory"
    size: int = 0


Content = Bytes | Stored | Directory


@dataclass(frozen=True)
class FileChange:
    """One path before and after; None is absent. `mode` holds permission bits for a file that is made anew."""

    path: str
    before: Content | None
    after: Content | None
    mode: int | None = None

    def reversed(self) -> "FileChange":
        return FileChange(self.path, self.after, self.before, self.mode)

    @property
    def idle(self) -> bool:
        """Whether the file is the same afterwards."""
        return hash_of(self.before) == hash_of(self.after)

    @property
    def of_directory(self) -> bool:
        return isinstance(self.before or self.after, Directory)


def hash_of(content: Content | None) -> str | None:
    return content.hash if content else None


@dataclass(frozen=True)
class Answer:
    """Known already: nothing has to happen, except that the session has now seen `page`."""

    result: Result
    page: Page | None = None


@dataclass(frozen=True)
class Changes:
    """Files to write, all or none, and what can be said once they are."""

    files: tuple[FileChange, ...]
    result: Result
    whole: bool  # the model wrote these files itself from end to end, so it has seen them
    seen: frozenset[str] = frozenset()  # of several files, those that it knows from end to end

    def __iter__(self) -> Iterator[FileChange]:
        return iter(self.files)


@dataclass(frozen=True)
class Search:
    """Something to look for at a place, from where an earlier page ended: `start` items on, or after the name `after`.

    `state` is the checksum that the earlier page ended with; None for a first page.
    """

    request: ListFiles | Glob | Grep
    place: str
    seconds: float
    start: int = 0
    after: str = ""
    state: int | None = None


Plan = Answer | Changes | Search
