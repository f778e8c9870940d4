"""The results of calls: typed facts, which a dialect turns into text, and the reply that carries both."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from handhold.core.errors import PathError
from handhold.core.facts import (
    CommandOutput,
    ConflictKind,
    ConversionStopReason,
    ExitStatus,
    Medium,
    PageLine,
    PdfPage,
    SandboxStatus,
    SearchHit,
    SearchOutcome,
    UndoScope,
)
from handhold.core.problems import NO_PROBLEMS, Problems
from handhold.core.requests import CellAction, GrepMode

Status = Literal["success", "partial", "error"]


@dataclass(frozen=True)
class TextResult:
    """A page of a file.

    `omitted_lines` counts the lines of the requested range that were left out; None if they were not counted.
    """

    path: str
    first: int
    lines: tuple[PageLine, ...]
    omitted_lines: int | None
    has_more: bool  # the file has lines after the last one shown
    total: int | None
    encoding: str
    has_undecodable_bytes: bool  # some bytes could not be decoded and are shown as U+FFFD
    diff_since_read: str = ""  # the diff, if the file changed since the session last saw it
    is_stale: bool = False
    notebook_error: str = ""  # why it is shown as text although its name is that of a notebook
    encoding_source: str = "content"  # where the encoding comes from
    rejected_encoding: str = ""  # the declared encoding, if the bytes contradict it
    ends_with_newline: bool = False  # whether the last line shown is the file's last and ends with one
    split_width: int = 0  # where a dialect splits long lines instead of cutting them: characters of a part
    mtime_ns: int = 0  # of the file

    @property
    def status(self) -> Status:
        return (
            "partial"
            if self.omitted_lines != 0 or self.has_undecodable_bytes or any(line.omitted_chars for line in self.lines)
            else "success"
        )

    def facts(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "offset": self.first,
            "lines": len(self.lines),
            "left_out": self.omitted_lines,
            "more": self.has_more,
            "next_offset": self.first + len(self.lines) if self.has_more else None,
            "total_lines": self.total,
            "encoding": self.encoding,
            "encoding_by": self.encoding_source,
            "encoding_declared": self.rejected_encoding or None,
            "undecodable": self.has_undecodable_bytes,
            "cut_lines": [self.first + n for n, line in enumerate(self.lines) if line.omitted_chars],
            "changed_since_last_read": self.is_stale,
            "mtime_ms": self.mtime_ns // 1_000_000,
        }


@dataclass(frozen=True)
class UnchangedResult:
    """A page that was requested only if it changed, and did not: the session has already seen it."""

    path: str
    first: int
    last: int
    has_more: bool
    total: int | None
    status: Status = "success"

    def facts(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "unchanged": True,
            "offset": self.first,
            "lines": self.last - self.first + 1,
            "more": self.has_more,
            "next_offset": self.last + 1 if self.has_more else None,
            "total_lines": self.total,
        }


@dataclass(frozen=True)
class ReadManyResult:
    """Several files, in the requested order: a page of each, or the error."""

    files: tuple[TextResult | PathError, ...]

    @property
    def status(self) -> Status:
        whole = all(isinstance(each, TextResult) and each.status == "success" for each in self.files)
        return "success" if whole else "partial"

    def facts(self) -> dict[str, Any]:
        return {"files": [_build_file_facts(each) for each in self.files]}


def _build_file_facts(file: TextResult | PathError) -> dict[str, Any]:
    if isinstance(file, TextResult):
        return {"status": file.status, **file.facts()}
    return {"status": "error", "code": file.code, "error_source": file.error_source.value, **file.facts()}


@dataclass(frozen=True)
class ImageResult:
    """An image as it is sent: upright, no larger than models accept, and without metadata."""

    path: str
    medium: Medium
    claimed_medium: str  # the type that its name suggests; empty if that is the same, or there is none
    size: tuple[int, int]  # of the image itself, upright
    sent_size: tuple[int, int]
    mime: str
    is_rotated: bool
    frames: int | None  # None: several, not counted
    is_stale: bool  # the session has seen other content of it
    images: "tuple[Block, ...]" = field(repr=False)
    mtime_ns: int = 0

    @property
    def status(self) -> Status:
        return "success" if self.frames == 1 else "partial"

    def facts(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "medium": self.medium,
            "named": self.claimed_medium or None,
            "width": self.size[0],
            "height": self.size[1],
            "sent_width": self.sent_size[0],
            "sent_height": self.sent_size[1],
            "mime": self.mime,
            "turned": self.is_rotated,
            "frames": self.frames,
            "changed_since_last_read": self.is_stale,
            "mtime_ms": self.mtime_ns // 1_000_000,
        }


@dataclass(frozen=True)
class PdfResult:
    """Pages of a PDF.

    `omitted_ranges` were requested and are not included; `stop_reason` says why, unless there were too many.
    """

    path: str
    page_count: int
    pages: tuple[PdfPage, ...]
    omitted_ranges: tuple[tuple[int, int], ...]
    stop_reason: ConversionStopReason
    claimed_medium: str
    is_stale: bool
    images: "tuple[Block, ...]" = field(repr=False)
    mtime_ns: int = 0

    @property
    def status(self) -> Status:
        return (
            "partial"
            if self.omitted_ranges or any(page.omitted_chars or page.is_broken for page in self.pages)
            else "success"
        )

    def facts(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "medium": "pdf",
            "named": self.claimed_medium or None,
            "page_count": self.page_count,
            "pages": [page.number for page in self.pages],
            "pictured": [page.number for page in self.pages if page.picture],
            "cut": [page.number for page in self.pages if page.omitted_chars],
            "broken": [page.number for page in self.pages if page.is_broken],
            "left_out": [list(run) for run in self.omitted_ranges],
            "ended": self.stop_reason or None,
            "changed_since_last_read": self.is_stale,
            "mtime_ms": self.mtime_ns // 1_000_000,
        }


@dataclass(frozen=True)
class CellOutput:
    """An output of a cell: text, shortened to both ends if it is long, or the number of a picture in the reply.

    `other_formats` are formats of the same output that are not shown.
    """

    kind: Literal["stdout", "stderr", "result", "display", "error"]
    text: str = field(default="", repr=False)
    tail: str = field(default="", repr=False)
    omitted_chars: int = 0  # characters between `text` and `tail`
    picture_number: int = 0
    mime: str = ""  # of a picture, shown or not
    omitted_reason: str = ""  # why the picture is not shown
    size: tuple[int, int] = (0, 0)  # pixels of a picture that is shown
    other_formats: tuple[str, ...] = ()


@dataclass(frozen=True)
class CellView:
    """A cell of a notebook; `name` is how a call refers to it; empty if it cannot."""

    number: int
    name: str
    kind: str
    execution_count: int | None  # the number of its last run
    source: str = field(repr=False)
    omitted_chars: int = 0  # characters of the source that are not shown
    outputs: tuple[CellOutput, ...] = ()
    omitted_outputs: int = 0

    @property
    def is_complete(self) -> bool:
        return (
            not self.omitted_chars
            and not self.omitted_outputs
            and not any(each.omitted_chars or each.omitted_reason for each in self.outputs)
        )

    def facts(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "cell": self.name or None,
            "kind": self.kind,
            "run": self.execution_count,
            "outputs": len(self.outputs) + self.omitted_outputs,
            "left_out": not self.is_complete,
        }


@dataclass(frozen=True)
class NotebookResult:
    """Cells of a notebook, starting with the requested one."""

    path: str
    first: int
    cells: tuple[CellView, ...]
    total: int
    language: str
    version: tuple[int, int]
    is_editable: bool
    has_numbered_cells: bool  # some cells have no id and are referred to by number
    requested_count: int  # how many of the requested cells exist
    is_stale: bool
    diff_since_read: str = field(repr=False)
    images: "tuple[Block, ...]" = field(repr=False)
    mtime_ns: int = 0

    @property
    def has_more(self) -> bool:
        return self.first + len(self.cells) <= self.total

    @property
    def status(self) -> Status:
        whole = len(self.cells) == self.requested_count and all(cell.is_complete for cell in self.cells)
        return "success" if whole else "partial"

    def facts(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "offset": self.first,
            "cells": [cell.facts() for cell in self.cells],
            "left_out": self.requested_count - len(self.cells),
            "more": self.has_more,
            "next_offset": self.first + len(self.cells) if self.has_more else None,
            "total_cells": self.total,
            "language": self.language or None,
            "nbformat": list(self.version),
            "changed_since_last_read": self.is_stale,
            "mtime_ms": self.mtime_ns // 1_000_000,
        }


@dataclass(frozen=True)
class NotebookEditResult:
    """One cell of a notebook was changed. `name` is its name now, or before it was deleted."""

    path: str
    action: CellAction
    number: int
    name: str
    kind: str
    total: int  # cells in the notebook now
    outputs_cleared: bool  # it had outputs, which were removed
    cells_renumbered: bool  # later cells that are referred to by number have new numbers
    encoding: str
    diff: str = field(repr=False)
    status: Status = "success"
    problems: Problems = NO_PROBLEMS  # what this change broke

    def facts(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "action": self.action,
            "cell": self.name,
            "number": self.number,
            "kind": self.kind,
            "total_cells": self.total,
            "outputs_cleared": self.outputs_cleared,
            "renumbered": self.cells_renumbered,
            "encoding": self.encoding,
        }


@dataclass(frozen=True)
class Snippet:
    """Lines of a result with their numbers, not necessarily adjacent."""

    rows: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class WriteResult:
    path: str
    resolved_path: str  # the real path
    created: bool
    size: int
    lines: int
    encoding: str
    diff: str = field(repr=False)
    status: Status = "success"
    encoding_source: str = "content"
    problems: Problems = NO_PROBLEMS  # what this change broke

    def facts(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "created": self.created,
            "bytes": self.size,
            "lines": self.lines,
            "encoding": self.encoding,
            "encoding_by": self.encoding_source,
        }


@dataclass(frozen=True)
class AppliedReplacement:
    """One replacement that was made."""

    old: str = field(repr=False)
    new: str = field(repr=False)
    every: bool
    match_count: int
    matched_by: str
    repairs: tuple[str, ...] = ()  # corrections to the texts of the call, and adjustments of the new text


@dataclass(frozen=True)
class EditResult:
    """`steps` are in order; `created` is set if an edit with an empty old text created the file."""

    path: str
    resolved_path: str
    created: bool
    steps: tuple[AppliedReplacement, ...]
    encoding: str
    diff: str = field(repr=False)
    snippet: Snippet = field(repr=False)
    status: Status = "success"
    encoding_source: str = "content"
    problems: Problems = NO_PROBLEMS  # what this change broke

    def facts(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "created": self.created,
            "encoding": self.encoding,
            "encoding_by": self.encoding_source,
            "edits": [
                {"matched_by": step.matched_by, "places": step.match_count, "repaired": list(step.repairs)}
                for step in self.steps
            ],
        }


@dataclass(frozen=True)
class PatchedFile:
    """What a patch did to one file. `source` is the old path of a moved file; `matched_by` has a strategy per hunk."""

    verb: Literal["added", "deleted", "updated", "moved"]
    path: str
    added: int
    removed: int
    matched_by: tuple[str, ...] = ()
    source: str = ""

    def facts(self) -> dict[str, Any]:
        moved = {"source": self.source} if self.source else {}
        counts = {"added": self.added, "removed": self.removed, "matched_by": list(self.matched_by)}
        return {"verb": self.verb, "path": self.path, **moved, **counts}


@dataclass(frozen=True)
class PatchResult:
    """One entry for each file, in the order of the patch."""

    files: tuple[PatchedFile, ...]
    diff: str = field(repr=False)
    status: Status = "success"
    problems: Problems = NO_PROBLEMS  # what this change broke

    def facts(self) -> dict[str, Any]:
        return {"files": [each.facts() for each in self.files]}


@dataclass(frozen=True)
class UndoResult:
    """What an undo or a redo did, or would do."""

    verb: Literal["undo", "redo"]
    calls: tuple[str, ...]
    paths: tuple[str, ...]
    preview: bool
    diff: str = field(repr=False)
    status: Status = "success"
    used_repositories: tuple[str, ...] = ()  # git folders whose objects stay, because somebody changed them since
    not_kept: tuple[str, ...] = ()  # paths of recorded calls that stay, because nobody knows what they were
    kept_lines: Mapping[str, int] = field(default_factory=dict[str, int])  # of merged texts: later lines that stay
    left: tuple[str, ...] = ()  # paths in conflict that stay as they are, because that was chosen
    saved: Mapping[str, str] = field(default_factory=dict[str, str])  # by path: where its old version was put

    def facts(self) -> dict[str, Any]:
        facts = {"verb": self.verb, "calls": list(self.calls), "paths": list(self.paths), "preview": self.preview}
        others: dict[str, Any] = {
            "used_repositories": list(self.used_repositories),
            "not_kept": list(self.not_kept),
            "kept_lines": dict(self.kept_lines),
            "left": list(self.left),
            "saved": dict(self.saved),
        }
        return facts | {name: found for name, found in others.items() if found}


SearchHint = Literal["", "regex", "literal", "deeper"]
"""What to try if nothing matched: a regular expression, a literal text, or a deeper glob."""


@dataclass(frozen=True)
class SearchSummary:
    """How a search went, without its results. Paths are spelled as the dialect's tools accept them."""

    path: str  # where it searched
    outcome: SearchOutcome = field(repr=False)
    start: int  # how many items earlier pages showed
    shown_count: int  # items on this page: matching lines if lines are shown, else files
    has_more: bool  # there are, or may be, more
    cursor: str  # where the next page starts; empty if there is none or it cannot be continued
    status: Status
    hint: SearchHint = ""
    timeout_seconds: float = 0.0  # its time limit

    def facts(self) -> dict[str, Any]:
        outcome = self.outcome
        return {
            "path": self.path,
            "engine": outcome.engine,
            "fallback_used": outcome.fallback_reason or None,
            "sorted_by": outcome.order,
            "aborted_reason": outcome.abort_reason or None,
            "searched": outcome.searched_count,
            "skipped": [asdict(each) for each in outcome.skipped],
            "truncated": self.has_more,
            "cursor": self.cursor or None,
            "changed_since_cursor": outcome.changed_since_cursor,
            "unsteady": outcome.unstable_count,
            "hint": self.hint or None,
        }


