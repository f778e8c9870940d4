"""Looking back: which calls are meant, and what remains of them as one change."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from handhold.core.errors import NothingToUndo, UndoConflict
from handhold.core.plans import DirectoryMetadata, FileChange, StagedContent, hash_or_none
from handhold.core.ports.journal import Journal, JournalEntry

INITIAL_LOOKBACK_ENTRIES = 50  # entries; most of what is taken back was done just now


@dataclass(frozen=True)
class CallSelector:
    """One call (by id or number, of one turn if it is given), one turn, the session; if nothing is said, the last."""

    call: str | int = ""
    turn: str = ""
    session: bool = False

    @property
    def is_multiple(self) -> bool:
        return self.call == "" and (bool(self.turn) or self.session)

    def matches(self, entry: JournalEntry) -> bool:
        is_call = self.call in ("", entry.call.call_id, entry.seq, f"#{entry.seq}")
        return is_call and self.turn in ("", entry.call.turn)

    def __str__(self) -> str:
        return str(self.call) or self.turn or ("this session" if self.session else "the last change")


def format_call_id(entry: JournalEntry) -> str:
    return entry.call.call_id or f"#{entry.seq}"


def find_changes(journal: Journal, session: str, selector: CallSelector, *, undone: bool | None) -> list[JournalEntry]:
    """The changes meant, oldest first; with `undone` only those that stand taken back, or do not."""

    def is_selected(entry: JournalEntry) -> bool:
        if not entry.changed or not entry.succeeded or entry.call.tool in ("undo", "redo"):
            return False
        return (undone is None or entry.undone is undone) and selector.matches(entry)

    return _find_latest(journal, session, is_selected, selector)


def find_undos(journal: Journal, session: str, selector: CallSelector) -> list[JournalEntry]:
    """The undos that took back what is meant and still stand, oldest first."""
    selected = None
    if selector.call != "" or selector.turn:
        selected = {entry.seq for entry in find_changes(journal, session, selector, undone=True)}

    def is_selected(entry: JournalEntry) -> bool:
        stands = entry.call.tool == "undo" and entry.succeeded and not entry.undone
        return stands and (selected is None or not selected.isdisjoint(entry.takes_back))

    found = _find_latest(journal, session, is_selected, selector)
    if not selector.is_multiple:
        found = _find_batch(journal, session, is_selected, found[0])
    if selected is not None and any(not selected.issuperset(entry.takes_back) for entry in found):
        raise NothingToUndo(f"{selector} by itself: it was taken back together with other calls")
    return found


def _find_batch(
    journal: Journal, session: str, is_selected: Callable[[JournalEntry], bool], undo: JournalEntry
) -> list[JournalEntry]:
    """An undo of several calls may have taken several steps: all of them are one undo."""
    batch = get_batch(undo)
    if not batch:
        return [undo]
    return [entry for entry in journal.entries(session=session) if is_selected(entry) and get_batch(entry) == batch]


def get_batch(entry: JournalEntry) -> int:
    """The number of the first step of the undo or redo that this one is a step of; 0 if it was the only one."""
    try:
        return json.loads(entry.call.arguments).get("batch", 0)
    except (ValueError, AttributeError):  # a tampered journal: it is found out elsewhere
        return 0


def _find_latest(
    journal: Journal, session: str, is_selected: Callable[[JournalEntry], bool], selector: CallSelector
) -> list[JournalEntry]:
    """The last entry that is meant, or all of them. Looks back further and further."""
    last = None if selector.is_multiple else INITIAL_LOOKBACK_ENTRIES
    while True:
        entries = journal.entries(session=session, last=last)
        if last and any(is_redo(entry) for entry in entries):  # what it did again may lie further back
            entries, last = journal.entries(session=session), None
        redone = map_redone_calls(entries)
        found = sorted(
            (entry for entry in entries if is_selected(entry)), key=lambda entry: redone.get(entry.seq, entry.seq)
        )
        if found:
            return found if selector.is_multiple else found[-1:]
        if last is None or len(entries) < last:
            raise NothingToUndo(str(selector))
        last *= 20


def is_redo(entry: JournalEntry) -> bool:
    return entry.call.tool == "redo" and entry.succeeded


def map_redone_calls(entries: Sequence[JournalEntry]) -> dict[int, int]:
    """The calls that were done again, and the redo that did so last: they came after all that stood then."""
    undone = {entry.seq: entry.takes_back for entry in entries if entry.call.tool == "undo"}
    redos = (entry for entry in entries if is_redo(entry))
    return {call: redo.seq for redo in redos for undo in redo.takes_back for call in undone.get(undo, ())}


def _read_entries_since(journal: Journal, session: str, seq: int) -> Sequence[JournalEntry]:
    """The entries from a number on, and some before."""
    last = INITIAL_LOOKBACK_ENTRIES
    while True:
        entries = journal.entries(session=session, last=last)
        if len(entries) < last or entries[0].seq <= seq:
            return entries
        last *= 20


def combine_changes(calls: Sequence[Sequence[FileChange]]) -> list[FileChange]:
    """The sum of these changes, oldest first. UndoConflict where somebody else's change lies in between."""
    total: dict[str, FileChange] = {}
    for change in (change for files in calls for change in files):
        known = total.pop(change.path, None)
        if known and hash_or_none(known.after) != hash_or_none(change.before):
            raise UndoConflict((change.path,))
        mode = change.mode if change.mode is not None or known is None else known.mode
        total[change.path] = FileChange(change.path, known.before if known else change.before, change.after, mode)
    return [change for change in total.values() if not change.is_noop]


@dataclass(frozen=True)
class UndoStep:
    """Calls that are taken back together, as one change; what their journals say, oldest first."""

    entries: tuple[JournalEntry, ...]
    files: tuple[FileChange, ...]


def build_undo_steps(journal: Journal, session: str, chosen: Sequence[JournalEntry]) -> list[UndoStep]:
    """The sum of these calls, oldest first. A command stands by itself: its things change places, one at a time."""
    out: list[UndoStep] = []
    done = [UndoStep(entries, journal.changes_of(seq)) for entries, seq in _resolve_redone(journal, session, chosen)]
    for by_command, group in groupby(done, key=lambda step: has_staged_content(step.files)):
        if by_command:
            out += group
        else:
            together = list(group)
            entries = tuple(entry for step in together for entry in step.entries)
            out.append(UndoStep(entries, tuple(combine_changes([step.files for step in together]))))
    return out


def _resolve_redone(
    journal: Journal, session: str, chosen: Sequence[JournalEntry]
) -> Iterator[tuple[tuple[JournalEntry, ...], int]]:
    """Calls, and the entry that says what they did. A call that was done again made, that time, other folders too."""
    redone = map_redone_calls(_read_entries_since(journal, session, min(entry.seq for entry in chosen)))
    for redo, group in groupby(chosen, key=lambda entry: redone.get(entry.seq, 0)):
        entries = tuple(group)
        if redo and {entry.seq for entry in entries} == {call for call, by in redone.items() if by == redo}:
            yield entries, redo
        else:
            yield from (((entry,), entry.seq) for entry in entries)


def has_staged_content(files: Sequence[FileChange]) -> bool:
    return any(
        isinstance(content, StagedContent | DirectoryMetadata)
        for change in files
        for content in (change.before, change.after)
    )
