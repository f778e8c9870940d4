"""The errors that a call can end with, as facts.

An error carries what happened and where; a dialect turns it into a sentence. Each code has one error source, so that a
broken machine is never scored as a wrong answer.
"""

from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any, ClassVar, Literal, dataclass_transform

MAX_LISTED_ITEMS = 100


class ErrorSource(StrEnum):
    """Who caused an error."""

    MODEL = "model"  # the call was wrong; the model can correct it
    POLICY = "policy"  # the call was understood and not allowed
    TOOL = "tool"  # a limit or a defect of Handhold
    INFRA = "infra"  # the machine: disk, permissions, locks


@dataclass_transform(eq_default=False)
@dataclass(eq=False)  # an exception is itself, not its fields: it stays hashable
class ToolError(Exception):
    """Something a model should hear. Anything else that is raised is a bug of ours.

    Every subclass is a dataclass; the decorator is applied here, once for all of them.
    """

    code: ClassVar[str] = "INTERNAL"
    error_source: ClassVar[ErrorSource] = ErrorSource.TOOL

    def __init_subclass__(cls) -> None:
        dataclass(eq=False)(cls)

    def facts(self) -> dict[str, Any]:
        """What JSON can hold of it; of a long list the first hundred, and how many there are."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        counts = {f"{name}_count": len(value) for name, value in values.items() if _is_long(value)}
        return counts | {
            name: _to_json(value[:MAX_LISTED_ITEMS] if _is_long(value) else value) for name, value in values.items()
        }

    def __str__(self) -> str:
        return f"{self.code} {self.facts()}"


def _is_long(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) > MAX_LISTED_ITEMS  # pyright: ignore[reportUnknownArgumentType]


def _to_json(value: Any) -> Any:
    """A value as JSON can hold it."""
    if isinstance(value, tuple | list):
        return [_to_json(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return asdict(value) if isinstance(value, Region | LineDifference) else value


@dataclass(frozen=True)
class Region:
    """Some lines of a file, to be shown."""

    first: int
    lines: tuple[str, ...]


@dataclass(frozen=True)
class LineDifference:
    """A line of a file beside the line that was quoted for it; None where one of them has none."""

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
    example: str = ""  # a call that would be taken, as JSON; empty where none is known


class CallIdReused(ToolError):
    """The same id came before in this turn, with another tool or other arguments."""

    code, error_source = "CALL_ID_REUSED", ErrorSource.MODEL
    call_id: str


# --- paths


class PathError(ToolError):
    """An error about one path, as the model spelled it."""

    path: str


class BadPath(PathError):
    """A path that names no file whatever the disk holds: empty, with a NUL, ending in a slash."""

    code, error_source = "BAD_PATH", ErrorSource.MODEL
    because: str


class OutsideWorkspace(PathError):
    code, error_source = "OUTSIDE_WORKSPACE", ErrorSource.MODEL
    roots: tuple[str, ...] = ()


class NotFound(PathError):
    code, error_source = "NOT_FOUND", ErrorSource.MODEL
    near: tuple[str, ...] = ()
    was_read: bool = False  # by this session, where that was looked for


class IsDirectory(PathError):
    code, error_source = "IS_DIRECTORY", ErrorSource.MODEL


class NotDirectory(PathError):
    """A part of the path that should be a directory is a file."""

    code, error_source = "NOT_DIRECTORY", ErrorSource.MODEL


class NotRegularFile(PathError):
    """A FIFO, a socket or a device: reading it could block for ever."""

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
    """The file is larger than this operation takes (bytes)."""

    code, error_source = "TOO_LARGE", ErrorSource.MODEL
    size: int
    most: int


class PageTooLong(PathError):
    """The lines asked for hold more characters than one page may."""

    code, error_source = "PAGE_TOO_LONG", ErrorSource.MODEL
    chars: int
    most: int


class NeedsSeparateRead(PathError):
    """A file that is not text, or is shown otherwise than by lines: it takes a reply of its own."""

    code, error_source = "READ_ALONE", ErrorSource.MODEL


class BrokenFile(PathError):
    """An image or a PDF by its name or its first bytes, that cannot be shown: damaged, cut off, or made so."""

    code, error_source = "BROKEN_FILE", ErrorSource.MODEL
    medium: str
    because: str


class EncryptedPdf(PathError):
    """A PDF that opens only with a password."""

    code, error_source = "ENCRYPTED", ErrorSource.MODEL


class TooManyPixels(PathError):
    """What the image declares itself to be; nobody decoded it."""

    code, error_source = "TOO_MANY_PIXELS", ErrorSource.MODEL
    width: int
    height: int
    most: int


class ConversionLimitExceeded(PathError):
    """Showing the file took more time or memory than a conversion gets."""

    code, error_source = "TOO_COSTLY", ErrorSource.TOOL
    resource: Literal["time", "memory"]


class NoSuchPage(PathError):
    """A PDF has pages, and none of those that were asked for."""

    code, error_source = "NO_SUCH_PAGE", ErrorSource.MODEL
    asked: tuple[tuple[int, int], ...]
    count: int


class PagesNotSupported(PathError):
    """Pages were asked for of a file that is no PDF."""

    code, error_source = "NOT_PAGED", ErrorSource.MODEL


class PastEnd(PathError):
    code, error_source = "PAST_END", ErrorSource.MODEL
    offset: int
    lines: int
    unit: Literal["line", "cell"] = "line"


class Unencodable(PathError):
    """The new text holds characters that the file's encoding has no bytes for."""

    code, error_source = "UNENCODABLE", ErrorSource.MODEL
    encoding: str
    characters: str