@dataclass(frozen=True)
class ListResult:
    summary: SearchSummary
    entries: tuple[tuple[str, str], ...]  # path and type, in the order shown

    @property
    def status(self) -> Status:
        return self.summary.status

    def facts(self) -> dict[str, Any]:
        return {"entries": [{"path": path, "type": kind} for path, kind in self.entries], **self.summary.facts()}


@dataclass(frozen=True)
class GlobResult:
    summary: SearchSummary
    pattern: str
    paths: tuple[str, ...]

    @property
    def status(self) -> Status:
        return self.summary.status

    def facts(self) -> dict[str, Any]:
        return {"paths": list(self.paths), **self.summary.facts()}


@dataclass(frozen=True)
class GrepResult:
    """Files with their lines (`content`), with their counts (`count`), or alone."""

    summary: SearchSummary
    pattern: str
    mode: GrepMode
    files: tuple[tuple[str, SearchHit], ...]
    glob: str = ""  # only files that match it were searched

    @property
    def status(self) -> Status:
        return self.summary.status

    def facts(self) -> dict[str, Any]:
        return {"mode": self.mode, **self._build_match_facts(), **self.summary.facts()}

    def _build_match_facts(self) -> dict[str, Any]:
        match self.mode:
            case "files_with_matches":
                return {"paths": [path for path, _ in self.files]}
            case "count":
                return {"counts": [{"path": path, "count": hit.count} for path, hit in self.files]}
            case "content":
                matches = ((path, row) for path, hit in self.files for row in hit.rows if row.is_match)
                return {"matches": [{"path": path, "line": row.number, "text": row.text} for path, row in matches]}


