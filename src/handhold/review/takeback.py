"""Taking back and redoing: shown first, with the later change that is in the way; carried out only as shown."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Literal

from handhold.core.choices import Resolution
from handhold.core.errors import ToolError, UndoConflict
from handhold.core.history import Target
from handhold.core.ports.approvals import Question
from handhold.core.ports.journal import JournalEntry
from handhold.core.results import Reply
from handhold.dialects.error_messages import format_plain_error
from handhold.logs import log_swallowed
from handhold.pipeline.reversal_notes import list_conflict_lines
from handhold.review.call_view import ChangedFileView, view_file
from handhold.review.diff_view import DiffView, build_view, parse_unified, split_by_file
from handhold.review.timeline import CallRow, build_row
from handhold.review.workspace import ReviewedWorkspace

Scope = Literal["call", "turn", "session"]
SCOPES: tuple[Scope, ...] = ("call", "turn", "session")
MAX_FILES = 100
MAX_LINES = 60
MAX_EARLIER = 10
MAX_CONFLICTS = 20


class PageApprover:
    """Approves what the person at the page has confirmed after it was shown."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, _: Question) -> bool:
        return True


@dataclass(frozen=True)
class ConflictView:
    """A file that cannot be taken back, and why."""

    path: str
    later: tuple[CallRow, ...]  # the calls that changed it since; none: something outside Handhold did
    file: ChangedFileView | None
    versions: tuple[tuple[str, str, DiffView | None], ...]  # heading, note, content around the change
    reason: str = ""
    lines: tuple[str, ...] = ()  # both sides of a text, between git's markers


@dataclass(frozen=True)
class RedoView:
    row: CallRow
    problem: str


@dataclass(frozen=True)
class TakeBackView:
    entry: JournalEntry
    scope: Scope
    row: CallRow
    restored: tuple[ChangedFileView, ...]  # of a call: files that can be taken back
    conflicts: tuple[ConflictView, ...]
    summary: str  # what a turn or a session would take back
    sections: tuple[tuple[str, DiffView], ...]  # its diff, by file
    omissions: tuple[str, ...]  # what the diff says that it leaves out
    problem: str  # why it is not possible at all
    digest: str
    earlier: tuple[RedoView, ...]
    can_choose: bool  # single files of the call
    left_out: int  # files of the call that are not in the list, and restored with the others
    take: Resolution | None  # what was chosen for conflicts
    can_decide: bool  # whether conflicts can be decided here

    @property
    def restored_count(self) -> int:
        return len(self.restored) + self.left_out

    @property
    def can_commit(self) -> bool:
        by_file = self.scope == "call" and self.take is None
        return not self.problem and (bool(self.restored) if by_file else not self.conflicts)


def build_take_back(
    workspace: ReviewedWorkspace, entry: JournalEntry, scope: Scope, take: Resolution | None
) -> TakeBackView:
    with workspace.open_session(entry.call.session) as box:
        reply = box.undo(make_target(entry, scope), preview=True, take=take)
    restored: list[ChangedFileView] = []
    conflicts: list[ConflictView] = []
    problem = ""
    changes = workspace.history.list_changes(entry, limit=MAX_FILES) if scope == "call" and not take else []
    left_out = workspace.history.count_changes(entry) - len(changes) if len(changes) >= MAX_FILES else 0
    blocked = _list_conflicts(reply)
    reasons = reply.data.get("reasons", ()) if blocked else ()
    texts = dict(zip(blocked, reply.data.get("texts", ()), strict=False))
    why = dict(zip(blocked, reasons, strict=False))
    for change in changes:
        file = view_file(workspace, entry, change, limit=MAX_LINES)
        if change.change.path in blocked:
            conflicts.append(_explain(workspace, entry, change.change.path, file))
        else:
            restored.append(file)
    listed = {change.change.path for change in changes}
    listed_blocked = [change.change.path for change in changes if change.change.path in blocked]
    others = [path for path in blocked if path not in listed]
    conflicts += [_explain(workspace, entry, path, None) for path in others[:MAX_CONFLICTS]]
    conflicts = [
        replace(each, reason=why.get(path, ""), lines=tuple(list_conflict_lines(texts.get(path, ""))[:MAX_LINES]))
        for path, each in zip((*listed_blocked, *others), conflicts, strict=False)
    ]
    if not reply.ok and not blocked:
        problem = reply.text
    can_choose = scope == "call" and not left_out and all(file.change.can_restore for file in restored)
    if conflicts and not can_choose and not problem:
        restored, left_out = [], 0
    parts, omissions = split_by_file(reply.ui_extra if reply.ok else "")
    return TakeBackView(
        entry=entry,
        scope=scope,
        row=build_row(entry, workspace),
        restored=tuple(restored),
        conflicts=tuple(conflicts),
        summary=reply.text if reply.ok else "",
        sections=tuple((name, _view_section(name, text)) for name, text in parts),
        omissions=tuple(omissions),
        problem=problem,
        digest=compute_digest(reply, restored, take),
        earlier=tuple(_list_undone(workspace, entry.call.session)),
        can_choose=can_choose,
        left_out=left_out,
        take=take,
        can_decide=bool(reasons),
    )


