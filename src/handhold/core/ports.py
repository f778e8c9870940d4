"""What the core needs of the world, and what the toolbox needs of a dialect, a policy and a store.

Each port has one published suite of tests; every implementation passes it.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, cast

from handhold.core.choices import Matching
from handhold.core.errors import ToolError
from handhold.core.facts import (
    CommandOutput,
    ConvertedImage,
    ConvertedPdf,
    DeclaredEncoding,
    ExitStatus,
    FileHead,
    FileIdentity,
    FileSnapshot,
    FileStat,
    Page,
    SandboxStatus,
    SearchOutcome,
    UndoScope,
)
from handhold.core.plans import Conflict, Content, Convert, Effects, FileChange, FolderMtime, Search, StagedContent
from handhold.core.requests import JobInput, JobOutput, JobStop, Request, Run
from handhold.core.results import Reply, Result, ToolSpec

if TYPE_CHECKING:
    from handhold.core.text.redaction import Redaction

MAX_EDITABLE_BYTES = 64 * 1024 * 1024  # larger files are read by page and never held whole

T = TypeVar("T")

# --- files


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


class Searcher(Protocol):
    """Looks for names and for text, beneath the roots and nowhere else. It never hangs and leaves no process."""

    def search(
        self, search: Search, *, visible: Callable[[str], bool], hidden: HiddenPaths | None = None
    ) -> SearchOutcome:
        """What is there, as far as `visible` lets it be seen: no place that is not may be shown, or be told from.

        Nor may a file that has several names, if `hidden` knows one of them.
        """
        ...


class Converter(Protocol):
    """Makes of a file that is not text what a model can take. What it is handed may be made to do harm."""

    def convert(self, convert: Convert) -> ConvertedImage | ConvertedPdf:
        """An image, or pages of a PDF.

        BrokenFile, Encrypted, TooManyPixels, ConversionLimitExceeded, NoSuchPage or ExtraMissing.
        """
        ...


# --- commands


@dataclass(frozen=True)
class JobState:
    """A command in the background: what it printed since `offset`, and whether it still runs."""

    job: str
    running: bool
    exit_status: ExitStatus | None
    output: CommandOutput
    offset: int  # where this output begins, and
    next_offset: int  # where the next one would
    sandbox: SandboxStatus


@dataclass(frozen=True)
class CommandResult:
    """A command that came to its end. `effects` is None where it ran on the workspace itself."""

    exit_status: ExitStatus
    output: CommandOutput
    sandbox: SandboxStatus
    undo_scope: UndoScope
    effects: Effects | None
    cwd: str  # where a lasting shell stands now
    notes: tuple[str, ...] = ()  # what it was kept from
    set_aside: Callable[[FileChange], Conflict] = lambda change: Conflict(change.path, "changed")
    """Keep the command's version of a change that somebody else got ahead of, to be read."""


class PathGuard(Protocol):
    """What a shell must know about paths of the workspace, each by its resolved spelling."""

    def needs_review(self, place: str) -> bool:
        """Whether a change there must be shown by itself, and not go unseen in a folder that changes whole."""
        ...

    def is_locked(self, place: str, is_folder: bool) -> bool:  # noqa: FBT001
        """Whether a command that works on the workspace itself must not make or write what would be there."""
        ...

    def locked_paths(self) -> Sequence[str]:
        """Of what exists, all that such a command must leave as it is."""
        ...

    def masked_paths(self) -> Sequence[str]:
        """What a command may not see. SystemFailure where a file system does not answer: what is not found out there
        could not be masked, should it come back."""
        ...

    def is_masked(self, place: str) -> bool:
        """Whether what a command makes there may not be read by anybody, and is left out of its effects."""
        ...

    def redaction(self) -> "Redaction | None":
        """What is replaced in the output of a command."""
        ...