# --- commands


ChangeVerb = Literal["created", "changed", "deleted", "moved"]


@dataclass(frozen=True)
class ChangedPath:
    """A path that a command changed; `source` is the old path of a moved one."""

    verb: ChangeVerb
    path: str
    kind: Literal["file", "link", "folder", "other"] = "file"
    entry_count: int = 1  # of a folder that was created or deleted as a whole: everything in it, and itself
    source: str = ""

    def facts(self) -> dict[str, Any]:
        moved = {"source": self.source} if self.source else {}
        many = {"entries": self.entry_count} if self.entry_count > 1 else {}
        return {"verb": self.verb, "path": self.path, "kind": self.kind, **moved, **many}


@dataclass(frozen=True)
class SeenFileDiff:
    """A file that the session had read and a command changed, with as much of the diff as there was room for."""

    path: str
    diff: str = field(repr=False)
    complete: bool


@dataclass(frozen=True)
class RunResult:
    """A command that ended, and what happened to its changes."""

    command: str
    exit_status: ExitStatus
    output: CommandOutput = field(repr=False)
    sandbox: SandboxStatus = field(repr=False)
    undo_scope: UndoScope
    applied: Literal["all", "preview", "nothing"]  # which of its changes were applied to the workspace
    changed_paths: tuple[ChangedPath, ...] = ()  # the first hundred
    totals: Mapping[ChangeVerb, int] = field(default_factory=dict["ChangeVerb", int])
    conflicts: tuple[
        tuple[str, ConflictKind, str], ...
    ] = ()  # paths that were not changed; why; where the command's version is
    protected: tuple[str, ...] = ()
    seen_diffs: tuple[SeenFileDiff, ...] = ()
    undiffed_paths: tuple[str, ...] = ()  # more files that the session had read, for which there was no room
    notes: tuple[str, ...] = ()
    refused_hosts: tuple[str, ...] = ()  # with their ports, if a person could allow them
    cwd: str = ""  # the working directory of a persistent shell
    diff: str = field(default="", repr=False)
    sandbox_known: bool = False  # an earlier reply described this sandbox, so this one does not
    problems: Problems = NO_PROBLEMS  # what its changes broke

    @property
    def status(self) -> Status:
        ended = not (self.exit_status.signal or self.exit_status.timed_out or self.exit_status.cancelled)
        return "success" if is_complete(self.output) and ended and not self.conflicts else "partial"

    def facts(self) -> dict[str, Any]:
        return {
            "command": self.command,
            **build_exit_facts(self.exit_status),
            "output": build_output_facts(self.output),
            "counts": self.applied,
            "preview": self.applied == "preview",
            "undo": self.undo_scope,
            "totals": dict(self.totals),
            "files": [each.facts() for each in self.changed_paths],
            "conflicts": [{"path": path, "clash": clash, "kept": kept} for path, clash, kept in self.conflicts],
            "protected": list(self.protected),
            "seen": [{"path": each.path, "complete": each.complete} for each in self.seen_diffs],
            "notes": list(self.notes),
            "refused_hosts": list(self.refused_hosts),
            "folder": self.cwd,
            "sandbox": asdict(self.sandbox),
        }