class ChangedDuringRead(PathError):
    """Somebody wrote the file while it was read, twice in a row."""

    code, error_source = "CHANGED_DURING_READ", ErrorSource.INFRA


# --- what the session has seen


class Unread(PathError):
    code, error_source = "UNREAD", ErrorSource.MODEL


class PartlyRead(PathError):
    """Overwriting needs the whole file to have been seen; only these lines were."""

    code, error_source = "PARTLY_READ", ErrorSource.MODEL
    seen: tuple[tuple[int, int], ...]


class Stale(PathError):
    """The file is no longer what the session saw."""

    code, error_source = "STALE", ErrorSource.MODEL
    diff: str = ""
    complete: bool = False  # the diff shows all that changed
    writer: str = ""  # the session that changed it, if it was one of ours
    now: str = ""  # the hash of what is there now


class StaleBeforeCommit(Stale):
    """Found before anything was put in place: the others of a command's changes can still be made."""

    paths: tuple[str, ...] = ()  # all that are no longer what they were


# --- edits


class NoChange(PathError):
    """Old and new text are the same."""

    code, error_source = "NO_CHANGE", ErrorSource.MODEL


class NoMatch(PathError):
    """The old text is not in the file.

    `kind` is `whitespace` if only blanks differ, `stale` if most of its lines are there and others have changed or
    were misquoted, else `absent`. `differs` is where the nearest lines part from it, the first few.
    """

    code, error_source = "NO_MATCH", ErrorSource.MODEL
    old: str
    nearest: Region | None = None
    kind: Literal["whitespace", "stale", "absent"] = "absent"
    differs: tuple[LineDifference, ...] = ()
    again: bool = False  # the very same call failed just before
    every: bool = False  # all the places were meant
    longer: bool = False  # it has more lines than the file


class Ambiguous(PathError):
    """The old text is in the file more than once."""

    code, error_source = "AMBIGUOUS", ErrorSource.MODEL
    old: str
    lines: tuple[int, ...]
    matched_by: str


class UnexpectedCount(PathError):
    """The old text stands in more or fewer places than the call said."""

    code, error_source = "UNEXPECTED_COUNT", ErrorSource.MODEL
    old: str
    wanted: int
    lines: tuple[int, ...]


class OverlappingMatches(PathError):
    """The places where the old text stands share characters: replacing all of them has no one meaning."""

    code, error_source = "OVERLAPPING", ErrorSource.MODEL
    old: str
    lines: tuple[int, ...]


# --- notebooks


class NotNotebook(PathError):
    """The file has no cells that can be edited: it is no notebook, a broken one, or one of another version."""

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
    names: tuple[str, ...]  # by which each of them can be meant


# --- patches


class BadPatch(ToolError):
    """The text does not follow the grammar: what stands on which of its lines, and what should."""

    code, error_source = "BAD_PATCH", ErrorSource.MODEL
    line: int
    text: str
    wanted: str


class HunkMismatch(PathError):
    """The old lines of a hunk, or the line that its `@@` names, are not where they should be."""

    code, error_source = "HUNK_MISMATCH", ErrorSource.MODEL
    hunk: int  # its number among those of the file
    line: int  # of the patch
    old: str
    scope: str = ""  # the `@@` line that was not found
    nearest: Region | None = None


class HunkAmbiguous(PathError):
    """A hunk fits in more than one place of its scope."""

    code, error_source = "HUNK_AMBIGUOUS", ErrorSource.MODEL
    hunk: int
    line: int
    lines: tuple[int, ...]
    matched_by: str


class IsLink(PathError):
    """Deleting or moving a link: whether it or its target is meant, nobody said."""

    code, error_source = "IS_LINK", ErrorSource.MODEL
    target: str


# --- searches


class BadPattern(ToolError):
    """A text that no line can hold, so that nothing was looked for: empty, or with a line break."""

    code, error_source = "BAD_PATTERN", ErrorSource.MODEL
    pattern: str
    because: str


class BadGlob(ToolError):
    code, error_source = "BAD_GLOB", ErrorSource.MODEL
    pattern: str
    because: str


class BadRegex(ToolError):
    """What the engine has against a regular expression, in its own words."""

    code, error_source = "BAD_REGEX", ErrorSource.MODEL
    pattern: str
    because: str


