"""The append-only record of calls and their changes."""

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

from handhold.core.plans import FileChange, InlineContent


@dataclass(frozen=True)
class Call:
    """A call: who asked for what."""

    session: str
    turn: str
    call_id: str
    tool: str
    arguments: str  # canonical JSON
    dialect: str


@dataclass(frozen=True)
class CallDecision:
    """Why a call was carried out or refused."""

    verdict: Literal["allowed", "approved", "refused"]
    rule: str = ""  # with the file that contains it
    by: str = ""  # who approved


@dataclass(frozen=True)
class Outcome:
    """How a call ended. `reply` is sent again if the call is repeated."""

    status: str
    code: str | None
    time_ms: float
    reply: str | None


@dataclass(frozen=True)
class JournalEntry:
    """A call in the journal. `changed` is the number of files; `undone` is whether its change is undone now."""

    seq: int
    at: float
    call: Call
    decision: str  # the verdict; empty if none was reached
    rule: str  # that decided, with the file that contains it
    approver: str
    outcome: Outcome | None  # None if it never finished
    paths: tuple[str, ...]  # the first hundred
    changed: int
    takes_back: tuple[int, ...]  # the calls that an undo or redo reversed
    undone: bool
    kept: bool  # whether the contents for its undo are still kept
    redone_by: int = 0  # the last redo that put it into effect again

    @property
    def succeeded(self) -> bool:
        return self.outcome is not None and self.outcome.status in ("success", "partial")


@dataclass(frozen=True)
class IncompleteTransaction:
    """A transaction that a dead process left: without an outcome, or not cleaned up."""

    seq: int
    transaction: str
    files: tuple[FileChange, ...]
    is_recorded: bool


@dataclass(frozen=True)
class JournalVerification:
    """The result of checking every record of the journal. Each record is hashed with all records before it.

    The head is the last of these hashes. Kept elsewhere, it shows later whether any record up to it was rewritten.
    """

    count: int
    head: str
    problem: str | None = None
    at: int | None = None  # the first bad record; None if the problem is in no single one
    noted_at: int | None = None  # the record with the noted head, if it is in the chain


class Journal(Protocol):
    """Append-only: the intent of each call, and its outcome."""

    def begin(self, call: Call) -> int: ...

    def record_call(self, call: Call, outcome: Outcome, *, decision: CallDecision | None = None) -> None:
        """Record a call and its outcome at once: for one that only read, or was refused before it changed anything."""
        ...

    def record_intent(
        self,
        seq: int,
        transaction: str,
        files: Sequence[FileChange],
        *,
        decision: CallDecision,
        reverses: Sequence[int] = (),
        withheld: Collection[str] = (),
        texts: Sequence[InlineContent] = (),
    ) -> Sequence[JournalEntry]:
        """Record the changes durably, with the contents that they carry, and `texts` that a later undo may merge.
        `withheld` are hashes that no hub may get.

        Returns the calls whose undo has to be given up for lack of room. They are dropped only after `record_outcome`
        was called with them, that is, after the reply named them.
        """
        ...

    def record_outcome(
        self,
        seq: int,
        outcome: Outcome,
        *,
        durable: bool,
        decision: CallDecision | None = None,
        dropped_undo: Sequence[int] = (),
    ) -> None:
        """`decision` is for a call without an intent: one that only read, or was refused.

        `dropped_undo` are the calls whose undo the reply gives up: later intents may drop it.
        """
        ...

    def mark_cleaned_up(self, seq: int) -> None:
        """Record that a transaction is cleaned up."""
        ...

    def incomplete_transactions(self) -> Sequence[IncompleteTransaction]: ...

    def find_call(self, session: str, turn: str, call_id: str) -> JournalEntry | None:
        """The last call with this id in this turn that succeeded; if none did, the last one."""
        ...

    def entries(self, *, session: str | None = None, last: int | None = None) -> Sequence[JournalEntry]:
        """Oldest first."""
        ...

    def find_changes(
        self,
        session: str,
        *,
        undone: bool | None,
        call: str | int | tuple[int, ...] = "",
        turn: str = "",
        last: int | None = None,
        with_foreign: bool = False,
    ) -> Sequence[JournalEntry]:
        """The calls that changed files, in the order of time: one that was redone comes where its last redo is.

        `call` is an id, or a number in the journal, `7` or `"#7"`, or several numbers. Undos and redos are not among
        them. With `undone=False`, what others changed while the same calls ran comes along: it is undone together.
        `with_foreign` adds what was changed since, outside every call.
        """
        ...

    def find_undos(
        self, session: str, *, of: Collection[int] | None = None, since: int = 0, last: int | None = None
    ) -> Sequence[JournalEntry]:
        """The undos after `since` that are in effect, oldest first: all, or those that undid one of these calls."""
        ...

    def find_reversals(self, calls: Collection[int]) -> Sequence[JournalEntry]:
        """The undos of any of these calls, and the redos of these undos, oldest first."""
        ...

    def changes_of(self, seq: int) -> tuple[FileChange, ...]:
        """The changes of a call, contents by hash."""
        ...

    def last_writer(self, path: str, hash: str) -> str:
        """The session that last wrote this content to this file; empty if none did."""
        ...

    def verify(self, noted_head: str = "") -> JournalVerification:
        """Check that no record was changed, removed or reordered, and whether a noted head is in the chain."""
        ...

    def one_transaction(self, *, durable: bool = False) -> AbstractContextManager[None]:
        """Everything that is recorded inside takes effect at once, or not at all. Others wait: read no files here."""
        ...

    def exclusive(self, *, wait: bool = True) -> AbstractContextManager[None]:
        """Lock this state against every other thread and process. Do not nest it.

        Busy after half a minute, or at once without `wait`. A commit holds it from before `record_intent` until
        `mark_cleaned_up`, so under the lock an incomplete transaction has no living owner.
        """
        ...
