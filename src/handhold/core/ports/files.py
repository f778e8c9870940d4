"""The workspace: reading below its roots, and the transactions that change it."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

from handhold.core.facts import (
    DeclaredEncoding,
    FileHead,
    FileIdentity,
    FileSnapshot,
    FileStat,
    FolderEntry,
    Page,
)
from handhold.core.plans import Content, FileChange, FolderMtime, StagedContent
from handhold.core.ports.journal import IncompleteTransaction

MAX_EDITABLE_BYTES = 64 * 1024 * 1024  # larger files are read by page and never read whole
RESULTS_PATH = "/large_tool_results"  # the displayed path of the folder of kept outputs, wherever it is

T = TypeVar("T")


class FileView(Protocol):
    """Reading, beneath the roots and nowhere else. Every method raises the path errors of `errors`."""

    @property
    def roots(self) -> tuple[str, ...]: ...

    def resolve(self, path: str) -> str:
        """The one spelling of a path: absolute, links resolved; it need not exist."""
        ...

    def trace(self, path: str) -> Sequence[str]:
        """The place of a path, then the other names by which it leads there: as asked, and after each link."""
        ...

    def stat(self, path: str) -> FileStat | None:
        """File metadata at `path`, or None if it does not exist."""
        ...

    def read(self, path: str) -> FileSnapshot:
        """A regular file of at most MAX_EDITABLE_BYTES bytes, else TooLarge."""
        ...

    def read_head(self, path: str, count: int) -> FileHead:
        """The first bytes of a regular file, at most `count`."""
        ...

    def read_page(
        self, path: str, offset: int, limit: int, width: int, *, snapshot: FileSnapshot | None = None
    ) -> Page:
        """At most `limit` lines from line `offset` on, each cut to `width` characters.

        Of the file now, or of `snapshot`. PastEnd beyond the last line; a file without lines has an empty first page.
        """
        ...

    def count_lines(self, path: str) -> int:
        """How many lines a file has."""
        ...

    def declared_encoding(self, path: str) -> DeclaredEncoding | None:
        """The encoding that is declared for a path, whether or not the file exists. It does not raise."""
        ...

    def fingerprint(self, path: str) -> tuple[FileIdentity, str]:
        """Identity and content hash, read in pieces."""
        ...

    def is_writable(self, path: str) -> bool:
        """Whether the root that contains a path may be changed."""
        ...

    def suggest_paths(self, path: str) -> tuple[str, ...]:
        """Existing paths that a missing one may mean, likeliest first: in the same folder, or of the same name.

        The search is short, so the list may be incomplete.
        """
        ...

    def list_folder(self, path: str) -> Sequence[FolderEntry]:
        """What is in a folder."""
        ...

    def has_outside_link(self, path: str) -> bool:
        """Whether a file has a hard link outside the roots."""
        ...

    def list_hard_links(self, path: str) -> Sequence[str]:
        """The places of a file below the roots, if it has several; none if it has one."""
        ...

    def link_names(
        self, is_named: Callable[[str], bool], is_judged: Callable[[str], bool], spelled: Sequence[str]
    ) -> "LinkNames":
        """The names that links give to places.

        `is_named` tells whether links below a path are looked for, since a rule or protected name covers it; `spelled`
        are the paths that rules spell out. Only names that matter are returned.
        """
        ...

    def hidden_paths(
        self, is_denied: Callable[[str], bool], *, tops: Sequence[str] | None = None, local_only: bool = False
    ) -> "HiddenPaths":
        """The paths for which `is_denied` is true, given resolved paths; valid while the workspace is open.

        `tops` are places that contain all of them, if they are known. With `local_only`, network and FUSE mounts are
        not searched.
        """
        ...


class LinkNames(Protocol):
    """The other names that links on the disk give to places."""

    def find(self, place: str) -> Sequence[str]:
        """A place, and then those of its other names that matter."""
        ...

    def find_spelled(self, is_denied: Callable[[str], bool]) -> Iterable[str]:
        """The places of denied paths that a rule spells out and that lead through a link."""
        ...

    def held(self) -> AbstractContextManager[None]:
        """Within it, this thread looks at each folder once: for a judgement of many places."""
        ...


class HiddenPaths(Protocol):
    """Files that may not be read now, under the names that a rule covers and under every other name."""

    def paths(self, until: float | None = None) -> Sequence[str]:
        """Their resolved paths; for a folder that is hidden entirely, the folder.

        TimeoutError if they are not known at `until`, on the monotonic clock.
        """
        ...

    def files(self, until: float | None = None) -> Sequence[str]:
        """The hidden files one by one, including those in hidden folders. TimeoutError as above."""
        ...

    def hard_links(self) -> Mapping[tuple[int, int], str]:
        """Hidden files with several names, by device and inode, with the resolved path of a denied name."""
        ...

    def read_outside(self, place: str, count: int) -> Iterable[tuple[str, bytes]]:
        """The first bytes of one of `files` that is outside the roots, because a link with a denied name leads there.

        Of a folder, those of the files in it. Each with its name.
        """
        ...


class Transaction(Protocol):
    """A change set whose `before`s were current when it was opened. No other commit runs meanwhile."""

    @property
    def id(self) -> str: ...

    @property
    def files(self) -> tuple[FileChange, ...]:
        """The changes, with the directories to create and the modes of what is removed."""
        ...

    def apply(self) -> Mapping[str, FileIdentity]:
        """Apply all changes durably, or roll back and raise. Returns the identities of the written files."""
        ...

    def roll_back(self) -> None:
        """Undo `apply`, if the journal could not record it."""
        ...

    def clean_up(self, *, renew: Collection[str] = ()) -> None:
        """Remove what was kept for a rollback. Files in `renew` whose contents changed get the current time."""
        ...


class Files(FileView, Protocol):
    """The workspace: the view, and the transactions through which it changes."""

    def transaction(
        self, changes: Sequence[FileChange], times: Sequence[FolderMtime] = ()
    ) -> AbstractContextManager[Transaction]:
        """Stale if a file differs from its `before`. `times` are set after the changes of a command."""
        ...

    def exclusive(self) -> AbstractContextManager[None]:
        """Block every transaction on this workspace, in any process."""
        ...

    def recover(self, incomplete: "IncompleteTransaction") -> tuple[str, ...]:
        """Finish or roll back a dead process's transaction. Returns paths that were changed since. Hold `exclusive`."""
        ...

    def is_current(self, path: str, content: Content) -> bool:
        """Whether a path has this content: by inode and time, else by content and mode."""
        ...

    def describe(self, path: str) -> StagedContent | None:
        """What is at a path, of whatever kind; None if nothing is. It has no slot."""
        ...

    def stage(self, changes: Sequence[FileChange]) -> AbstractContextManager[Sequence[FileChange]]:
        """The same changes with slots, so that one transaction can commit them with a command's; `before` is what
        `describe` returned or its content. Stale if it is not that any more. Dropped at the end unless committed."""
        ...

    def read_staged(self, content: StagedContent, path: str) -> bytes | None:
        """The bytes of a staged file or link, from its slot or its path; None if it is in neither, or too large."""
        ...

    def list_staged_tree(self, content: StagedContent, path: str, limit: int) -> Sequence[tuple[str, StagedContent]]:
        """The first `limit` entries of a staged tree, by relative path, from its slot or its path; not read."""
        ...

    def exact_hash(self, content: StagedContent, path: str) -> str | None:
        """A hash of kind, mode, owner and content of a staged entry, for a tree of everything in it.

        None if it is neither in its slot nor at its path.
        """
        ...

    def is_staged(self, content: StagedContent) -> bool:
        """Whether it is still in its slot."""
        ...

    def with_io_timeout(self, work: Callable[[], T], raise_if_cancelled: Callable[[], None]) -> T:
        """The result of `work`, which only reads the workspace.

        SystemFailure if the file system does not answer; or what `raise_if_cancelled` raises meanwhile.
        """
        ...

    def close(self) -> None: ...
