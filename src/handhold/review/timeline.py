"""The calls of a session as rows of a page, in turns."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from markupsafe import Markup

from handhold.core.choices import FOREIGN
from handhold.core.entry_summary import find_target, is_preview, read_exit
from handhold.core.errors import Denied
from handhold.core.ports.approvals import PendingApproval
from handhold.core.ports.journal import JournalEntry
from handhold.core.ports.records import CallFilter, RecordPage, SessionSummary
from handhold.review.display import format_duration, plural, show, show_name, show_path
from handhold.review.questions import Chip
from handhold.review.recorded_workspace import LineCounts, RecordedWorkspace

PAGE_CALLS = 60
MAX_SESSIONS = 30
MAX_TARGET_CHARS = 90
REVERSALS = ("undo", "redo", "restore", "merge")


@dataclass(frozen=True)
class CallRow:
    entry: JournalEntry
    at: str
    day: str
    target: Markup
    note: str
    decision: Chip
    took: str
    lines: LineCounts
    state: Chip | None
    css: str  # "", "wait", "bad" or "undone"
    can_undo: bool
    is_waiting: bool

    @property
    def label(self) -> str:
        return f"#{self.entry.seq}"


@dataclass(frozen=True)
class TurnView:
    name: str
    title: str
    span: str
    rows: tuple[CallRow, ...]
    total: int  # calls of the turn
    added: int
    removed: int
    is_undone: bool
    can_undo: bool
    is_foreign: bool

    @property
    def left(self) -> int:
        return max(0, self.total - len(self.rows))


@dataclass(frozen=True)
class Timeline:
    session: SessionSummary | None
    wanted: CallFilter
    turns: tuple[TurnView, ...]
    page: RecordPage[JournalEntry]
    tools: tuple[str, ...]
    is_filtered: bool


def build_timeline(
    workspace: RecordedWorkspace, wanted: CallFilter, cursor: str, waiting: Sequence[PendingApproval]
) -> Timeline:
    records = workspace.records
    page = records.list_calls(wanted, cursor=cursor, limit=PAGE_CALLS, with_replies=True)
    workspace.count_ahead(page.items)
    asked = {each.seq: each for each in waiting if each.seq}
    turns: list[TurnView] = []
    for (turn, is_foreign), group in groupby(page.items, key=lambda entry: (entry.call.turn, is_adopted(entry))):
        rows = tuple(build_row(entry, workspace, asked.get(entry.seq)) for entry in group)
        turns.append(_build_turn(workspace, wanted.session, turn, rows, is_foreign=is_foreign))
    is_filtered = wanted != CallFilter(session=wanted.session)
    tools = tuple(records.list_tools(wanted.session)) if wanted.session else ()
    return Timeline(records.find_session(wanted.session), wanted, tuple(turns), page, tools, is_filtered)


def is_adopted(entry: JournalEntry) -> bool:
    return entry.call.session == FOREIGN or entry.call.tool == FOREIGN


def _build_turn(
    workspace: RecordedWorkspace, session: str, turn: str, rows: tuple[CallRow, ...], *, is_foreign: bool
) -> TurnView:
    (summary,) = workspace.records.list_turns(session, [turn]) or (None,)
    first, last = rows[-1].entry.at, rows[0].entry.at
    changed = [row for row in rows if row.entry.changed and row.entry.succeeded]
    counted = [row.lines for row in rows if row.lines]
    return TurnView(
        name=turn,
        title="Between turns" if is_foreign else f"Turn {turn}" if turn else "Calls",
        span=f"{datetime.fromtimestamp(first):%H:%M} – {datetime.fromtimestamp(last):%H:%M}",
        rows=rows,
        total=summary.calls if summary and turn else len(rows),
        added=sum(added for added, _ in counted),
        removed=sum(removed for _, removed in counted),
        is_undone=bool(changed) and all(row.entry.undone for row in changed),
        can_undo=bool(turn) and any(row.can_undo for row in rows),
        is_foreign=is_foreign,
    )


def build_row(entry: JournalEntry, workspace: RecordedWorkspace, question: PendingApproval | None = None) -> CallRow:
    state, css = describe_state(entry)
    if question:
        state, css = None, "wait"
    moment = datetime.fromtimestamp(entry.at)
    target, note = show_target(entry, workspace)
    return CallRow(
        entry=entry,
        at=f"{moment:%H:%M:%S}",
        day=f"{moment:%d %b}",
        target=target,
        note=note,
        decision=describe_decision(entry, question),
        took=_format_took(entry),
        lines=workspace.count_lines(entry),
        state=state,
        css=css,
        can_undo=workspace.can_act and can_undo(entry),
        is_waiting=question is not None,
    )


def can_undo(entry: JournalEntry) -> bool:
    is_change = entry.changed and entry.succeeded and not entry.undone and entry.kept
    return bool(is_change) and entry.call.tool not in ("undo", "redo")


def show_target(entry: JournalEntry, workspace: RecordedWorkspace) -> tuple[Markup, str]:
    """What a call is about, and how many more files it changed."""
    target, is_path = find_target(entry, workspace.roots)
    more = f"{entry.changed} files" if entry.changed > 1 and not is_path else ""
    if is_path and entry.paths:
        leaves = [path for path in entry.paths if not any(other.startswith(f"{path}/") for other in entry.paths)]
        left = len(leaves) - 1 + entry.changed - len(entry.paths)
        return show_path(workspace.shorten(leaves[0])), f"and {left:,} more" if left > 0 else ""
    if is_path:
        return show_path(target), more
    short = target if len(target) <= MAX_TARGET_CHARS else f"{target[:MAX_TARGET_CHARS]}…"
    return Markup('<bdi class="path"><b>{}</b></bdi>').format(show(short.replace("\n", " "), lines=False)), more


def describe_decision(entry: JournalEntry, question: PendingApproval | None = None) -> Chip:
    if question:
        return Chip("wait", f"waiting {format_duration(time.time() - question.at)}", "▲")
    match entry.decision:
        case "approved":
            return Chip("ok", "approved", "✓")
        case "refused":
            by_rule = entry.outcome is None or entry.outcome.code == Denied.code
            return Chip("bad", "refused by rule" if by_rule else "refused", "✕")
        case "allowed":
            return Chip("", "outside Handhold" if is_adopted(entry) else "allowed")
        case _:
            return Chip("", "–" if entry.outcome else "running")


def describe_state(entry: JournalEntry) -> tuple[Chip | None, str]:
    """How a call ended, if there is something to say; and the class of its row."""
    outcome = entry.outcome
    if entry.undone:
        return Chip("undone", "undone", "↶"), "undone"
    if outcome is None:
        return Chip("", "running or unfinished"), ""
    if entry.decision == "refused":
        return Chip("", "no change"), "bad"
    if not entry.succeeded:
        return Chip("bad", (outcome.code or outcome.status).lower().replace("_", " "), "✕"), "bad"
    if ended := read_exit(entry):
        return Chip("bad", ended, "✕"), "bad"
    if is_preview(entry):
        return Chip("", "preview only"), ""
    if entry.changed and not entry.kept:
        return Chip("", "no undo, dropped"), ""
    return None, ""


def _format_took(entry: JournalEntry) -> str:
    return format_duration(entry.outcome.time_ms / 1000) if entry.outcome and entry.outcome.time_ms else "–"


def describe_session(session: SessionSummary) -> str:
    today = datetime.now().date()
    moment = datetime.fromtimestamp(session.first_at)
    since = f"{moment:%H:%M}" if moment.date() == today else f"{moment:%d %b}"
    return f"{plural(session.calls, 'call')} · {plural(session.turns, 'turn')} · since {since}"


def name_session(name: str) -> Markup:
    return show_name(name or "unnamed")
