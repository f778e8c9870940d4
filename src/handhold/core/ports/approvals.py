"""Questions to a person, and the answers."""

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Protocol

from handhold.core.plans import FileChange


class Consent(StrEnum):
    """A person's answer to a question.

    NO refuses the call. ONCE approves this call only. SESSION also approves the same thing in this session for a day,
    and PATTERN all similar commands.
    """

    NO = "no"
    ONCE = "once"
    SESSION = "session"
    PATTERN = "pattern"


ConsentName = Literal["no", "once", "session", "pattern"]


EffectKind = Literal["file", "link", "folder", "folder metadata", "other"]


@dataclass(frozen=True)
class Effect:
    """What a change does to one path, for people: as facts, so that no name can pretend to be something else."""

    path: str  # as in the workspace, relative to the first root if it is below it
    verb: Literal["new", "changed", "deleted"]
    kind: EffectKind = "file"
    mode: int | None = None  # the permission bits afterwards; None if they are not known or nothing is left
    old_mode: int | None = None
    target: str = ""  # of a link
    leads_out: bool = False  # the link points out of the workspace
    size: int = 0  # bytes afterwards, or before if it is deleted
    entry_count: int = 1  # of a folder that comes or goes as a whole: all its entries and itself
    is_shown: bool = True  # in the question's diff
    diff_lines: int = 0  # how many lines of the question's diff are about it; they come in the order of the effects


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
    rule: str = ""  # that asked
    seq: int = 0  # of the call in the journal; 0 if it is not recorded yet
    confined_by: str = ""  # what confines the commands of the session; empty if it runs none
    shares_loopback: bool = True  # whether its commands can reach servers on this machine, such as a review page
    effects: tuple[Effect, ...] = ()  # the first ones
    effect_count: int = 0  # of all
    word: str = ""  # what the person says to the model
    answered: float = 0.0  # when


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

    def answer(self, which: str, answer: Consent | ConsentName, *, by: str, word: str = "") -> PendingApproval:
        """Store an answer, which takes effect when the session sends the call again, or at once if the call waits.

        `word` is what the person says to the model. NoPendingApproval as above.
        """
        ...

    def is_answered(self, hash: str, session: str) -> bool:
        """Whether this question does not wait any more."""
        ...

    def list_answered(self, limit: int) -> Sequence[PendingApproval]:
        """The last answers, newest first."""
        ...

    def is_reviewed(self) -> bool:
        """Whether somebody has a review page open, so that a call may wait for an answer."""
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
    """What an approver decides about: a change, or a command before it runs.

    tool: the tool that was called.
    files: the changes; empty for a command that has not run yet.
    diff: the changes as a unified diff.
    because: why approval is needed.
    command: the command that made these changes in the sandbox, or would run.
    id: a hash of the request and of every change; the answer is valid only for these.
    rule: the rule that requires approval.
    session: what the answer "session" would approve, in words; empty if it is not offered.
    patterns: what the answer "pattern" would approve; empty if it is not offered.
    uncut: how many lines at the start of the diff show what needs approval and are never cut.
    """

    tool: str
    files: tuple[FileChange, ...]
    diff: str
    because: str
    command: str = ""
    id: str = ""
    rule: str = ""
    session: str = ""
    patterns: tuple[str, ...] = ()
    uncut: int = 0


class RunPaused(Exception):
    """Raised by an approver that stops the whole run to ask: the call changes nothing and raises `reason`."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(reason)
        self.reason = reason


ApproverReply = bool | Consent | ConsentName | None


class Approver(Protocol):
    """A function, sync or async, that answers a Question.

    It may have two attributes: while `present` is false it is not called, and `name` is recorded in the journal.
    """

    def __call__(self, question: Question, /) -> ApproverReply | Awaitable[ApproverReply]:
        """Return True for "once", False for "no", a Consent, or None if the answer comes later.

        With None, the question stays pending in the store. An awaitable is awaited. Any other answer, and any exception
        except RunPaused, refuses the call with APPROVER_INVALID.
        """
        ...
