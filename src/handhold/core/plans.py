"""What a call would do.

A plan is an answer already known, a set of file changes, a search, or a file to be converted. Contents go by reference,
so that a set of fifty thousand files is a list and not a heap of bytes.
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
    """The name of a content."""
    return sha256(data).hexdigest()


@dataclass(frozen=True)
class InlineContent:
    """Content at hand."""

    data: bytes = field(repr=False)

    @cached_property
    def hash(self) -> str:
        return digest(self.data)

    @property
    def size(self) -> int:
        return len(self.data)


@dataclass(frozen=True)
class ContentRef:
    """Content that the store holds, or that lies on the disk and is only compared."""

    hash: str
    size: int


@dataclass(frozen=True)
class Directory:
    """A directory: it has no content of its own."""

    hash: str = "directory"
    size: int = 0


@dataclass(frozen=True)
class StagedContent:
    """A thing that changes places, by a rename, with what stands at its path: a file, a link, a whole tree, whatever.

    Before the change the new thing lies in the slot, afterwards the old one: both sides of a change name one slot.
    So a command's work is taken over as it is, and taken back as it was, inodes, times and attributes included.
    """

    slot: str  # of the shelf, "<command>/<number>"
    kind: Literal["file", "link", "tree", "other"]
    hash: str  # of a file's content, of a link's target, of a tree's manifest
    size: int  # bytes, of a tree all together
    mode: int
    inode: tuple[int, int]  # device and number
    mtime_ns: int
    entry_count: int = 1  # of a tree: everything in it, and itself
    owner: int | None = None  # the user id, if Handhold runs as another; not kept in the journal
    allocated: int = field(default=0, compare=False)  # bytes on the disk, of a tree all together; not kept either


@dataclass(frozen=True)
class DirectoryMetadata:
    """A directory that was there and stays. Its owner and its attributes are None where they do not change."""

    mode: int
    owner: tuple[int, int] | None = None  # user and group
    xattrs: tuple[tuple[str, bytes], ...] | None = None  # access lists among them

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
    """One path before and after; None is absent. `mode` holds permission bits for a file that is made anew."""

    path: str
    before: Content | None
    after: Content | None
    mode: int | None = None

    def invert(self) -> "FileChange":
        return FileChange(self.path, self.after, self.before, self.mode)

    @property
    def is_noop(self) -> bool:
        """Whether the file is the same afterwards."""
        return hash_or_none(self.before) == hash_or_none(self.after)

    @property
    def is_directory(self) -> bool:
        return isinstance(self.before or self.after, Directory)


def hash_or_none(content: Content | None) -> str | None:
    return content.hash if content else None


@dataclass(frozen=True)
class Answer:
    """Known already: nothing has to happen, except that the session has now seen these pages."""

    result: Result
    pages: tuple[Page, ...] = ()
    parts: ShownParts | None = None  # and these, of a file that is not text


@dataclass(frozen=True)
class Changes:
    """Files to write, all or none, and what can be said once they are."""

    files: tuple[FileChange, ...]
    result: Result
    is_full_write: bool  # the model wrote these files itself from end to end, so it has seen them
    fully_seen_paths: frozenset[str] = frozenset()  # of several files, those that it knows from end to end
    invalidates_reads: bool = False  # what it knows of them is out of date now, though it wrote them itself

    def __iter__(self) -> Iterator[FileChange]:
        return iter(self.files)


@dataclass(frozen=True)
class Search:
    """Something to look for at a place, from where an earlier page ended: `start` items on, or after the name `after`.

    `checksum` is the checksum that the earlier page ended with; None for a first page.
    """

    request: ListFiles | Glob | Grep
    place: str
    timeout_seconds: float
    start: int = 0
    after: str = ""
    checksum: int | None = None
    max_entries: int | None = None  # the most that are visited, in the order of paths; None: all


@dataclass(frozen=True)
class Convert:
    """A file that is not text, to be shown all the same: an image, or some pages of a PDF."""

    request: Read
    snapshot: FileSnapshot
    medium: Medium
    pages: tuple[int, ...] = ()
    include_images: bool = False  # of every page a picture, and not only of those without text
    chars: int = 0  # room for text, and for pictures at their price


@dataclass(frozen=True)
class Command:
    """A command to run."""

    request: Run


@dataclass(frozen=True)
class JobAction:
    """A question to a command that runs in the background."""

    request: JobOutput | JobInput | JobStop


@dataclass(frozen=True)
class Restart:
    """A lasting shell begins anew."""


@dataclass(frozen=True)
class Conflict:
    """A path that a command changed, and somebody else meanwhile: theirs stays, the command's version is kept."""

    path: str
    kind: ConflictKind
    kept_path: str = ""  # where the command's version can be read, if there is one


@dataclass(frozen=True)
class FolderMtime:
    """When a folder that stays was last changed (its mtime), without the command and by it.

    A time is no content: it is never a conflict, and a command that changed nothing else has nothing to undo.
    """

    path: str
    before: int
    after: int


@dataclass(frozen=True)
class Effects:
    """What a command did, as changes that have not been made yet."""

    files: tuple[FileChange, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    protected: tuple[str, ...] = ()  # the places among them, also inside new trees, that nobody changes unasked
    privileged: tuple[str, ...] = ()  # those that would run with rights of their own (set-user-id, …), and devices
    notes: tuple[str, ...] = ()  # what a shadow could not do as a plain folder would
    folder_mtimes: tuple[FolderMtime, ...] = ()  # of folders that it changed something in, or touched

    def exclude(self, conflicts: Sequence[Conflict]) -> "Effects":
        """Without the changes of these paths. What is in them stays protected where another change is about it."""
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
