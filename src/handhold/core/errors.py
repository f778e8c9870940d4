"""The errors that a call can end with, as facts.

An error carries what happened and where; a dialect turns it into a sentence. Each code has one error source, so a
broken machine is never scored as a wrong answer.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any, ClassVar, Literal, dataclass_transform

from handhold.core.problems import Problem

MAX_LISTED_ITEMS = 100


class ErrorSource(StrEnum):
    """Who caused an error."""

    MODEL = "model"  # the call was wrong; the model can correct it
    POLICY = "policy"  # the call was understood and not allowed
    TOOL = "tool"  # a limit or a defect of Handhold
    INFRA = "infra"  # the machine: disk, permissions, locks


def _list_facts(error: "ToolError") -> str:
    return str(error.facts())


@dataclass_transform(eq_default=False)
@dataclass(eq=False)  # exceptions compare by identity and stay hashable
class ToolError(Exception):
    """An error to report to the model. Any other exception is a bug in Handhold.

    Every subclass is a dataclass; the decorator is applied here, once for all of them.
    """

    code: ClassVar[str] = "INTERNAL"
    error_source: ClassVar[ErrorSource] = ErrorSource.TOOL
    # The sentence for a person. The words are a dialect's, which the core does not import: `toolbox.py` sets it.
    describe: ClassVar["Callable[[ToolError], str]"] = staticmethod(_list_facts)

    def __init_subclass__(cls) -> None:
        dataclass(eq=False)(cls)

    def facts(self) -> dict[str, Any]:
        """The fields as JSON. A list of more than a hundred items is cut to a hundred, with its length added."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        counts = {f"{name}_count": len(value) for name, value in values.items() if _is_long(value)}
        return counts | {
            name: _to_json(value[:MAX_LISTED_ITEMS] if _is_long(value) else value) for name, value in values.items()
        }

    def __str__(self) -> str:
        return f"{self.code}: {ToolError.describe(self)}"

    def __reduce__(self) -> Any:
        """Pickle the fields: an exception keeps only positional arguments by itself."""
        return _restore, (type(self), {field.name: getattr(self, field.name) for field in fields(self)})


def _restore(cls: "type[ToolError]", values: dict[str, Any]) -> ToolError:
    error = cls.__new__(cls)
    vars(error).update(values)
    return error


def _is_long(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) > MAX_LISTED_ITEMS  # pyright: ignore[reportUnknownArgumentType]


