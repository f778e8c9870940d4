"""Selects calls in the journal, and adds up their changes."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, Self

from handhold.core.errors import NothingToUndo, UndoConflict
from handhold.core.plans import DirectoryMetadata, FileChange, StagedContent, hash_or_none
from handhold.core.ports.journal import Journal, JournalEntry

INITIAL_LOOKBACK_ENTRIES = 50  # most calls that are undone are recent


@dataclass(frozen=True)
class Target:
    """The calls that an undo, a redo or a diff is about. Make one with `call`, `turn` or `session`."""

    scope: Literal["last", "call", "turn", "session"]
    call_id: str | int = ""
    turn_name: str = ""

    @classmethod
    def call(cls, which: str | int, *, turn: str = "") -> Self:
        """One call, by its id, or by its number in the journal: `7` or `"#7"`.

        Ids are unique within a turn. If several turns used the id, `turn` selects one; the default is the last.
        """
        if which == "":
            raise ValueError("Target.call needs the id of a call, or its number in the journal")
        return cls("call", which, turn)

    @classmethod
    def turn(cls, name: str) -> Self:
        """All calls of one turn."""
        if not name:
            raise ValueError("Target.turn needs the name that the calls were made with, as in call(..., turn=name)")
        return cls("turn", turn_name=name)

    @classmethod
    def session(cls) -> Self:
        """All calls of the session."""
        return cls("session")

    @property
    def is_multiple(self) -> bool:
        """Whether it selects several calls: a turn or the session."""
        return self.scope in ("turn", "session")

    def matches(self, entry: JournalEntry) -> bool:
        """Whether it selects the call of this journal entry."""
        is_call = self.call_id in ("", entry.call.call_id, entry.seq, f"#{entry.seq}")
        return is_call and self.turn_name in ("", entry.call.turn)

    def __str__(self) -> str:
        if self.call_id != "":
            return f"call {self.call_id}"
        return f"turn {self.turn_name}" if self.turn_name else "this session"


LAST_CHANGE = Target("last")


def resolve_target(target: "Target | JournalEntry | None") -> Target:
    """The target itself, the call that a journal entry records, or the last change. TypeError for anything else."""
    match target:
        case None:
            return LAST_CHANGE
        case Target():
            return target
        case JournalEntry():
            return Target.call(target.seq)
        case _:
            raise TypeError(
                f"expected a Target, such as Target.call({target!r}), a JournalEntry or None, not {target!r}"
            )


def format_call_id(entry: JournalEntry) -> str:
    return entry.call.call_id or f"#{entry.seq}"


def find_changes(journal: Journal, session: str, target: Target, *, undone: bool | None) -> list[JournalEntry]:
    """The changes of a target, oldest first; with `undone`, only those that are undone, or only those that are not."""

    def is_selected(entry: JournalEntry) -> bool:
        if not entry.changed or not entry.succeeded or entry.call.tool in ("undo", "redo"):
            return False
        return (undone is None or entry.undone is undone) and target.matches(entry)

    reason = (
        f"{target} changed nothing" if undone is None else f"no change of {target} is {'undone' if undone else 'left'}"
    )
    return _find_latest(journal, session, is_selected, target, reason, "redo" if undone else "undo")


def find_undos(journal: Journal, session: str, target: Target) -> list[JournalEntry]:
    """The undos of a target that were not redone, oldest first."""
    selected = None
    if target.scope in ("call", "turn"):
        selected = {entry.seq for entry in find_changes(journal, session, target, undone=True)}

    def is_selected(entry: JournalEntry) -> bool:
        is_in_effect = entry.call.tool == "undo" and entry.succeeded and not entry.undone
        return is_in_effect and (selected is None or not selected.isdisjoint(entry.takes_back))

    found = _find_latest(journal, session, is_selected, target, f"no change of {target} is undone", "redo")
    if not target.is_multiple:
        found = _find_batch(journal, session, is_selected, found[0])
    if selected is not None and any(not selected.issuperset(entry.takes_back) for entry in found):
        raise NothingToUndo(f"{target} was undone together with other calls and can be redone only with them", "redo")
    return found


def _find_batch(
    journal: Journal, session: str, is_selected: Callable[[JournalEntry], bool], undo: JournalEntry
) -> list[JournalEntry]:
    """All steps of the undo that this entry is a step of."""
    batch = get_batch(undo)
    if not batch:
        return [undo]
    return [entry for entry in journal.entries(session=session) if is_selected(entry) and get_batch(entry) == batch]


def get_batch(entry: JournalEntry) -> int:
    """The number of the first step of the undo or redo that this one is a step of; 0 if it was the only one."""
    try:
        return json.loads(entry.call.arguments).get("batch", 0)
    except (ValueError, AttributeError):  # a tampered journal; `verify` reports it
        return 0


def _find_latest(
    journal: Journal,
    session: str,
    is_selected: Callable[[JournalEntry], bool],
    target: Target,
    reason: str,
    verb: Literal["undo", "redo"],
) -> list[JournalEntry]:
    """The last selected entry, or all of them. Reads further back until one is found.

    NothingToUndo with `reason` if there is none.
    """
    last = None if target.is_multiple else INITIAL_LOOKBACK_ENTRIES
    while True:
        entries = journal.entries(session=session, last=last)
        if last and any(is_redo(entry) for entry in entries):  # the call that it redid may be further back
            entries, last = journal.entries(session=session), None
        redone = map_redone_calls(entries)
        found = sorted(
            (entry for entry in entries if is_selected(entry)), key=lambda entry: redone.get(entry.seq, entry.seq)
        )
        if found:
            return found if target.is_multiple else found[-1:]
        if last is None or len(entries) < last:
            raise NothingToUndo(reason, verb)
        last *= 20


def is_redo(entry: JournalEntry) -> bool:
    return entry.call.tool == "redo" and entry.succeeded


def map_redone_calls(entries: Sequence[JournalEntry]) -> dict[int, int]:
    """The calls that were redone, with the number of the last redo: in order of time, they come where it is."""
    undone = {entry.seq: entry.takes_back for entry in entries if entry.call.tool == "undo"}
    redos = (entry for entry in entries if is_redo(entry))
    return {call: redo.seq for redo in redos for undo in redo.takes_back for call in undone.get(undo, ())}


def _read_entries_since(journal: Journal, session: str, seq: int) -> Sequence[JournalEntry]:
    """The entries from this number on, and possibly some before it."""
    last = INITIAL_LOOKBACK_ENTRIES
    while True:
        entries = journal.entries(session=session, last=last)
        if len(entries) < last or entries[0].seq <= seq:
            return entries
        last *= 20


def combine_changes(calls: Sequence[Sequence[FileChange]]) -> list[FileChange]:
    """The sum of these changes, oldest first. UndoConflict if a file was changed by something else in between."""
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
    """Calls that are undone together, as one change; `entries` are oldest first."""

    entries: tuple[JournalEntry, ...]
    files: tuple[FileChange, ...]


def build_undo_steps(journal: Journal, session: str, chosen: Sequence[JournalEntry]) -> list[UndoStep]:
    """The changes of these calls, oldest first. Each command is a step of its own: it moves files one at a time."""
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
    """Calls, and the entry that has their changes: a redo may have created folders that the call itself did not."""
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
