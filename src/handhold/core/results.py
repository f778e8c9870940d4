"""What came of a call: typed facts that a dialect puts into words, and the reply that leaves the house."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from handhold.core.errors import PathError
from handhold.core.facts import Clash, Ended, Exit, Held, Hit, Line, Medium, Output, PdfPage, Scan, Undo
from handhold.core.requests import CellAction, Mode

Status = Literal["success", "partial", "error"]


@dataclass(frozen=True)
class Shown:
    """A page of a file.

    `rest` counts the lines of the requested range that were left out, None if nobody counted them.
    """

    path: str
    first: int
    lines: tuple[Line, ...]
    rest: int | None
    more: bool  # the file goes on after the last line shown
    total: int | None
    encoding: str
    replaced: bool  # some bytes could not be decoded and are shown as U+FFFD
    changed: str = ""  # the diff, if the file is not what the session last saw
    stale: bool = False
    no_notebook: str = ""  # why it is shown as text, though its name says that it has cells
    read_by: str = "content"  # what the encoding rests on
    unlike: str = ""  # the encoding that was declared, where the bytes say otherwise
    newline_at_end: bool = False  # whether the last line shown is the file's last and ends with one
    width: int = 0  # where a dialect splits long lines instead of cutting them: characters of a part
    mtime_ns: int = 0  # of the file

    @property
    def status(self) -> Status:
        return "partial" if self.rest != 0 or self.replaced or any(line.cut for line in self.lines) else "success"

    def facts(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "offset": self.first,
            "lines": len(self.lines),
            "left_out": self.rest,
            "more": self.more,
            "next_offset": self.first + len(self.lines) if self.more else None,
            "total_lines": self.total,
            "encoding": self.encoding,
            "encoding_by": self.read_by,
            "encoding_declared": self.unlike or None,
            "undecodable": self.replaced,
            "cut_lines": [self.first + n for n, line in enumerate(self.lines) if line.cut],
            "changed_since_last_read": self.stale,
            "mtime_ms": self.mtime_ns // 1_000_000,
        }


@dataclass(frozen=True)
class Unchanged:
    """A page that was asked for only if it changed, and did not: the session was shown it as it is."""

    path: str
    first: int
    last: int
    more: bool
    total: int | None
    status: Status = "success"

    def facts(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "unchanged": True,
            "offset": self.first,
            "lines": self.last - self.first + 1,
            "more": self.more,
            "next_offset": self.last + 1 if self.more else None,
            "total_lines": self.total,
        }


@dataclass(frozen=True)
class ShownMany:
    """Several files, in the order asked for: of each a page, or why there is none."""

    files: tuple[Shown | PathError, ...]

    @property
    def status(self) -> Status:
        whole = all(isinstance(each, Shown) and each.status == "success" for each in self.files)
        return "success" if whole else "partial"

    def facts(self) -> dict[str, Any]:
        return {"files": [_file_facts(each) for each in self.files]}


def _file_facts(file: Shown | PathError) -> dict[str, Any]:
    if isinstance(file, Shown):
        return {"status": file.status, **file.facts()}
    return {"status": "error", "code": file.code, "blame": file.blame.value, **file.facts()}


@dataclass(frozen=True)
class Pictured:
    """An image, as it is sent: upright, not larger than models take, without anything else that was in the file."""

    path: str
    medium: Medium
    named: str  # what its name says it is; empty if that is the same, or nothing
    size: tuple[int, int]  # of the image itself, upright
    sent: tuple[int, int]
    mime: str
    turned: bool
    frames: int | None  # None: several, and nobody counted them
    stale: bool  # the session saw another content of it before
    images: "tuple[Block, ...]" = field(repr=False)
    mtime_ns: int = 0

    @property
    def status(self) -> Status:
        return "success" if self.frames == 1 else "partial"

    def facts(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "medium": self.medium,
            "named": self.named or None,
            "width": self.size[0],
            "height": self.size[1],
            "sent_width": self.sent[0],
            "sent_height": self.sent[1],
            "mime": self.mime,
            "turned": self.turned,
            "frames": self.frames,
            "changed_since_last_read": self.stale,
            "mtime_ms": self.mtime_ns // 1_000_000,
        }


@dataclass(frozen=True)
class PdfShown:
    """Pages of a PDF. `left` are those that were asked for and are not here; `ended` is why, if not by their number."""

    path: str
    count: int
    pages: tuple[PdfPage, ...]
    left: tuple[tuple[int, int], ...]
    ended: Ended
    named: str
    stale: bool
    images: "tuple[Block, ...]" = field(repr=False)
    mtime_ns: int = 0

    @property
    def status(self) -> Status:
        return "partial" if self.left or any(page.cut or page.broken for page in self.pages) else "success"

    def facts(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "medium": "pdf",
            "named": self.named or None,
            "page_count": self.count,
            "pages": [page.number for page in self.pages],
            "pictured": [page.number for page in self.pages if page.picture],
            "cut": [page.number for page in self.pages if page.cut],
            "broken": [page.number for page in self.pages if page.broken],
            "left_out": [list(run) for run in self.left],
            "ended": self.ended or None,
            "changed_since_last_read": self.stale,
            "mtime_ms": self.mtime_ns // 1_000_000,
        }


@dataclass(frozen=True)
class CellOutput:
    """Something that a cell put out: text, of a long one both ends, or a picture of the reply, by its number.

    `other` are forms of the same that are not shown.
    """

    kind: Literal["stdout", "stderr", "result", "display", "error"]
    text: str = field(default="", repr=False)
    tail: str = field(default="", repr=False)
    cut: int = 0  # characters between the two
    picture: int = 0
    mime: str = ""  # of a picture, whether it is shown
    left_out: str = ""  # or why not
    size: tuple[int, int] = (0, 0)  # pixels of one that is
    other: tuple[str, ...] = ()


@dataclass(frozen=True)
class ShownCell:
    """A cell of a notebook; `name` is how a call means it, empty if none can."""

    number: int
    name: str
    kind: str
    run: int | None  # the number of its last run
    source: str = field(repr=False)
    cut: int = 0  # characters of the source that are not shown
    outputs: tuple[CellOutput, ...] = ()
    outputs_left: int = 0

    @property
    def is_whole(self) -> bool:
        return not self.cut and not self.outputs_left and not any(each.cut or each.left_out for each in self.outputs)

    def facts(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "cell": self.name or None,
            "kind": self.kind,
            "run": self.run,
            "outputs": len(self.outputs) + self.outputs_left,
            "left_out": not self.is_whole,
        }


@dataclass(frozen=True)
class NotebookShown:
    """Cells of a notebook, from the one that was asked for on."""

    path: str
    first: int
    cells: tuple[ShownCell, ...]
    total: int
    language: str
    version: tuple[int, int]
    editable: bool
    by_number: bool  # some cells have no id, and are called by their number
    wanted: int  # how many cells were asked for and are there
    stale: bool
    changed: str = field(repr=False)
    images: "tuple[Block, ...]" = field(repr=False)
    mtime_ns: int = 0

    @property
    def more(self) -> bool:
        return self.first + len(self.cells) <= self.total

    @property
    def status(self) -> Status:
        whole = len(self.cells) == self.wanted and all(cell.is_whole for cell in self.cells)
        return "success" if whole else "partial"

    def facts(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "offset": self.first,
            "cells": [cell.facts() for cell in self.cells],
            "left_out": self.wanted - len(self.cells),
            "more": self.more,
            "next_offset": self.first + len(self.cells) if self.more else None,
            "total_cells": self.total,
            "language": self.language or None,
            "nbformat": list(self.version),
            "changed_since_last_read": self.stale,
            "mtime_ms": self.mtime_ns // 1_000_000,
        }


@dataclass(frozen=True)
class NotebookEdited:
    """One cell of a notebook was changed. `name` is what it is called now, or was when it went."""

    path: str
    action: CellAction
    number: int
    name: str
    kind: str
    total: int  # cells that there are now
    cleared: bool  # it had put something out, which is gone
    renumbered: bool  # cells behind it that are called by number are called otherwise now
    encoding: str
    diff: str = field(repr=False)
    status: Status = "success"

    def facts(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "action": self.action,
            "cell": self.name,
            "number": self.number,
            "kind": self.kind,
            "total_cells": self.total,
            "outputs_cleared": self.cleared,
            "renumbered": self.renumbered,
            "encoding": self.encoding,
        }


@dataclass(frozen=True)
class Snippet:
    """Lines of a result with their numbers, not necessarily adjacent."""

    rows: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class Written:
    path: str
    place: str  # where that really is
    created: bool
    size: int
    lines: int
    encoding: str
    diff: str = field(repr=False)
    status: Status = "success"
    read_by: str = "content"

    def facts(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "created": self.created,
            "bytes": self.size,
            "lines": self.lines,
            "encoding": self.encoding,
            "encoding_by": self.read_by,
        }


@dataclass(frozen=True)
class Step:
    """One replacement as it was carried out."""

    old: str = field(repr=False)
    new: str = field(repr=False)
    every: bool
    places: int
    matched_by: str
    repaired: tuple[str, ...] = ()  # what was taken back in the texts, and what was fitted in the new one


@dataclass(frozen=True)
class Edited:
    """`steps` in order; a file that an empty first text made has `created`."""

    path: str
    place: str
    created: bool
    steps: tuple[Step, ...]
    encoding: str
    diff: str = field(repr=False)
    snippet: Snippet = field(repr=False)
    status: Status = "success"
    read_by: str = "content"

    def facts(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "created": self.created,
            "encoding": self.encoding,
            "encoding_by": self.read_by,
            "edits": [
                {"matched_by": step.matched_by, "places": step.places, "repaired": list(step.repaired)}
                for step in self.steps
            ],
        }


@dataclass(frozen=True)
class PatchedFile:
    """What a patch did to one file. `source` is where a moved one was; `matched_by` has a rung for each hunk."""

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
class Patched:
    """One entry for each file, in the order of the patch."""

    files: tuple[PatchedFile, ...]
    diff: str = field(repr=False)
    status: Status = "success"

    def facts(self) -> dict[str, Any]:
        return {"files": [each.facts() for each in self.files]}


@dataclass(frozen=True)
class TakenBack:
    """What an undo or a redo did, or would do."""

    verb: Literal["undo", "redo"]
    calls: tuple[str, ...]
    paths: tuple[str, ...]
    preview: bool
    diff: str = field(repr=False)
    status: Status = "success"

    def facts(self) -> dict[str, Any]:
        return {"verb": self.verb, "calls": list(self.calls), "paths": list(self.paths), "preview": self.preview}


Hint = Literal["", "regex", "literal", "deeper"]
"""What a pattern that found nothing may have been: a regular expression, no regular expression, a shallow glob."""


@dataclass(frozen=True)
class Searched:
    """How a search went, apart from what it found. Paths are spelled as the dialect's tools take them."""

    path: str  # where it looked
    scan: Scan = field(repr=False)
    start: int  # how many items earlier pages showed
    shown: int  # how many this one does; matching lines where lines are shown, else files
    more: bool  # there are, or may be, others behind them
    cursor: str  # to go on from; empty if that was all, or nobody could
    status: Status
    hint: Hint = ""
    seconds: float = 0.0  # that it had

    def facts(self) -> dict[str, Any]:
        scan = self.scan
        return {
            "path": self.path,
            "engine": scan.engine,
            "fallback_used": scan.weaker or None,
            "sorted_by": scan.order,
            "aborted_reason": scan.aborted or None,
            "searched": scan.searched,
            "skipped": [asdict(each) for each in scan.skipped],
            "truncated": self.more,
            "cursor": self.cursor or None,
            "changed_since_cursor": scan.changed,
            "unsteady": scan.unsteady,
            "hint": self.hint or None,
        }


