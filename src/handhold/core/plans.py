"""Plans: what a call would do.

A plan is an answer already known, a set of file changes, a search, or a file to convert. Contents are referenced, so
that a change set of fifty thousand files stays small in memory.
"""

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from typing import Literal

from handhold.core.facts import ConflictKind, FileSnapshot, Medium, Page, ShownParts
from handhold.core.requests import Glob, Grep, JobInput, JobOutput, JobStop, ListFiles, Read, Run
from handhold.core.results import Result


def digest(data: bytes) -> str:
    """The hash by which a content is identified."""
    return sha256(data).hexdigest()


@dataclass(frozen=True)
class InlineContent:
    """Content in memory."""

    data: bytes = field(repr=False)
    known_hash: str = field(default="", repr=False, compare=False)

    @cached_property
    def hash(self) -> str:
        return self.known_hash or digest(self.data)

    @property
    def size(self) -> int:
        return len(self.data)


@dataclass(frozen=True)
class ContentRef:
    """Content that is in the store, or on disk and only compared."""

    hash: str
    size: int


@dataclass(frozen=True)
class Directory:
    """A directory, which has no content of its own."""

    hash: str = "directory"
    size: int = 0


@dataclass(frozen=True)
class StagedContent:
    """A file, link or tree that is swapped by rename with whatever is at its path.

    The slot holds the new entry before the change and the old one afterwards, so both sides of a change name the same
    slot. A command's changes are applied and undone exactly, including inodes, times and attributes.
    """

    slot: str  # in the staging area, "<command>/<number>"
    kind: Literal["file", "link", "tree", "other"]
    hash: str  # of a file's content, a link's target or a tree's manifest
    size: int  # bytes; for a tree, in total
    mode: int
    inode: tuple[int, int]  # device and inode number
    mtime_ns: int
    entry_count: int = 1  # for a tree: all its entries and itself
    owner: int | None = None  # the user id, if Handhold runs as another user; not stored in the journal
    allocated: int = field(default=0, compare=False)  # bytes on disk, for a tree in total; not stored either

    @property
    def command(self) -> str:
        """The command that filled the slot."""
        return self.slot.partition("/")[0]


@dataclass(frozen=True)
class DirectoryMetadata:
    """A directory that existed and stays. `owner` and `xattrs` are None if they do not change."""

    mode: int
    owner: tuple[int, int] | None = None  # user id and group id
    xattrs: tuple[tuple[str, bytes], ...] | None = None  # including access control lists

    @property
    def hash(self) -> str:
        owner = "" if self.owner is None else " owner {} {}".format(*self.owner)
        named = ((name.encode("utf-8", "surrogateescape").hex(), value.hex()) for name, value in self.xattrs or ())
        return f"folder {self.mode:o}{owner}" + "".join(f" {name}={value}" for name, value in named)

    @property
    def size(self) -> int:
        return 0


Content = InlineContent | ContentRef | Directory | StagedContent | DirectoryMetadata


@dataclass(frozen=True)
class FileChange:
    """One path before and after; None means absent. `mode` holds the permission bits for a new file."""

    path: str
    before: Content | None
    after: Content | None
    mode: int | None = None

    def invert(self) -> "FileChange":
        return FileChange(self.path, self.after, self.before, self.mode)

    @property
    def is_noop(self) -> bool:
        """Whether the content stays the same."""
        return hash_or_none(self.before) == hash_or_none(self.after)

    @property
    def is_directory(self) -> bool:
        return isinstance(self.before or self.after, Directory)


def hash_or_none(content: Content | None) -> str | None:
    return content.hash if content else None


@dataclass(frozen=True)
class Answer:
    """A result that is already known. The session has then seen these pages and parts."""

    result: Result
    pages: tuple[Page, ...] = ()
    parts: ShownParts | None = None  # of a file that is not text


@dataclass(frozen=True)
class Changes:
    """Files to write, all or none, and the result to report once they are written."""

    files: tuple[FileChange, ...]
    result: Result
    is_full_write: bool  # the model wrote the complete files itself, so it has seen them
    fully_seen_paths: frozenset[str] = frozenset()  # those of several files that the session has seen completely
    invalidates_reads: bool = False  # read records become stale, although the session itself wrote the files

    def __iter__(self) -> Iterator[FileChange]:
        return iter(self.files)


@dataclass(frozen=True)
class Search:
    """A search at a place. A later page starts after `start` items, or after the name `after`.

    `checksum` is the one that the previous page ended with; None for a first page.
    """

    request: ListFiles | Glob | Grep
    place: str
    timeout_seconds: float
    start: int = 0
    after: str = ""
    checksum: int | None = None
    max_entries: int | None = None  # how many entries are visited, in path order; None: all


@dataclass(frozen=True)
class Convert:
    """A file that is not text but can be shown: an image, or some pages of a PDF."""

    request: Read
    snapshot: FileSnapshot
    medium: Medium
    pages: tuple[int, ...] = ()
    include_images: bool = False  # an image of every page, not only of pages without text
    chars: int = 0  # room for text, and for images at their cost


@dataclass(frozen=True)
class Command:
    """A command to run."""

    request: Run


@dataclass(frozen=True)
class JobAction:
    """A request about a background command."""

    request: JobOutput | JobInput | JobStop


@dataclass(frozen=True)
class Restart:
    """Reset a persistent shell."""


@dataclass(frozen=True)
class Conflict:
    """A path that both a command and somebody else changed: theirs stays, the command's version is kept aside."""

    path: str
    kind: ConflictKind
    kept_path: str = ""  # where the command's version can be read, if there is one


@dataclass(frozen=True)
class FolderMtime:
    """The mtime of a folder that stays, without the command and after it.

    An mtime is not content: it never conflicts, and a command that changed nothing else has nothing to undo.
    """

    path: str
    before: int
    after: int


@dataclass(frozen=True)
class Effects:
    """A command's changes, not yet applied."""

    files: tuple[FileChange, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    protected: tuple[str, ...] = ()  # protected places among them, also inside new trees: changing them needs approval
    privileged: tuple[str, ...] = ()  # set-user-id and similar files, and devices
    notes: tuple[str, ...] = ()  # where the overlay behaved differently from a plain folder
    folder_mtimes: tuple[FolderMtime, ...] = ()  # of folders that it touched or changed entries in
    refused: tuple[str, ...] = ()  # places that it was not allowed to change, because a rule denies it

    def exclude(self, conflicts: Sequence[Conflict]) -> "Effects":
        """Leave out the changes of these paths. Places below them stay protected where another change covers them."""
        paths = {each.path for each in conflicts}
        files = tuple(change for change in self.files if change.path not in paths)
        left = {change.path for change in files}

        def should_keep(place: str) -> bool:
            return not _is_within(place, paths) or _is_within(place, left)

        protected, privileged = (tuple(filter(should_keep, places)) for places in (self.protected, self.privileged))
        return replace(
            self, files=files, conflicts=(*self.conflicts, *conflicts), protected=protected, privileged=privileged
        )


def _is_within(place: str, paths: Set[str]) -> bool:
    while place and place not in paths:
        place = place.rpartition("/")[0]
    return bool(place)


Plan = Answer | Changes | Search | Convert | Command | JobAction | Restart
