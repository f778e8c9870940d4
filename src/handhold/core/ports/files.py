"""The workspace: reading below its roots, and the transactions that change it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

from handhold.core.facts import (
    DeclaredEncoding,
    FileHead,
    FileIdentity,
    FileSnapshot,
    FileStat,
    Page,
)
from handhold.core.plans import Content, FileChange, FolderMtime, StagedContent
from handhold.core.ports.journal import IncompleteTransaction

MAX_EDITABLE_BYTES = 64 * 1024 * 1024  # larger files are read by page and never held whole

T = TypeVar("T")


class FileView(Protocol):
    """Reading, beneath the roots and nowhere else. Every method raises the path errors of `errors`."""

    @property
    def roots(self) -> tuple[str, ...]: ...

    def resolve(self, path: str) -> str:
        """The one spelling of a path: absolute, links resolved; it need not exist."""
        ...

    def stat(self, path: str) -> FileStat | None:
        """What stands there; None if nothing does."""
        ...

    def read(self, path: str) -> FileSnapshot:
        """A regular file of at most MAX_EDITABLE_BYTES bytes, else TooLarge."""
        ...

    def read_head(self, path: str, count: int) -> FileHead:
        """How a regular file begins: at most `count` bytes of it."""
        ...

    def read_page(
        self, path: str, offset: int, limit: int, width: int, *, snapshot: FileSnapshot | None = None
    ) -> Page:
        """At most `limit` lines from line `offset` on, each cut to `width` characters.

        Of the file as it is, or as it was read. PastEnd beyond the last line; a file without lines has a first page
        with nothing on it.
        """
        ...

    def count_lines(self, path: str) -> int:
        """How many lines a file has."""
        ...

    def declared_encoding(self, path: str) -> DeclaredEncoding | None:
        """What is said about the encoding of a file, whether it is there or not. It raises nothing."""
        ...

    def fingerprint(self, path: str) -> tuple[FileIdentity, str]:
        """Identity and content hash, read in pieces."""
        ...

    def is_writable(self, path: str) -> bool:
        """Whether the root that a path lies in may be changed."""
        ...

    def suggest_paths(self, path: str) -> tuple[str, ...]:
        """Paths that may be meant by one that leads to nothing, the likeliest first: beside it, or of the same name.

        Found in a short time, and so not always all of them.
        """
        ...

    def has_outside_link(self, path: str) -> bool:
        """Whether a file has another name, a hard link, that does not lie below the roots."""
        ...

    def hidden_paths(self, is_denied: Callable[[str], bool], *, local_only: bool = False) -> "HiddenPaths":
        """What of the workspace `is_denied` names, of places really spelled; for as long as the workspace is open.

        With `local_only`, nothing is looked up in folders that another machine or process serves.
        """
        ...


class HiddenPaths(Protocol):
    """Files that may not be read, as of now: under the names that a rule is about, and under every other."""

    def paths(self, until: float | None = None) -> Sequence[str]:
        """Where they are, really spelled; of a folder that is hidden whole, the folder.

        TimeoutError if that is not known at `until`, on the monotonic clock.
        """
        ...

    def files(self, until: float | None = None) -> Sequence[str]:
        """The files among them one by one, also those in folders that are hidden whole. TimeoutError likewise."""
        ...

    def hard_links(self) -> Mapping[tuple[int, int], str]:
        """Those files that have several names, by device and inode: a denied one of each, really spelled."""
        ...


class Transaction(Protocol):
    """A set of changes whose `before`s were true when it was opened. Nobody else commits meanwhile."""

    @property
    def id(self) -> str: ...

    @property
    def files(self) -> tuple[FileChange, ...]:
        """The changes with what they bring along: directories to be made, the mode of what goes away."""
        ...

    def apply(self) -> Mapping[str, FileIdentity]:
        """All of them, durably, or none: what fails is taken back and raised. Identities of the files written."""
        ...

    def roll_back(self) -> None:
        """Undo `apply`, for when the journal could not say that it happened."""
        ...

    def clean_up(self, *, renew: Collection[str] = ()) -> None:
        """Throw away what was kept for taking back. Files of `renew` that got other contents are of this moment."""
        ...


class Files(FileView, Protocol):
    """The workspace: the view, and the one door through which it changes."""

    def transaction(
        self, changes: Sequence[FileChange], times: Sequence[FolderMtime] = ()
    ) -> AbstractContextManager[Transaction]:
        """Stale if a file is no longer its `before`. `times` are set once the changes of a command are made."""
        ...

    def exclusive(self) -> AbstractContextManager[None]:
        """Hold off every transaction on this workspace, of any process."""
        ...

    def recover(self, incomplete: "IncompleteTransaction") -> tuple[str, ...]:
        """Finish or take back what a dead process left; name the paths that somebody changed since. Call it alone."""
        ...

    def is_current(self, path: str, content: Content) -> bool:
        """Whether this very thing is there: by its inode and time, else by what it holds and its mode."""
        ...

    def read_staged(self, content: StagedContent, path: str) -> bytes | None:
        """What a shelved file or link holds, in its slot or at its path; None if it is neither, or too large."""
        ...

    def list_staged_tree(self, content: StagedContent, path: str, limit: int) -> Sequence[tuple[str, StagedContent]]:
        """What lies in a shelved tree, in its slot or at its path, by the way there: the first of it, unread."""
        ...

    def exact_hash(self, content: StagedContent, path: str) -> str | None:
        """Of all that a shelved thing is, in its slot or at its path: kind, mode, owner and content, of a tree of all
        that is in it. The same hash means the same thing; None if it is in neither place."""
        ...

    def is_staged(self, content: StagedContent) -> bool:
        """Whether its slot still holds it."""
        ...

    def with_io_timeout(self, work: Callable[[], T], raise_if_cancelled: Callable[[], None]) -> T:
        """What this work gives, which reads here and changes nothing.

        SystemFailure if what lies beneath falls silent; whatever `raise_if_cancelled` raises, meanwhile.
        """
        ...

    def close(self) -> None: ...