@dataclass(frozen=True)
class Listed:
    search: Searched
    entries: tuple[tuple[str, str], ...]  # path and type, in the order shown

    @property
    def status(self) -> Status:
        return self.search.status

    def facts(self) -> dict[str, Any]:
        return {"entries": [{"path": path, "type": kind} for path, kind in self.entries], **self.search.facts()}


@dataclass(frozen=True)
class Globbed:
    search: Searched
    pattern: str
    paths: tuple[str, ...]

    @property
    def status(self) -> Status:
        return self.search.status

    def facts(self) -> dict[str, Any]:
        return {"paths": list(self.paths), **self.search.facts()}


@dataclass(frozen=True)
class Grepped:
    """Files with their rows (`content`), their counts (`count`), or by themselves."""

    search: Searched
    pattern: str
    mode: Mode
    files: tuple[tuple[str, Hit], ...]
    glob: str = ""  # which files were searched alone

    @property
    def status(self) -> Status:
        return self.search.status

    def facts(self) -> dict[str, Any]:
        return {"mode": self.mode, **self._found(), **self.search.facts()}

    def _found(self) -> dict[str, Any]:
        match self.mode:
            case "files_with_matches":
                return {"paths": [path for path, _ in self.files]}
            case "count":
                return {"counts": [{"path": path, "count": hit.count} for path, hit in self.files]}
            case "content":
                matches = ((path, row) for path, hit in self.files for row in hit.rows if row.is_match)
                return {"matches": [{"path": path, "line": row.number, "text": row.text} for path, row in matches]}