class BadCursor(ToolError):
    """A cursor of another search, or one that was not copied whole."""

    code, error_source = "BAD_CURSOR", ErrorSource.MODEL
    cursor: str


# --- commands


class NotOnlyPatch(ToolError):
    """A command that calls apply_patch, and would do more or other than that."""

    code, error_source = "NOT_ONLY_PATCH", ErrorSource.MODEL
    because: str


class NoShell(ToolError):
    """Commands are not run here: there is no shell, or nothing that would confine it, and nobody said to do without."""

    code, error_source = "NO_SHELL", ErrorSource.TOOL
    because: str = ""  # empty: it is no call of apply_patch
    command: str = ""


class NoSuchJob(ToolError):
    """No command in the background has this name, or it was forgotten."""

    code, error_source = "NO_SUCH_JOB", ErrorSource.MODEL
    job: str
    known: tuple[str, ...] = ()


class UnkillableProcess(ToolError):
    """A process of a command was killed and does not die: it hangs in the kernel. Its shadow is dropped."""

    code, error_source = "UNENDED", ErrorSource.INFRA


class Cancelled(ToolError):
    """Whoever asked for a command ended it before it was done; nothing of it counts."""

    code, error_source = "CANCELLED", ErrorSource.POLICY


class ExtraMissing(ToolError):
    """An optional part of the installation is needed here and is not there."""

    code, error_source = "EXTRA_MISSING", ErrorSource.INFRA
    extra: str


# --- policy


class Denied(PathError):
    """Of a command that may not even run, the path is its text."""

    code, error_source = "DENIED", ErrorSource.POLICY
    because: str
    rule: str = ""  # that decided, and where it is written
    of_command: bool = False
    remedy: str = ""  # how a person allows it


class SettingsBroken(PathError):
    """A file of settings that cannot be taken as it is. Nothing is opened without the rules that it was to bring."""

    code, error_source = "SETTINGS_BROKEN", ErrorSource.INFRA
    because: str


class ToolboxClosed(RuntimeError):
    """A toolbox was used after `close`. It is a mistake of the program, so it is raised and no model reads it."""

    def __init__(self) -> None:
        super().__init__("the toolbox is closed; open another one with Toolbox.open")


class NotApproved(PathError):
    """The policy wanted a person to look, and nobody said yes."""

    code, error_source = "NOT_APPROVED", ErrorSource.POLICY
    because: str
    asked: bool  # False: there was nobody to ask
    rule: str = ""
    approval: str = ""  # the question that waits for an answer: the same call, sent again after it, goes ahead
    of_command: bool = False
    unasked: str = ""  # why the question could not wait for an answer either


class ApproverInvalid(NotApproved):
    """The approver raised, or gave an answer that is none. The log of the program says which, for its developer."""

    code, error_source = "APPROVER_INVALID", ErrorSource.INFRA


class NoPendingApproval(ToolError):
    """An answer to a question that nobody put, or that was answered."""

    code, error_source = "NOTHING_ASKED", ErrorSource.POLICY
    wanted: str
    because: str


class ReadOnly(PathError):
    """The root, or the file system under it, is read-only."""

    code, error_source = "READ_ONLY", ErrorSource.POLICY


# --- taking back


class NothingToUndo(ToolError):
    code, error_source = "NOTHING_TO_UNDO", ErrorSource.MODEL
    wanted: str


class UndoConflict(ToolError):
    """Taking this back would lose a later change to these files."""

    code, error_source = "UNDO_CONFLICT", ErrorSource.MODEL
    paths: tuple[str, ...]


class PartialUndo(ToolError):
    """Several calls were to be taken back (or done again) one after the other, and one could not be."""

    code, error_source = "TAKEN_BACK_PARTLY", ErrorSource.INFRA
    verb: Literal["undo", "redo"]
    done: tuple[str, ...]  # the calls that were, in that order
    left: tuple[str, ...]  # those that were not, the one that failed first
    because: str  # its error's code
    paths: tuple[str, ...] = ()  # that stood in the way


class ContentDropped(ToolError):
    """The store had to make room: the old content of these files is gone."""

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
    """An error of the system that has no name of its own here; `errno` is its."""

    code, error_source = "IO_ERROR", ErrorSource.INFRA
    because: str


class Busy(PathError):
    """Another process holds the workspace and did not let go in time."""

    code, error_source = "BUSY", ErrorSource.INFRA
    seconds: float


class RollbackIncomplete(PathError):
    """A change failed and could not be taken back at once. It will be before the next call; until then it is half."""

    code, error_source = "UNFINISHED", ErrorSource.INFRA
    paths: tuple[str, ...]


class StateDamaged(PathError):
    """The state folder holds something that is not ours to read; nothing was replayed."""

    code, error_source = "STATE_DAMAGED", ErrorSource.INFRA
    because: str
