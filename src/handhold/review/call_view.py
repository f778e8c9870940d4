"""One call: its effects file by file, output, arguments and reply, and who else changed the same files."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from markupsafe import Markup

from handhold.backends.convert.converter import ConfinedConverter
from handhold.core.errors import BinaryFile, ToolError
from handhold.core.facts import ConvertedImage, FileIdentity, FileSnapshot, Medium
from handhold.core.plans import Convert, digest
from handhold.core.ports.journal import JournalEntry
from handhold.core.problems import NO_PROBLEMS, Problems, load_problems
from handhold.core.requests import PageLimits, Read
from handhold.core.text.file_types import MAGIC_NUMBERS
from handhold.logs import log_swallowed
from handhold.pipeline.change_history import RecordedChange, Side
from handhold.review.diff_view import DiffView, build_view, show_json
from handhold.review.display import format_size, has_hidden, plural, show_output
from handhold.review.questions import Chip, describe_effect_kind, iter_marks, rate_risk
from handhold.review.recorded_workspace import RecordedWorkspace
from handhold.review.timeline import CallRow, build_row

MAX_FILES = 40  # with their diffs on the page of a call
MAX_LINES = 120  # of each
MAX_PICTURE_BYTES = 8 * 1024**2
MAX_OUTPUT_LINES = 400
MAX_HISTORY = 12


@dataclass(frozen=True)
class ChangedFileView:
    change: RecordedChange
    sign: str
    word: str
    chips: tuple[Chip, ...]
    diff: DiffView | None
    problem: str  # why there is no diff
    size: str
    is_picture: bool

    @property
    def path(self) -> str:
        return self.change.effect.path


@dataclass(frozen=True)
class FileHistory:
    """Who changed a file, newest first."""

    path: str
    rows: tuple[CallRow, ...]
    has_more: bool


@dataclass(frozen=True)
class CallView:
    row: CallRow
    files: tuple[ChangedFileView, ...]
    file_count: int  # of all
    output: Markup | None
    output_lines: int
    output_is_live: bool
    arguments: Markup
    reply: str | None
    problems: Problems
    histories: tuple[FileHistory, ...]
    before: int
    after: int
    hidden_chars: int
    day: str

    @property
    def entry(self) -> JournalEntry:
        return self.row.entry

    @property
    def title(self) -> str:
        entry = self.entry
        if not entry.changed or not entry.succeeded:
            return entry.call.tool
        verbs = {file.change.effect.verb for file in self.files}
        verb = "Deleted" if verbs == {"deleted"} else "Created" if verbs == {"new"} else "Changed"
        return f"{verb} {plural(self.file_count, 'file')}"

    @property
    def left_out(self) -> int:
        return self.file_count - len(self.files)


def build_call(workspace: RecordedWorkspace, entry: JournalEntry) -> CallView:
    changes = workspace.history.list_changes(entry, limit=MAX_FILES) if entry.changed else []
    files = [view_file(workspace, entry, change, limit=MAX_LINES) for change in changes]
    files.sort(key=lambda file: -rate_risk(file.change.effect))
    before, after = workspace.records.find_neighbours(entry.seq)
    output, lines, is_live = read_output(workspace, entry)
    reply, problems = read_reply(entry)
    histories = tuple(build_history(workspace, file.change.change.path) for file in files[:3])
    return CallView(
        row=build_row(entry, workspace),
        files=tuple(files),
        file_count=workspace.history.count_changes(entry) if len(changes) >= MAX_FILES else len(changes),
        output=output,
        output_lines=lines,
        output_is_live=is_live,
        arguments=show_json(format_arguments(entry)),
        reply=reply,
        problems=problems,
        histories=histories,
        before=before,
        after=after,
        hidden_chars=sum(file.diff.hidden_chars for file in files if file.diff) + has_hidden(format_arguments(entry)),
        day=f"{datetime.fromtimestamp(entry.at):%d %b %Y}",
    )


def format_arguments(entry: JournalEntry) -> str:
    try:
        return json.dumps(json.loads(entry.call.arguments), indent=2, ensure_ascii=False)
    except ValueError:
        return entry.call.arguments


def read_reply(entry: JournalEntry) -> tuple[str | None, Problems]:
    """The text of a reply, None if it is not kept, and the problems that it names."""
    if entry.outcome is None or not entry.outcome.reply:
        return None, NO_PROBLEMS
    try:
        fields: Any = json.loads(entry.outcome.reply)
        return str(fields["text"]), load_problems(fields["data"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return entry.outcome.reply, NO_PROBLEMS


def view_file(
    workspace: RecordedWorkspace, entry: JournalEntry, change: RecordedChange, *, start: int = 0, limit: int
) -> ChangedFileView:
    effect = change.effect
    sign, word = describe_effect_kind(effect)
    diff, problem, is_picture = None, "", False
    if effect.kind == "file":
        try:
            diff = build_view(effect.path, workspace.compute_diff(entry, change), start=start, limit=limit)
        except LookupError:
            problem = "The content before or after this call is no longer kept, or is too large to show."
            if not workspace.can_act:
                problem = "The hub has not got the content before or after this call: it is secret or too large."
        except BinaryFile:
            is_picture = bool(find_picture_side(workspace, change))
            problem = "" if is_picture else f"Binary content, {format_size(effect.size)}."
    elif effect.kind == "folder":
        problem = f"A folder with {effect.entry_count - 1:,} entries, {format_size(effect.size)}."
    if is_picture:
        sign, word = "▣", "Image"
    return ChangedFileView(
        change, sign, word, tuple(iter_marks(effect)), diff, problem, format_size(effect.size), is_picture
    )


def find_picture_side(workspace: RecordedWorkspace, change: RecordedChange) -> Sequence[Side]:
    """Which sides of a change are images that can be decoded."""
    sides: tuple[Side, ...] = ("before", "after")
    read = workspace.history.read_side
    return tuple(side for side in sides if (data := read(change.change, side)) and find_image_medium(data))


def build_history(workspace: RecordedWorkspace, path: str) -> FileHistory:
    page = workspace.records.list_path_changes(path, limit=MAX_HISTORY)
    rows = tuple(build_row(entry, workspace) for entry in page.items if entry.succeeded)
    return FileHistory(workspace.shorten(path), rows, bool(page.next_cursor))


def read_output(workspace: RecordedWorkspace, entry: JournalEntry) -> tuple[Markup | None, int, bool]:
    """The recorded output of a command, with its colours: its last lines, how many there are, and whether it runs."""
    found = workspace.records.read_output(entry.seq)
    if found is None:
        return None, 0, False
    data, end = found
    while more := workspace.records.read_output(entry.seq, end):
        if not more[0]:
            break
        data, end = data + more[0], more[1]
    lines = data.decode("utf-8", "replace").removesuffix("\n").split("\n")
    return show_output("\n".join(lines[-MAX_OUTPUT_LINES:])), len(lines), entry.outcome is None


def convert_picture(workspace: RecordedWorkspace, change: RecordedChange, side: Side) -> tuple[str, bytes] | None:
    """An image of a workspace, decoded and encoded again in a process that can only compute."""
    data = workspace.history.read_side(change.change, side)
    medium = None if data is None or len(data) > MAX_PICTURE_BYTES else find_image_medium(data)
    return _convert(data, medium) if data and medium else None


def find_image_medium(data: bytes) -> Medium | None:
    """Only formats that are pixels: an SVG is text here, and shown as such."""
    return next((medium for magic, medium in MAGIC_NUMBERS if medium != "pdf" and magic.match(data)), None)


@lru_cache(maxsize=32)
def _convert(data: bytes, medium: Medium) -> tuple[str, bytes] | None:
    snapshot = FileSnapshot("image", data, digest(data), FileIdentity(0, 0, len(data), 0, 0))
    request = Convert(Read("image", PageLimits(0, 0, 0)), snapshot, medium)
    try:
        converted = ConfinedConverter().convert(request)
    except ToolError:
        log_swallowed()
        return None
    assert isinstance(converted, ConvertedImage)
    return converted.picture.mime, converted.picture.data
