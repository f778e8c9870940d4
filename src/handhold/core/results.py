"""What came of a call: typed facts that a dialect puts into words, and the reply that leaves the house."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from handhold.core.facts import Line

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
            "undecodable": self.replaced,
            "cut_lines": [self.first + n for n, line in enumerate(self.lines) if line.cut],
            "changed_since_last_read": self.stale,
        }


@dataclass(frozen=True)
class Snippet:
    """Lines of a result with their numbers, not necessarily adjacent."""

    rows: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class Written:
    path: str
    created: bool
    size: int
    lines: int
    encoding: str
    diff: str = field(repr=False)
    status: Status = "success"

    def facts(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "created": self.created,
            "bytes": self.size,
            "lines": self.lines,
            "encoding": self.encoding,
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
    created: bool
    steps: tuple[Step, ...]
    encoding: str
    diff: str = field(repr=False)
    snippet: Snippet = field(repr=False)
    status: Status = "success"

    def facts(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "created": self.created,
            "encoding": self.encoding,
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


Result = Shown | Written | Edited | Patched


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