@dataclass(frozen=True)
class JobResult:
    """The state of a background command."""

    job: str
    running: bool
    exit_status: ExitStatus | None
    output: CommandOutput = field(repr=False)
    offset: int
    next_offset: int
    sandbox: SandboxStatus = field(repr=False)
    action: Literal["start", "output", "input", "stop"]
    undo_scope: UndoScope = "file tools only"
    notes: tuple[str, ...] = ()
    diff: str = ""
    sandbox_known: bool = False  # as in RunResult

    @property
    def status(self) -> Status:
        return "partial" if self.has_more or self.output.has_undecodable_bytes else "success"

    @property
    def has_more(self) -> bool:
        """Whether it printed more than is shown here."""
        return self.output.total_bytes > self.next_offset - self.offset

    def facts(self) -> dict[str, Any]:
        return {
            "job": self.job,
            "running": self.running,
            **(build_exit_facts(self.exit_status) if self.exit_status else {}),
            "output": build_output_facts(self.output),
            "offset": self.offset,
            "next_offset": self.next_offset,
            "undo": self.undo_scope,
            "sandbox": asdict(self.sandbox),
        }


@dataclass(frozen=True)
class RestartResult:
    """A persistent shell was restarted in its first working directory."""

    status: Status = "success"

    def facts(self) -> dict[str, Any]:
        return {}