class Shell(Protocol):
    """Runs commands, contained and bounded. Nothing that it starts outlives it."""

    @property
    def sandbox(self) -> SandboxStatus: ...

    @property
    def is_busy(self) -> bool:
        """Whether a job runs, or the next command would begin elsewhere than the first one did."""
        ...

    def run(self, run: Run, *, on_output: Callable[[str], None] | None = None) -> AbstractContextManager[CommandResult]:
        """The command has ended when the context is entered; what it did lies ready until the context is left.

        `on_output` gets its output while it runs. A commit of the effects must happen inside the context.
        """
        ...

    def start(self, run: Run) -> JobState:
        """In the background, on the workspace itself."""
        ...

    def job(self, request: JobOutput | JobInput | JobStop) -> JobState: ...

    def restart(self) -> None:
        """Where a shell lasts, it begins anew: in the first root, with nothing exported."""
        ...

    def interrupt(self, thread: int | None = None) -> None:
        """End what `run` is running now, in any thread or in this one."""
        ...

    def close(self) -> None: ...


# --- state


@dataclass(frozen=True)
class SeenPage:
    """A page of a large file that was shown: its bytes and their hash."""

    start: int
    end: int
    hash: str


@dataclass(frozen=True)
class ReadRecord:
    """What a session last saw of a file. `hash` is None above MAX_EDITABLE_BYTES: only the pages shown are known.

    `lines` are those that a read showed to their end, by the numbers that they still have; a file may be known as a
    `is_complete` without any, if the session wrote it.
    """

    path: str
    identity: FileIdentity
    hash: str | None
    lines: tuple[tuple[int, int], ...]
    is_complete: bool
    pages: tuple[SeenPage, ...] = ()


class ReadRecords(Protocol):
    """The tracker's memory of one session."""

    def get(self, path: str, identity: FileIdentity | None) -> ReadRecord | None:
        """The mark at this path, else at another name of the same file."""
        ...

    def put(self, record: ReadRecord) -> None: ...

    def drop(self, path: str) -> None: ...

    def paths(self) -> Collection[str]:
        """Every path that has one."""
        ...


class ContentStore(Protocol):
    """Contents by hash, and slots of commands, within one bound for both.

    What was only seen goes first, then what only a redo needs, then what the undo of calls needs that were given up;
    each oldest first. What the undo of any other call needs stays, even beyond the bound.
    """

    def keep(self, contents: Iterable[bytes]) -> None:
        """What was seen. It never costs an undo or a redo: it goes itself before what came in an intent does."""
        ...

    def get(self, hash: str) -> bytes | None:
        """None if it was never kept, or had to go."""
        ...

    def has(self, hash: str) -> bool: ...

    def slots(self) -> Collection[str]:
        """The commands whose slots are needed: for taking back, or for an intent without an outcome."""
        ...

    def pop_dropped_slots(self) -> Collection[str]:
        """The commands whose slots went, by what was done through this, since this was asked before."""
        ...


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


ApprovalAnswer = Literal["no", "once", "session", "pattern"]


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
    answer: ApprovalAnswer | Literal[""] = ""
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

    def answer(self, which: str, answer: ApprovalAnswer, *, by: str) -> PendingApproval:
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


class Store(Journal, ContentStore, ApprovalStore, Protocol):
    """All that outlives the process."""

    def read_records(self, session: str) -> ReadRecords: ...

    def exclusive(self, *, wait: bool = True) -> AbstractContextManager[None]:
        """Hold off every other holder on this state, of any thread or process. Not to be nested.

        Busy after half a minute, or at once without `wait`. A commit holds it from before `record_intent` until
        `finish`, so whoever holds it knows that what is broken has no living owner.
        """
        ...

    def close(self) -> None: ...


# --- policy


class Verb(StrEnum):
    READ = "read"
    CHANGE = "change"
    CREATE = "create"
    DELETE = "delete"
    RUN = "run"
    CONNECT = "connect"


class Verdict(StrEnum):
    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


INVALID_ANSWER = "invalid policy answer"  # the rule of a judgement that stands for an answer which was none


@dataclass(frozen=True)
class PolicyDecision:
    """What is decided, why, and by which rule: its name, and where it is written.

    The verdict may be given as a text. One that is unknown denies.
    """

    verdict: Verdict
    because: str
    rule: str = ""
    source: str = ""
    remedy: str = ""  # how a person allows it, where there is a way

    def __post_init__(self) -> None:
        given = cast(object, self.verdict)
        if type(given) is Verdict:
            return
        known = isinstance(given, str) and given in frozenset(Verdict)
        object.__setattr__(self, "verdict", Verdict(given) if known else Verdict.DENY)
        if not known:
            object.__setattr__(self, "because", f"the policy gave the verdict {given!r}: not allow, ask or deny")
            object.__setattr__(self, "rule", INVALID_ANSWER)