def _to_json(value: Any) -> Any:
    """Convert a value to JSON types."""
    if isinstance(value, tuple | list):
        return [_to_json(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return asdict(value) if isinstance(value, Region | LineDifference | Problem) else value


@dataclass(frozen=True)
class Region:
    """Lines of a file to show."""

    first: int
    lines: tuple[str, ...]


@dataclass(frozen=True)
class LineDifference:
    """A line of a file and the line that was quoted for it; None if either is missing."""

    number: int
    there: str | None
    quoted: str | None


# --- the call itself


class UnknownTool(ToolError):
    code, error_source = "UNKNOWN_TOOL", ErrorSource.MODEL
    tool: str
    known: tuple[str, ...]


class BadArguments(ToolError):
    """An argument is missing, unknown, or of the wrong type."""

    code, error_source = "BAD_ARGUMENTS", ErrorSource.MODEL
    tool: str
    argument: str
    got: str
    wanted: str
    example: str = ""  # a valid call as JSON; empty if none is known


class CallIdReused(ToolError):
    """The call id was already used in this turn, with another tool or other arguments."""

    code, error_source = "CALL_ID_REUSED", ErrorSource.MODEL
    call_id: str


# --- paths


class PathError(ToolError):
    """An error about one path, as the model spelled it."""

    path: str


class BadPath(PathError):
    """A path that can never name a file: empty, with a NUL, or ending in a slash."""

    code, error_source = "BAD_PATH", ErrorSource.MODEL
    because: str


class OutsideWorkspace(PathError):
    code, error_source = "OUTSIDE_WORKSPACE", ErrorSource.MODEL
    roots: tuple[str, ...] = ()


class NotFound(PathError):
    code, error_source = "NOT_FOUND", ErrorSource.MODEL
    near: tuple[str, ...] = ()
    was_read: bool = False  # whether this session has read the file, if that was checked


class IsDirectory(PathError):
    code, error_source = "IS_DIRECTORY", ErrorSource.MODEL


class NotDirectory(PathError):
    """A part of the path that should be a directory is a file."""

    code, error_source = "NOT_DIRECTORY", ErrorSource.MODEL


class NotRegularFile(PathError):
    """A FIFO, a socket or a device: reading it could block forever."""

    code, error_source = "NOT_REGULAR_FILE", ErrorSource.MODEL
    kind: str


class SymlinkLoop(PathError):
    code, error_source = "SYMLINK_LOOP", ErrorSource.MODEL


class DanglingLink(PathError):
    """A link whose target does not exist: writing through it would create a file elsewhere."""

    code, error_source = "DANGLING_LINK", ErrorSource.MODEL


class AlreadyExists(PathError):
    code, error_source = "ALREADY_EXISTS", ErrorSource.MODEL


# --- contents


class BinaryFile(PathError):
    code, error_source = "BINARY_FILE", ErrorSource.MODEL
    size: int


class TooLarge(PathError):
    """The file is larger than this operation accepts. Sizes are in bytes."""

    code, error_source = "TOO_LARGE", ErrorSource.MODEL
    size: int
    most: int


class PageTooLong(PathError):
    """The requested lines have more characters than fit on one page."""

    code, error_source = "PAGE_TOO_LONG", ErrorSource.MODEL
    chars: int
    most: int


class NeedsSeparateRead(PathError):
    """The file is not text, or is not shown as lines, so it needs a read call of its own."""

    code, error_source = "READ_ALONE", ErrorSource.MODEL


class BrokenFile(PathError):
    """An image or a PDF, by its name or first bytes, that cannot be shown: damaged, truncated, or malicious."""

    code, error_source = "BROKEN_FILE", ErrorSource.MODEL
    medium: str
    because: str


class EncryptedPdf(PathError):
    """The PDF opens only with a password."""

    code, error_source = "ENCRYPTED", ErrorSource.MODEL


class TooManyPixels(PathError):
    """The image declares more pixels than the limit. It was not decoded."""

    code, error_source = "TOO_MANY_PIXELS", ErrorSource.MODEL
    width: int
    height: int
    most: int


class ConversionLimitExceeded(PathError):
    """Showing the file took more time or memory than a conversion may use."""

    code, error_source = "TOO_COSTLY", ErrorSource.TOOL
    resource: Literal["time", "memory"]


class NoSuchPage(PathError):
    """The PDF has none of the requested pages."""

    code, error_source = "NO_SUCH_PAGE", ErrorSource.MODEL
    asked: tuple[tuple[int, int], ...]
    count: int


class PagesNotSupported(PathError):
    """Pages were requested, but the file is not a PDF."""

    code, error_source = "NOT_PAGED", ErrorSource.MODEL


class PastEnd(PathError):
    code, error_source = "PAST_END", ErrorSource.MODEL
    offset: int
    lines: int
    unit: Literal["line", "cell"] = "line"


class Unencodable(PathError):
    """The new text has characters that the file's encoding cannot represent."""

    code, error_source = "UNENCODABLE", ErrorSource.MODEL
    encoding: str
    characters: str


class ChangedDuringRead(PathError):
    """The file changed while it was being read, twice in a row."""

    code, error_source = "CHANGED_DURING_READ", ErrorSource.INFRA


# --- what the session has seen


class Unread(PathError):
    code, error_source = "UNREAD", ErrorSource.MODEL


class PartlyRead(PathError):
    """Overwriting needs a read of the whole file; the session has seen only these lines."""

    code, error_source = "PARTLY_READ", ErrorSource.MODEL
    seen: tuple[tuple[int, int], ...]


class Stale(PathError):
    """The file changed since the session saw it."""

    code, error_source = "STALE", ErrorSource.MODEL
    diff: str = ""
    complete: bool = False  # whether the diff shows every change
    writer: str = ""  # the session that changed it, if Handhold knows it
    now: str = ""  # the hash of the current content


class StaleBeforeCommit(Stale):
    """The change was found before anything was committed, so the command's other changes can still be applied."""

    paths: tuple[str, ...] = ()  # all files that have changed


# --- edits


class NoChange(PathError):
    """Old and new text are the same."""

    code, error_source = "NO_CHANGE", ErrorSource.MODEL


class NoMatch(PathError):
    """The old text is not in the file.

    `kind` is `whitespace` if only whitespace differs, `stale` if most lines are in the file and the others changed or
    were misquoted, else `absent`. `differs` has the first few lines where the nearest text differs.
    """

    code, error_source = "NO_MATCH", ErrorSource.MODEL
    old: str
    nearest: Region | None = None
    kind: Literal["whitespace", "stale", "absent"] = "absent"
    differs: tuple[LineDifference, ...] = ()
    again: bool = False  # the identical call failed just before
    every: bool = False  # the call asked to replace all occurrences
    longer: bool = False  # the old text has more lines than the file
    elsewhere: tuple[str, int] | None = None  # another file that the session has read, and the line with the old text


class AlreadyApplied(PathError):
    """The old text is not in the file, and the new text is there once, as the edit would have left it."""

    code, error_source = "ALREADY_APPLIED", ErrorSource.MODEL
    line: int


class BreaksSyntax(PathError):
    """The old text matched approximately, and the file would no longer parse as it did."""

    code, error_source = "BREAKS_SYNTAX", ErrorSource.MODEL
    line: int  # of the first new error, in the text that was not written
    message: str
    matched_by: str


class Ambiguous(PathError):
    """The old text is in the file more than once."""

    code, error_source = "AMBIGUOUS", ErrorSource.MODEL
    old: str
    lines: tuple[int, ...]
    matched_by: str


class UnexpectedCount(PathError):
    """The old text occurs more or fewer times than the call expected."""

    code, error_source = "UNEXPECTED_COUNT", ErrorSource.MODEL
    old: str
    wanted: int
    lines: tuple[int, ...]


class OverlappingMatches(PathError):
    """Occurrences of the old text overlap, so replacing all of them is ambiguous."""

    code, error_source = "OVERLAPPING", ErrorSource.MODEL
    old: str
    lines: tuple[int, ...]


# --- notebooks


class NotNotebook(PathError):
    """The file has no cells to edit: it is not a notebook, is damaged, or has an unsupported version."""

    code, error_source = "NOT_NOTEBOOK", ErrorSource.MODEL
    because: str


class NoSuchCell(PathError):
    code, error_source = "NO_SUCH_CELL", ErrorSource.MODEL
    cell: str
    known: tuple[str, ...]


class CellAmbiguous(PathError):
    """Several cells have this id."""

    code, error_source = "CELL_AMBIGUOUS", ErrorSource.MODEL
    cell: str
    names: tuple[str, ...]  # unambiguous names of these cells


# --- patches


class BadPatch(ToolError):
    """The patch does not follow the grammar: the line, its text, and what was expected there."""

    code, error_source = "BAD_PATCH", ErrorSource.MODEL
    line: int
    text: str
    wanted: str


class HunkMismatch(PathError):
    """The old lines of a hunk, or the line that its `@@` names, were not found."""

    code, error_source = "HUNK_MISMATCH", ErrorSource.MODEL
    hunk: int  # its number among the hunks of the file
    line: int  # line of the patch
    old: str
    scope: str = ""  # the `@@` line that was not found
    nearest: Region | None = None


class HunkAmbiguous(PathError):
    """A hunk matches more than one place in its scope."""

    code, error_source = "HUNK_AMBIGUOUS", ErrorSource.MODEL
    hunk: int
    line: int
    lines: tuple[int, ...]
    matched_by: str


class IsLink(PathError):
    """The path to delete or move is a link, and the call does not say whether it means the link or its target."""

    code, error_source = "IS_LINK", ErrorSource.MODEL
    target: str


# --- searches


class BadPattern(ToolError):
    """A pattern that no line can match, so nothing was searched: it is empty or has a line break."""

    code, error_source = "BAD_PATTERN", ErrorSource.MODEL
    pattern: str
    because: str


class BadGlob(ToolError):
    code, error_source = "BAD_GLOB", ErrorSource.MODEL
    pattern: str
    because: str


class BadRegex(ToolError):
    """The regular expression is invalid; `because` says what is wrong with it."""

    code, error_source = "BAD_REGEX", ErrorSource.MODEL
    pattern: str
    because: str


class BadCursor(ToolError):
    """The cursor belongs to another search, or is incomplete."""

    code, error_source = "BAD_CURSOR", ErrorSource.MODEL
    cursor: str


# --- commands


class NotOnlyPatch(ToolError):
    """A command that calls apply_patch and does something else as well."""

    code, error_source = "NOT_ONLY_PATCH", ErrorSource.MODEL
    because: str


class NoShell(ToolError):
    """Commands cannot run here: there is no shell, or no sandbox and no permission to run without one."""

    code, error_source = "NO_SHELL", ErrorSource.TOOL
    because: str = ""  # empty: only apply_patch runs here, and the command does not call it
    command: str = ""


class NoSuchJob(ToolError):
    """No background command has this name; it may have been dropped."""

    code, error_source = "NO_SUCH_JOB", ErrorSource.MODEL
    job: str
    known: tuple[str, ...] = ()


class UnkillableProcess(ToolError):
    """A killed process of a command does not exit because it hangs in the kernel. The command's overlay is dropped."""

    code, error_source = "UNENDED", ErrorSource.INFRA


class Cancelled(ToolError):
    """The caller cancelled the command before it finished; its changes were discarded."""

    code, error_source = "CANCELLED", ErrorSource.POLICY


class ExtraMissing(ToolError):
    """This needs an optional extra that is not installed."""

    code, error_source = "EXTRA_MISSING", ErrorSource.INFRA
    extra: str


# --- policy


class BrokenSyntax(ToolError):
    """The change would make syntax errors, and `refuse_broken` is set: nothing was written."""

    code, error_source = "BROKEN_SYNTAX", ErrorSource.MODEL
    problems: tuple[Problem, ...]  # the first of them
    total: int
    files: int


class Denied(PathError):
    """For a command that may not run at all, `path` is its text."""

    code, error_source = "DENIED", ErrorSource.POLICY
    because: str
    rule: str = ""  # the deciding rule and where it is written
    of_command: bool = False
    remedy: str = ""  # how a person can allow it


class SettingsBroken(PathError):
    """A settings file is invalid. Nothing is opened without the rules it should provide."""

    code, error_source = "SETTINGS_BROKEN", ErrorSource.INFRA
    because: str


class ToolboxClosed(RuntimeError):
    """A toolbox was used after `close`. This is a programming error, so it is raised and never shown to a model."""

    def __init__(self) -> None:
        super().__init__("the toolbox is closed; open another one with Toolbox.open")


class NotApproved(PathError):
    """The policy asks for a person's approval, and nobody approved."""

    code, error_source = "NOT_APPROVED", ErrorSource.POLICY
    because: str
    asked: bool  # False: nobody could be asked
    rule: str = ""
    approval: str = ""  # id of the pending question: once it is approved, the same call goes ahead
    of_command: bool = False
    unasked: str = ""  # why the question could not be kept as pending
    word: str = ""  # what the person who refused says to the model


class ApproverInvalid(NotApproved):
    """The approver raised or returned an invalid answer. The log has the details for the developer."""

    code, error_source = "APPROVER_INVALID", ErrorSource.INFRA


class NoPendingApproval(ToolError):
    """The question to answer does not exist or was already answered."""

    code, error_source = "NO_PENDING_APPROVAL", ErrorSource.POLICY
    wanted: str
    because: str


class ReadOnly(PathError):
    """The root, or its file system, is read-only."""

    code, error_source = "READ_ONLY", ErrorSource.POLICY


# --- undo and redo


class NotRecorded(ToolError):
    """Changes that others make cannot be recorded here."""

    code, error_source = "NOT_RECORDED", ErrorSource.TOOL
    path: str
    because: str


class NothingToUndo(ToolError):
    code, error_source = "NOTHING_TO_UNDO", ErrorSource.MODEL
    wanted: str
    verb: Literal["undo", "redo"] = "undo"


class UndoConflict(ToolError):
    """Undoing this would lose a later change to these files, which cannot be kept by merging. Nothing was undone."""

    code, error_source = "UNDO_CONFLICT", ErrorSource.MODEL
    paths: tuple[str, ...]
    reasons: tuple[str, ...] = ()  # one for each path
    texts: tuple[str, ...] = ()  # one for each path: both sides, between the markers of git; empty if it is not a text


class ForkUnavailable(ToolError):
    """A fork cannot be made or used: there is none of that name, it is in use, or there can be no overlay here."""

    code, error_source = "NO_FORK", ErrorSource.TOOL
    fork: str
    because: str


class MergeConflict(ToolError):
    """Both a fork and somebody else changed these paths. Nothing was merged."""

    code, error_source = "MERGE_CONFLICT", ErrorSource.MODEL
    fork: str
    paths: tuple[str, ...]
    reasons: tuple[str, ...]  # one for each path
    texts: tuple[str, ...] = ()  # one for each path: both sides, between the markers of git; empty if it is not a text


class PartialUndo(ToolError):
    """Several calls were to be undone or redone in sequence, and one of them failed."""

    code, error_source = "UNDONE_PARTLY", ErrorSource.INFRA
    verb: Literal["undo", "redo"]
    done: tuple[str, ...]  # calls that were undone or redone, in that order
    left: tuple[str, ...]  # the others, starting with the one that failed
    because: str  # the code of its error
    paths: tuple[str, ...] = ()  # the files that prevented it


class ContentDropped(ToolError):
    """The old content of these files was dropped to free space."""

    code, error_source = "CONTENT_DROPPED", ErrorSource.TOOL
    paths: tuple[str, ...]


# --- the machine


class PermissionDenied(PathError):
    code, error_source = "PERMISSION_DENIED", ErrorSource.INFRA
    because: str


class NoSpace(PathError):
    code, error_source = "NO_SPACE", ErrorSource.INFRA
    because: str


class SystemFailure(PathError):
    """A system error without a class of its own here."""

    code, error_source = "IO_ERROR", ErrorSource.INFRA
    because: str


class Busy(PathError):
    """Another process holds the lock of the workspace and did not release it in time."""

    code, error_source = "BUSY", ErrorSource.INFRA
    seconds: float


class RollbackIncomplete(PathError):
    """A change failed and could not be rolled back yet, so it is half done. The next call rolls it back first."""

    code, error_source = "UNFINISHED", ErrorSource.INFRA
    paths: tuple[str, ...]


class NotRestored(ToolError):
    """A command was rolled back, but these paths could not be restored. Their old content is kept, if there was any."""

    code, error_source = "NOT_RESTORED", ErrorSource.INFRA
    paths: tuple[str, ...]
    kept: tuple[str, ...]  # files with the old content
    because: str  # for the first path


class HubUnreachable(ToolError):
    """The change is committed here, but the hub has not acknowledged it. Retrying with the same call id settles it."""

    code, error_source = "HUB_UNREACHABLE", ErrorSource.INFRA
    hub: str
    because: str
    seconds: float


class HubBacklogFull(ToolError):
    """So much waits for the hub that no further change is accepted."""

    code, error_source = "HUB_BACKLOG_FULL", ErrorSource.INFRA
    hub: str
    because: str
    unsent_bytes: int
    limit: int


class StateDamaged(PathError):
    """The state folder has content that Handhold cannot read; nothing was replayed."""

    code, error_source = "STATE_DAMAGED", ErrorSource.INFRA
    because: str
