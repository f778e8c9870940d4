"""Reads the journal in pages: for the review page, on one workspace or on a hub with ten million records.

No request reads everything. A page has a cursor to the next one, and says how many records were examined for it: with a
filter that no index serves, a page may be short or empty although more calls match further on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Literal, Protocol, TypeVar

from handhold.core.ports.journal import JournalEntry

T = TypeVar("T")

DecisionName = Literal["allowed", "approved", "refused"]
BEYOND_ALL = 2**62  # the number of no record


@dataclass(frozen=True)
class RecordPage(Generic[T]):
    """Some records, newest first. `next_cursor` is opaque, and empty at the end."""

    items: tuple[T, ...]
    next_cursor: str = ""
    examined: int = 0


@dataclass(frozen=True)
class SessionSummary:
    """A session in numbers. Times are in seconds since 1970."""

    name: str
    first_at: float
    last_at: float
    calls: int
    turns: int
    failed: int
    changes: int  # calls that changed files
    undone: int  # of these


@dataclass(frozen=True)
class TurnSummary:
    session: str
    name: str
    first_at: float
    last_at: float
    calls: int


@dataclass(frozen=True)
class CallFilter:
    """Which calls to list; an empty field selects all.

    path: a glob over absolute paths that the call changed or names in its arguments.
    text: a part of the arguments or the reply, in any case.
    """

    session: str = ""
    turn: str | None = None
    path: str = ""
    tool: str = ""
    decision: DecisionName | Literal[""] = ""
    text: str = ""


@dataclass(frozen=True)
class CallMark:
    """A call as a mark in the picture of a run."""

    seq: int
    at: float
    seconds: float | None  # None: not finished
    tool: str
    failed: bool
    asked: bool  # a person was asked
    changed: bool
    undone: bool


@dataclass(frozen=True)
class RunningCall:
    """A call that has begun and not ended, in a process that is alive."""

    entry: JournalEntry
    process: int


@dataclass(frozen=True)
class RecordVersion:
    """Changes whenever something is recorded, asked or answered."""

    records: int
    questions: int
    answers: int


class Records(Protocol):
    """The journal, to be read by people."""

    def version(self) -> RecordVersion: ...

    def list_sessions(self, *, cursor: str = "", limit: int) -> RecordPage[SessionSummary]:
        """By their last call."""
        ...

    def count_sessions(self) -> int: ...

    def find_session(self, name: str) -> SessionSummary | None: ...

    def list_turns(self, session: str, names: Sequence[str]) -> Sequence[TurnSummary]:
        """These turns of a session."""
        ...

    def list_calls(
        self, wanted: CallFilter, *, cursor: str = "", limit: int, with_replies: bool = False
    ) -> RecordPage[JournalEntry]:
        """Newest first. Replies are read if they are wanted, or searched."""
        ...

    def find_neighbours(self, seq: int) -> tuple[int, int]:
        """The calls before and after this one in its session; 0 if there is none."""
        ...

    def find_entry(self, seq: int) -> JournalEntry | None:
        """One call, with its reply if that is still kept."""
        ...

    def list_path_changes(self, path: str, *, cursor: str = "", limit: int) -> RecordPage[JournalEntry]:
        """The calls of all sessions that changed a path, or tried to."""
        ...

    def list_tools(self, session: str) -> Sequence[str]:
        """The names of the tools that a session has called."""
        ...

    def list_marks(self, session: str, *, limit: int) -> Sequence[CallMark]:
        """The last calls of a session, oldest first."""
        ...

    def list_running(self) -> Sequence[RunningCall]: ...

    def read_output(self, seq: int, offset: int = 0) -> tuple[bytes, int] | None:
        """The output of a command so far, from an offset on, and where it ends; None if none was recorded."""
        ...

    def measure_output(self, seq: int) -> int:
        """How many bytes of a command's output are recorded so far."""
        ...


def parse_cursor(cursor: str) -> int:
    """The number of a call to go on before. An invalid cursor starts at the newest record."""
    return int(cursor) if cursor.isdecimal() and len(cursor) <= 18 else BEYOND_ALL