CommandClass = Literal["read-only", "workspace-change", "network", "dangerous", "unknown"]


@dataclass(frozen=True)
class CommandAnalysis:
    """What a command would do, as far as its text tells. Nothing of it has run."""

    text: str
    kind: CommandClass
    because: str  # what makes it one of these
    commands: tuple[tuple[str, ...], ...] = ()  # every simple command in it, in its words, also behind wrappers
    patterns: tuple[str, ...] = ()  # those that an approval of the like of it would name; none: only itself
    invisible: str = ""  # characters in it that nobody could see: it is not even asked about
    connects: str = ""  # what part of it uses the network, also where a worse part decides its class
    contained: bool = False  # it would run on an overlay, without a network: its effects are judged later


class Policy(Protocol):
    @property
    def name(self) -> str: ...

    def decide(self, verb: Verb, target: str) -> PolicyDecision:
        """A place, spelled really, or for `connect` a host."""
        ...

    def decide_command(self, analysis: CommandAnalysis) -> PolicyDecision: ...

    @property
    def allows_hosts(self) -> bool:
        """Whether a rule allows some host."""
        ...

    def has_rule_for(self, place: str) -> bool:
        """Whether a rule is about this place in particular. Modes are about none: searches ask of every file."""
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


ApproverReply = bool | ApprovalAnswer | None


class Approver(Protocol):
    """Whoever can be asked. One whose `present` is false cannot, just now; one with a `name` is called so."""

    def __call__(self, question: Question, /) -> ApproverReply | Awaitable[ApproverReply]:
        """True is "once", False is "no". None: the answer will come later, and the question waits for it.

        An awaitable is awaited. Every other answer, and an exception other than RunPaused, refuses the call with
        APPROVER_INVALID.
        """
        ...


# --- dialects


@dataclass(frozen=True)
class DialectOptions:
    """What differs between dialects besides words."""

    matching: Matching
    hints: bool
    requires_read: bool = True
    lists_folders: bool = True  # a folder that is to be read is listed; else refused
    folder_depth: int = 1  # and so many levels of it
    first_cell: int = 1  # the number of a notebook's first cell, where cells have no ids
    records_write_as_read: bool = True  # whether a file that was written whole counts as seen; one that was edited does
    absolute_paths: bool = False  # in what a search shows; else those of the first root are relative to it
    search_seconds: float = 20.0  # the longest that a search may take
    max_visited_entries: int | None = None  # the most that a search for names visits, in the order of paths; None: all
    shell_persists: Literal["nothing", "folder", "exports"] = "nothing"  # what one command hands on to the next


@dataclass(frozen=True)
class ReplyFrame:
    """What stands around a reply, for a dialect whose replies are forms that tell it."""

    tool: str
    arguments: str  # canonical JSON
    folder: str  # that relative paths begin at
    resolve_path: Callable[[], str]  # the path that was asked about, as it really is; empty if there is none


class Dialect(Protocol):
    """Names, schemas, limits and wording of one tool family."""

    @property
    def name(self) -> str: ...

    @property
    def options(self) -> DialectOptions: ...

    @property
    def specs(self) -> tuple[ToolSpec, ...]: ...

    @property
    def instructions(self) -> str:
        """What teaches a model to use these tools together, for its system prompt."""
        ...

    def decode(self, tool: str, arguments: Mapping[str, Any] | str) -> Request: ...

    def decode_and_repair(self, tool: str, arguments: Mapping[str, Any] | str) -> tuple[Request, tuple[str, ...]]:
        """The same, and what had to be mended in these arguments."""
        ...

    def encode(self, tool: str, request: Request, result: Result, *, hints: bool, call_id: str = "") -> str:
        """The words for a result. `call_id` is the call's id, fit to be shown; empty if the client gave none."""
        ...

    def refuse(self, tool: str, error: ToolError, *, hints: bool) -> str: ...

    def frame(self, reply: Reply, frame: ReplyFrame) -> str:
        """The text of a reply as it leaves; for most dialects, as it is."""
        ...
