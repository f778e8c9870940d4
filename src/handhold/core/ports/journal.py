"""The append-only record of calls and their changes."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

from handhold.core.plans import FileChange


@dataclass(frozen=True)
class Call:
    """Who asked for what."""

    session: str
    turn: str
    call_id: str
    tool: str
    arguments: str  # canonical JSON
    dialect: str


@dataclass(frozen=True)
class CallDecision:
    """Why a call went ahead, or did not."""

    verdict: Literal["allowed", "approved", "refused"]
    rule: str = ""  # with where it is written
    by: str = ""  # who approved


@dataclass(frozen=True)
class Outcome:
    """How a call ended. `reply` is what a repeated call gets again."""

    status: str
    code: str | None
    time_ms: float
    reply: str | None


@dataclass(frozen=True)
class JournalEntry:
    """A call in the journal. `changed` counts files; `undone` tells whether it stands taken back."""

    seq: int
    at: float
    call: Call
    decision: str  # the verdict; empty: it never came to one
    rule: str  # that decided, with where it is written
    approver: str
    outcome: Outcome | None  # None: it never came to an end
    paths: tuple[str, ...]  # the first hundred
    changed: int
    takes_back: tuple[int, ...]  # for an undo or redo: the calls it is about
    undone: bool
    kept: bool  # whether the contents for taking it back are still there

    @property
    def succeeded(self) -> bool:
        return self.outcome is not None and self.outcome.status in ("success", "partial")


@dataclass(frozen=True)
class IncompleteTransaction:
    """A transaction that a dead process left: not settled, or settled and not cleaned up."""

    seq: int
    transaction: str
    files: tuple[FileChange, ...]
    is_recorded: bool


@dataclass(frozen=True)
class JournalVerification:
    """What a look at every record of the journal found. Each is hashed with all that came before it.

    The head is the last of these hashes: noted elsewhere, it tells later whether anything up to it was rewritten.
    """

    count: int
    head: str
    problem: str | None = None
    at: int | None = None  # the record where the trouble begins; None: it is in no single one
    noted_at: int | None = None  # the record that the noted head is of, if it is in the chain


class Journal(Protocol):
    """Append-only: what each call set out to do, and what became of it."""

    def begin(self, call: Call) -> int: ...

    def record_call(self, call: Call, outcome: Outcome, *, decision: CallDecision | None = None) -> None:
        """Begin and settle at once: for a call that only read, or was refused before it could do anything."""
        ...

    def record_intent(
        self,
        seq: int,
        transaction: str,
        files: Sequence[FileChange],
        *,
        decision: CallDecision,
        reverses: Sequence[int] = (),
    ) -> Sequence[JournalEntry]:
        """Durable before it returns, with the contents that are at hand.

        Returns the calls whose undo has to be given up for lack of room. Nothing of them is dropped before
        `record_outcome` was told that the reply says so.
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
        """The decision comes here for a call that had no intent: one that only read, or was refused.

        `dropped_undo` are the calls of which the reply says that their undo will be dropped: later intents may drop it.
        """
        ...

    def mark_cleaned_up(self, seq: int) -> None:
        """Nothing of this transaction is left to clean up."""
        ...

    def incomplete_transactions(self) -> Sequence[IncompleteTransaction]: ...

    def find_call(self, session: str, turn: str, call_id: str) -> JournalEntry | None:
        """The last call with this id in this turn that succeeded; if none did, the last one."""
        ...

    def entries(self, *, session: str | None = None, last: int | None = None) -> Sequence[JournalEntry]:
        """Oldest first."""
        ...

    def changes_of(self, seq: int) -> tuple[FileChange, ...]:
        """The changes of a call, contents by hash."""
        ...

    def last_writer(self, path: str, hash: str) -> str:
        """The session that last gave this file this content; empty if it was none of ours."""
        ...

    def verify(self, noted_head: str = "") -> JournalVerification:
        """Whether all of it is as it was written, in its order, and what the chain says of a head noted before."""
        ...

    def exclusive(self, *, wait: bool = True) -> AbstractContextManager[None]:
        """Hold off every other holder on this state, of any thread or process. Not to be nested.

        Busy after half a minute, or at once without `wait`. A commit holds it from before `record_intent` until
        `mark_cleaned_up`, so whoever holds it knows that what is incomplete has no living owner.
        """
        ...