def make_target(entry: JournalEntry, scope: Scope) -> Target:
    match scope:
        case "call":
            return Target.call(entry.seq)
        case "turn":
            return Target.turn(entry.call.turn)
        case "session":
            return Target.session()


def compute_digest(reply: Reply, restored: Sequence[ChangedFileView], take: Resolution | None) -> str:
    shown = [take or "", reply.code, reply.text, reply.ui_extra, [[file.path, file.change.number] for file in restored]]
    return sha256(json.dumps(shown).encode()).hexdigest()


def take_back(workspace: ReviewedWorkspace, view: TakeBackView, chosen: Sequence[int], by: str) -> str:
    """Take back what was shown; returns what was done. ToolError if it is not possible any more."""
    everything = not view.conflicts and {file.change.number for file in view.restored} <= set(chosen)
    with workspace.open_session(view.entry.call.session, PageApprover(by)) as box:
        if view.scope != "call" or view.take or everything:
            reply = box.undo(make_target(view.entry, view.scope), take=view.take)
            if not reply.ok:
                raise ReversalRefused(reply.text)
            return reply.text
        box.history.restore(view.entry, [each.change.number for each in view.restored if each.change.number in chosen])
    return f"Restored {len(chosen)} of the files of #{view.entry.seq}."


def redo(workspace: ReviewedWorkspace, entry: JournalEntry, by: str) -> str:
    """Redo what an undo took back, or one call that was undone."""
    with workspace.open_session(entry.call.session, PageApprover(by)) as box:
        reply = box.redo(Target.call(entry.seq))
        if not reply.ok:
            raise ReversalRefused(reply.text)
        return reply.text


class ReversalRefused(Exception):
    """An undo or redo that was not carried out, with the reason for a person."""


def _list_conflicts(reply: Reply) -> list[str]:
    return list(reply.data.get("paths", ())) if reply.code == UndoConflict.code else []


def _explain(
    workspace: ReviewedWorkspace, entry: JournalEntry, path: str, file: ChangedFileView | None
) -> ConflictView:
    page = workspace.records.list_path_changes(path, limit=20)
    later = [
        each
        for each in page.items
        if each.seq > entry.seq and each.succeeded and not each.undone and each.call.tool not in ("undo", "redo")
    ]
    rows = tuple(build_row(each, workspace) for each in later[:3])
    versions = _show_versions(workspace, entry, path, file, rows) if file else ()
    return ConflictView(workspace.shorten(path), rows, file, versions)


def _show_versions(
    workspace: ReviewedWorkspace, entry: JournalEntry, path: str, file: ChangedFileView, later: Sequence[CallRow]
) -> tuple[tuple[str, str, DiffView | None], ...]:
    """The file before the call, after it, and now."""
    from handhold.core.text.diff import compute_hunks

    history, change = workspace.history, file.change.change
    sides = history.read_side(change, "before"), history.read_side(change, "after"), history.read_now(path)
    try:
        before, after, now = ("" if data is None else history.decode(data, path) for data in sides)
    except ToolError:
        log_swallowed()
        return ()
    since = list(compute_hunks(after, now))
    first = min((hunk.old_start for hunk in since), default=0)
    around = slice(max(0, first - 1), first + 9)

    def view(text: str) -> DiffView:
        lines = text.split("\n")[around]
        body = "".join(f" {line}\n" for line in lines)
        start = around.start + 1
        hunks, _ = parse_unified(f"@@ -{start},{len(lines)} +{start},{len(lines)} @@\n{body}")
        return build_view(path, hunks, limit=12)

    by = f"written by {later[0].label}" if later else "changed outside Handhold"
    return (
        (f"Before #{entry.seq}", "you would get this", view(before) if sides[0] is not None else None),
        (f"After #{entry.seq}", "what this call wrote", view(after) if sides[1] is not None else None),
        ("Now", by, view(now) if sides[2] is not None else None),
    )


def _view_section(name: str, text: str) -> DiffView:
    hunks, notes = parse_unified(text)
    return build_view(name, hunks, limit=MAX_LINES, notes=notes)


def _list_undone(workspace: ReviewedWorkspace, session: str) -> list[RedoView]:
    """The calls of a session that are undone and could be redone."""
    try:
        undone = workspace.store.find_changes(session, undone=True, last=MAX_EARLIER)
    except ToolError:
        log_swallowed()
        return []
    found: list[RedoView] = []
    with workspace.open_session(session) as box:
        for entry in reversed(undone):
            reply = box.redo(Target.call(entry.seq), preview=True)
            found.append(RedoView(build_row(entry, workspace), "" if reply.ok else reply.text))
    return found


def describe_error(error: ToolError | ReversalRefused) -> str:
    return format_plain_error(error) if isinstance(error, ToolError) else str(error)
