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
    """A question that waits in the store for an answer, from this process or another."""

    id: str  # random; assigned by the store
    hash: str  # of the request and the changes
    session: str
    at: float
    tool: str
    because: str
    command: str
    diff: str  # starts with what needs approval; says where it is cut
    allows: tuple[str, ...] = ()  # the keys that the answer "session" grants
    patterns: tuple[str, ...] = ()  # the keys that the answer "pattern" grants
    answer: Consent | Literal[""] = ""
    by: str = ""
    spent: bool = False  # the approval was used
    uncut: int = 0  # lines at the start of the diff that show what needs approval and are never cut


class ApprovalStore(Protocol):
    """Questions and answers. An answer is valid only for the question with the same hash."""

    def enqueue(self, approval: PendingApproval) -> PendingApproval | None:
        """Store a question, or store it again under the same id. An unused answer to it is kept.

        None if there is no room: questions that wait are not evicted.
        """
        ...

    def list_pending(self, session: str | None = None) -> Sequence[PendingApproval]:
        """Unanswered, oldest first."""
        ...

    def get_pending(self, which: str) -> PendingApproval:
        """The question with this id or hash. NoPendingApproval if there is none, or it was answered already."""
        ...

    def answer(self, which: str, answer: Consent | ConsentName, *, by: str) -> PendingApproval:
        """Store an answer, which takes effect when the session sends the call again. NoPendingApproval as above."""
        ...

    def consume_approval(self, hash: str, session: str) -> PendingApproval | None:
        """The answer to this question, usable once; None if there is none. A `no` is an answer."""
        ...

    def grant(self, session: str, key: str, *, by: str) -> None:
        """Allow a key for a session; it outlives the process and expires after a day."""
        ...

    def list_grants(self, session: str) -> Mapping[str, str]:
        """The keys that are granted to a session, with who granted each."""
        ...


@dataclass(frozen=True)
class Question:
    """What an approver decides about: the change itself, or a command before it runs."""

    tool: str
    files: tuple[FileChange, ...]
    diff: str
    because: str
    command: str = ""  # the command that made these changes in the sandbox; without `files`, it has not run yet
    id: str = ""  # a hash of the request and of every change; the answer is valid only for these
    rule: str = ""
    session: str = ""  # what the answer "session" would allow, in words; empty if it is not offered
    patterns: tuple[str, ...] = ()  # what the answer "pattern" would allow
    uncut: int = 0  # lines at the start of the diff that show what needs approval and are never cut


class RunPaused(Exception):
    """Raised by an approver that stops the whole run to ask: the call changes nothing and raises `reason`."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(reason)
        self.reason = reason


ApproverReply = bool | Consent | ConsentName | None


class Approver(Protocol):
    """A function that decides about questions, sync or async.

    If it has a `present` that is false, nobody is asked now. The journal records its `name`, if it has one.
    """

    def __call__(self, question: Question, /) -> ApproverReply | Awaitable[ApproverReply]:
        """True is "once", False is "no". None means that the answer comes later: the question waits in the store.

        An awaitable is awaited. Every other answer, and an exception other than RunPaused, refuses the call with
        APPROVER_INVALID.
        """
        ...