# --- commands


Deed = Literal["created", "changed", "deleted", "moved"]


@dataclass(frozen=True)
class Touched:
    """A path that a command changed; `source` is where a moved one was."""

    verb: Deed
    path: str
    kind: Literal["file", "link", "folder", "other"] = "file"
    entries: int = 1  # of a folder that came or went whole: everything in it, and itself
    source: str = ""

    def facts(self) -> dict[str, Any]:
        moved = {"source": self.source} if self.source else {}
        many = {"entries": self.entries} if self.entries > 1 else {}
        return {"verb": self.verb, "path": self.path, "kind": self.kind, **moved, **many}


@dataclass(frozen=True)
class Seen:
    """A file that the session had read and a command changed: how, as far as there was room to show it."""

    path: str
    diff: str = field(repr=False)
    complete: bool


@dataclass(frozen=True)
class Ran:
    """A command that came to its end, and what became of what it did."""

    command: str
    exit: Exit
    output: Output = field(repr=False)
    held: Held = field(repr=False)
    undo: Undo
    counts: Literal["all", "preview", "nothing"]  # whether the workspace is as the command left it
    touched: tuple[Touched, ...] = ()  # the first hundred
    totals: Mapping[Deed, int] = field(default_factory=dict["Deed", int])
    conflicts: tuple[tuple[str, Clash, str], ...] = ()  # paths that stay as they were; why; where its version is
    protected: tuple[str, ...] = ()
    seen: tuple[Seen, ...] = ()
    unseen: tuple[str, ...] = ()  # files that the session had read, too, and that there was no room to show
    notes: tuple[str, ...] = ()
    folder: str = ""  # where a lasting shell stands now
    diff: str = field(default="", repr=False)

    @property
    def status(self) -> Status:
        ended = not (self.exit.signal or self.exit.timed_out or self.exit.cancelled)
        return "success" if is_whole(self.output) and ended and not self.conflicts else "partial"

    def facts(self) -> dict[str, Any]:
        return {
            "command": self.command,
            **ending(self.exit),
            "output": printed(self.output),
            "counts": self.counts,
            "preview": self.counts == "preview",
            "undo": self.undo,
            "totals": dict(self.totals),
            "files": [each.facts() for each in self.touched],
            "conflicts": [{"path": path, "clash": clash, "kept": kept} for path, clash, kept in self.conflicts],
            "protected": list(self.protected),
            "seen": [{"path": each.path, "complete": each.complete} for each in self.seen],
            "notes": list(self.notes),
            "folder": self.folder,
            "held": asdict(self.held),
        }


