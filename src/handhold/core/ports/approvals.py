"""Questions to a person, and the answers."""

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Protocol

from handhold.core.plans import FileChange


class Consent(StrEnum):
    """A person's answer to a question."""

    NO = "no"
    ONCE = "once"  # this call only
    SESSION = "session"  # and do not ask about this again in the session
    PATTERN = "pattern"  # and do not ask about commands like it in the session


ConsentName = Literal["no", "once", "session", "pattern"]


@dataclass(frozen=True)
class PendingApproval:
    """A question that was put down for somebody to answer, in this process or another."""

    id: str  # random; the store gives it
    hash: str  # of the request and the changes
    session: str
    at: float
    tool: str
    because: str
    command: str
    diff: str  # what needs approval first; it says where it leaves something out
    allows: tuple[str, ...] = ()  # the keys that an answer for the session would give
    patterns: tuple[str, ...] = ()  # and for a pattern
    answer: Consent | Literal[""] = ""
    by: str = ""
    spent: bool = False  # the approval was used
    uncut: int = 0  # lines at the beginning of the diff that show what needs approval: they are never cut


class ApprovalStore(Protocol):
    """Questions and answers. An answer is good for what was asked, by its hash, and for nothing else."""

    def enqueue(self, approval: PendingApproval) -> PendingApproval | None:
        """Put down, or put again: under its id. An answer that was not used yet stays.

        None: there is no room for it beside the questions that wait, and none of them makes way.
        """
        ...

    def list_pending(self, session: str | None = None) -> Sequence[PendingApproval]:
        """Unanswered, oldest first."""
        ...

    def get_pending(self, which: str) -> PendingApproval:
        """By its id or its hash. NoPendingApproval if there is none, or it was answered already."""
        ...

    def answer(self, which: str, answer: Consent | ConsentName, *, by: str) -> PendingApproval:
        """NoPendingApproval as above. It says nothing to the session before that asks again."""
        ...

    def consume_approval(self, hash: str, session: str) -> PendingApproval | None:
        """The answer to exactly this, once; None if there is none. A `no` is an answer."""
        ...

    def grant(self, session: str, key: str, *, by: str) -> None:
        """From now on, for a session: one that outlives the process, for a day."""
        ...

    def list_grants(self, session: str) -> Mapping[str, str]:
        """What was, and by whom."""
        ...


@dataclass(frozen=True)
class Question:
    """What an approver is shown: the change itself."""

    tool: str
    files: tuple[FileChange, ...]
    diff: str
    because: str
    command: str = ""  # that did it, on a shadow; without files, that has not run yet
    id: str = ""  # a hash of the request and of every change from end to end: an answer is for these and no others
    rule: str = ""
    session: str = ""  # what "session" would allow from now on, in words; empty: it cannot be said
    patterns: tuple[str, ...] = ()  # what "pattern" would
    uncut: int = 0  # lines at the beginning of the diff that show what needs approval: they are never cut


class RunPaused(Exception):
    """Raised by an approver that stops the whole run to ask: the call changes nothing and raises `reason`."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(reason)
        self.reason = reason


ApproverReply = bool | Consent | ConsentName | None


class Approver(Protocol):
    """Whoever can be asked. One whose `present` is false cannot, just now; one with a `name` is called so."""

    def __call__(self, question: Question, /) -> ApproverReply | Awaitable[ApproverReply]:
        """True is "once", False is "no". None: the answer will come later, and the question waits for it.

        An awaitable is awaited. Every other answer, and an exception other than RunPaused, refuses the call with
        APPROVER_INVALID.
        """
        ...