def is_complete(output: CommandOutput) -> bool:
    return not (output.omitted_lines or output.tail or output.handle or output.has_undecodable_bytes)


def build_exit_facts(exit_status: ExitStatus) -> dict[str, Any]:
    return {
        "exit_status": exit_status.code,
        "signal": exit_status.signal or None,
        "timed_out": exit_status.timed_out,
        "seconds": round(exit_status.seconds, 3),
    }


def build_output_facts(output: CommandOutput) -> dict[str, Any]:
    return {
        "bytes": output.total_bytes,
        "lines": output.total_lines,
        "left_out": output.omitted_lines,
        "handle": output.handle or None,
        "kept": output.kept_bytes,
        "undecodable": output.has_undecodable_bytes,
    }


@dataclass(frozen=True)
class OutputChunk:
    """Output of a running command. `dropped_chars` counts what was dropped after `text` because the reader was slow."""

    text: str
    dropped_chars: int = 0


Result = (
    TextResult
    | ImageResult
    | PdfResult
    | NotebookResult
    | UnchangedResult
    | ReadManyResult
    | WriteResult
    | EditResult
    | NotebookEditResult
    | PatchResult
    | ListResult
    | GlobResult
    | GrepResult
    | RunResult
    | JobResult
    | RestartResult
)