@dataclass(frozen=True)
class JobShown:
    """A command in the background, as it was asked about."""

    job: str
    running: bool
    exit: Exit | None
    output: Output = field(repr=False)
    offset: int
    next_offset: int
    held: Held = field(repr=False)
    asked: Literal["start", "output", "input", "stop"]
    undo: Undo = "file tools only"
    diff: str = ""

    @property
    def status(self) -> Status:
        return "partial" if self.more or self.output.replaced else "success"

    @property
    def more(self) -> bool:
        """Whether it has printed more than is shown here."""
        return self.output.bytes > self.next_offset - self.offset

    def facts(self) -> dict[str, Any]:
        return {
            "job": self.job,
            "running": self.running,
            **(ending(self.exit) if self.exit else {}),
            "output": printed(self.output),
            "offset": self.offset,
            "next_offset": self.next_offset,
            "undo": self.undo,
            "held": asdict(self.held),
        }


@dataclass(frozen=True)
class Restarted:
    """A lasting shell has forgotten where it stood."""

    status: Status = "success"

    def facts(self) -> dict[str, Any]:
        return {}


def is_whole(output: Output) -> bool:
    return not (output.left_out or output.tail or output.handle or output.replaced)


def ending(end: Exit) -> dict[str, Any]:
    return {
        "exit_status": end.code,
        "signal": end.signal or None,
        "timed_out": end.timed_out,
        "seconds": round(end.seconds, 3),
    }


def printed(output: Output) -> dict[str, Any]:
    return {
        "bytes": output.bytes,
        "lines": output.lines,
        "left_out": output.left_out,
        "handle": output.handle or None,
        "kept": output.kept,
        "undecodable": output.replaced,
    }


@dataclass(frozen=True)
class Printed:
    """What a command printed just now; `dropped` counts what came after it faster than it was taken, in characters."""

    text: str
    dropped: int = 0


Result = (
    Shown
    | Pictured
    | PdfShown
    | NotebookShown
    | Unchanged
    | ShownMany
    | Written
    | Edited
    | NotebookEdited
    | Patched
    | Listed
    | Globbed
    | Grepped
    | Ran
    | JobShown
    | Restarted
)


@dataclass(frozen=True)
class Block:
    """A piece of what the model receives: text, or an image in base64."""

    type: Literal["text", "image"]
    text: str = ""
    mime: str = ""
    base64: str = field(default="", repr=False)


@dataclass(frozen=True)
class Reply:
    """What an agent hands back to its model, and what it keeps for itself."""

    status: Status
    text: str
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])
    code: str | None = None
    blame: str | None = None
    ui_extra: str = ""
    images: tuple[Block, ...] = ()
    replayed: bool = False

    @property
    def blocks(self) -> tuple[Block, ...]:
        return (Block("text", self.text), *self.images)


@dataclass(frozen=True)
class ToolSpec:
    """A tool as a model is told of it."""

    name: str
    title: str
    description: str
    input_schema: Mapping[str, Any]
    annotations: Mapping[str, bool]
