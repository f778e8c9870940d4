"""Selects calls in the journal, and adds up their changes."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, Self

from handhold.core.errors import NothingToUndo
from handhold.core.plans import DirectoryMetadata, FileChange, StagedContent, hash_or_none
from handhold.core.ports.journal import Journal, JournalEntry


@dataclass(frozen=True)
class Target:
    """The calls that an undo, a redo or a diff is about. Make one with `call`, `calls`, `turn` or `session`."""

    scope: Literal["last", "call", "calls", "turn", "session"]
    call_id: str | int = ""
    turn_name: str = ""
    numbers: tuple[int, ...] = ()

    @classmethod
    def call(cls, which: str | int, *, turn: str = "") -> Self:
        """One call, by its id, or by its number in the journal: `7` or `"#7"`.

        Ids are unique within a turn. If several turns used the id, `turn` selects one; the default is the last.
        """
        if which == "":
            raise ValueError("Target.call needs the id of a call, or its number in the journal")
        return cls("call", which, turn)

    @classmethod
    def calls(cls, *numbers: int) -> Self:
        """Several calls, by their numbers in the journal."""
        if not numbers:
            raise ValueError("Target.calls needs the numbers of calls in the journal")
        return cls("calls", numbers=numbers)

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
        """Whether it selects several calls: numbers, a turn or the session."""
        return self.scope in ("calls", "turn", "session")

    def __str__(self) -> str:
        if self.call_id != "":
            return f"call {self.call_id}"
        if self.numbers:
            return f"calls {', '.join(f'#{number}' for number in self.numbers)}"
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


def find_changes(
    journal: Journal, session: str, target: Target, *, undone: bool | None, with_foreign: bool = False
) -> list[JournalEntry]:
    """The changes of a target in the order of time; with `undone`, only those that are undone, or only those that are
    not. `with_foreign` adds what others changed since, outside every call."""
    found = journal.find_changes(
        session,
        undone=undone,
        call=target.numbers or target.call_id,
        turn=target.turn_name,
        last=None if target.is_multiple else 1,
        with_foreign=with_foreign,
    )
    if not found:
        state = "undone" if undone else "left"
        reason = f"{target} changed nothing" if undone is None else f"no change of {target} is {state}"
        raise NothingToUndo(reason, "redo" if undone else "undo")
    return list(found)


def find_undos(journal: Journal, session: str, target: Target) -> list[JournalEntry]:
    """The undos of a target that were not redone, oldest first."""
    selected = None
    if target.scope in ("call", "calls", "turn"):
        selected = {entry.seq for entry in find_changes(journal, session, target, undone=True)}
    found = list(journal.find_undos(session, of=selected, last=None if target.is_multiple else 1))
    if not found:
        raise NothingToUndo(f"no change of {target} is undone", "redo")
    if not target.is_multiple and (batch := get_batch(found[0])):
        steps = journal.find_undos(session, of=selected, since=batch)
        found = [entry for entry in steps if get_batch(entry) == batch]
    if selected is not None and any(not selected.issuperset(entry.takes_back) for entry in found):
        raise NothingToUndo(f"{target} was undone together with other calls and can be redone only with them", "redo")
    return found


def get_batch(entry: JournalEntry) -> int:
    """The number of the call before the undo or redo that this one is a step of; 0 if it is the only step."""
    try:
        return json.loads(entry.call.arguments).get("batch", 0)
    except (ValueError, AttributeError):  # a tampered journal; `verify` reports it
        return 0


def combine_changes(calls: Sequence[Sequence[FileChange]]) -> list[FileChange]:
    """The sum of these changes, oldest first. A file that something else changed in between has several changes."""
    total: dict[str, list[FileChange]] = {}
    for change in (change for files in calls for change in files):
        known = total.pop(change.path, [])
        if known and hash_or_none(known[-1].after) == hash_or_none(change.before):
            last = known.pop()
            mode = change.mode if change.mode is not None else last.mode
            change = FileChange(change.path, last.before, change.after, mode)
        total[change.path] = [*known, change]
    return [change for changes in total.values() for change in changes if not change.is_noop]


@dataclass(frozen=True)
class UndoStep:
    """Calls that are undone together, as one change; `entries` are oldest first."""

    entries: tuple[JournalEntry, ...]
    files: tuple[FileChange, ...]
    merged: tuple[FileChange, ...] = ()  # written as content, because others changed the paths since

    @property
    def changes(self) -> tuple[FileChange, ...]:
        return (*self.files, *self.merged)


def build_undo_steps(journal: Journal, chosen: Sequence[JournalEntry]) -> list[UndoStep]:
    """The changes of these calls, oldest first. Each command is a step of its own: it moves files one at a time."""
    out: list[UndoStep] = []
    done = [UndoStep(entries, tuple(files)) for entries, files in _resolve_redone(journal, chosen)]
    for by_command, group in groupby(done, key=lambda step: has_staged_content(step.files)):
        if by_command:
            out += group
        else:
            together = list(group)
            entries = tuple(entry for step in together for entry in step.entries)
            out.append(UndoStep(entries, tuple(combine_changes([step.files for step in together]))))
    return out


def _resolve_redone(
    journal: Journal, chosen: Sequence[JournalEntry]
) -> Iterator[tuple[tuple[JournalEntry, ...], Sequence[FileChange]]]:
    """Calls, and what of their changes is in effect. They count as they were made, unless an undo or redo of them was
    about other calls, too."""
    for redo, group in groupby(chosen, key=lambda entry: entry.redone_by):
        entries = tuple(group)
        calls = {entry.seq for entry in entries}
        reversals = journal.find_reversals(calls) if redo else ()
        undone = {call for each in reversals if each.call.tool == "undo" for call in each.takes_back}
        undos = {each.seq for each in reversals if each.call.tool == "undo"}
        redone = {undo for each in reversals if each.call.tool == "redo" for undo in each.takes_back}
        if redo and undone <= calls and redone <= undos:
            yield entries, _replay(journal, entries, reversals)
        else:
            yield from (((entry,), journal.changes_of(entry.seq)) for entry in entries)


def _replay(journal: Journal, calls: Sequence[JournalEntry], reversals: Sequence[JournalEntry]) -> Sequence[FileChange]:
    """What is in effect of these calls after their undos and redos, which may have merged later changes, created
    folders that the calls did not, or left a path as it was."""
    own = combine_changes([journal.changes_of(entry.seq) for entry in calls])
    in_effect: dict[str, list[FileChange]] = {}
    for change in own:
        if not change.is_directory:
            in_effect.setdefault(change.path, []).append(change)
    for each in reversals:
        files = journal.changes_of(each.seq)
        for change in files:
            in_effect.pop(change.path, None)
        if each.call.tool == "redo":
            in_effect.update((change.path, [change]) for change in files)
    return [change for changes in in_effect.values() for change in changes]


def has_staged_content(files: Sequence[FileChange]) -> bool:
    return any(
        isinstance(content, StagedContent | DirectoryMetadata)
        for change in files
        for content in (change.before, change.after)
    )