ChangeResult = WriteResult | EditResult | NotebookEditResult | PatchResult | RunResult
"""The results of calls that change files: each has a `diff`, and the `problems` that the change made."""


@dataclass(frozen=True)
class Block:
    """A piece of what the model receives: text, or an image in base64."""

    type: Literal["text", "image"]
    text: str = ""
    mime: str = ""
    base64: str = field(default="", repr=False)


@dataclass(frozen=True)
class Reply:
    """The answer to a call: `text` and `images` are for the model, the rest is for the application.

    status: "success", "error", or "partial" if something was cut, skipped or left out; `text` says what.
    text: what the model reads.
    data: the facts behind the text, as JSON values.
    code: of an error, such as "NOT_FOUND".
    error_source: who caused the error: "model", "policy", "tool" or "infra".
    ui_extra: for people: the diff of a change.
    images: what the model sees after the text.
    replayed: the call was executed before, and this is the reply it got then.
    result: the facts as a typed value, such as `EditResult`. None after an error, and in a replayed reply: the journal
        keeps the text and the data, not the typed value.
    """

    status: Status
    text: str
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])
    code: str | None = None
    error_source: str | None = None
    ui_extra: str = ""
    images: tuple[Block, ...] = ()
    replayed: bool = False
    result: Result | UndoResult | None = field(default=None, repr=False, compare=False)

    @property
    def ok(self) -> bool:
        """Whether the call succeeded, at least in part."""
        return self.status != "error"

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The text and the images, in the order in which the model receives them."""
        return (Block("text", self.text), *self.images)

    def to_dict(self) -> dict[str, Any]:
        """Every field except `result`, as JSON values."""
        kept = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "result"}
        return {**kept, "data": dict(self.data), "images": [asdict(image) for image in self.images]}


@dataclass(frozen=True)
class ToolSpec:
    """A tool as it is declared to a model."""

    name: str
    title: str
    description: str
    input_schema: Mapping[str, Any]
    annotations: Mapping[str, bool]
