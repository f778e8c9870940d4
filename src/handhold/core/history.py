"""Looking back: which calls are meant, what remains of them as one change, and how that reads."""

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

from handhold.core.errors import BinaryFile, NothingToUndo, UndoConflict
from handhold.core.facts import DeclaredEncoding
from handhold.core.plans import (
    Content,
    ContentRef,
    Directory,
    DirectoryMetadata,
    FileChange,
    InlineContent,
    StagedContent,
    hash_or_none,
)
from handhold.core.ports.journal import Journal, JournalEntry
from handhold.core.text.diff import unified_diff
from handhold.core.text.encoding import Text
from handhold.core.text.path_escaping import escape_ambiguous, format_path

MAX_DIFF_CHARS = 200_000  # of a diff over many files
MAX_APPROVAL_DIFF_CHARS = 4 * 1024 * 1024  # characters of a diff that may not be cut; a longer one is not shown at all
MAX_DIFF_FILES = 500
INITIAL_LOOKBACK_ENTRIES = 50  # entries; most of what is taken back was done just now

MAX_TREE_ENTRIES = 200  # entries of a folder that came or went whole
MAX_DIFFED_FILE_BYTES = 4 * 1024 * 1024  # bytes of a file of a command's; a larger one is not shown
NOTABLE_FILE_MODE_BITS = (
    0o7113  # permission bits of a new file that are shown: special, executable, writable by everybody
)
NOTABLE_FOLDER_MODE_BITS = 0o7002


class ContentSource(Protocol):
    """Where contents are looked up."""

    def read_content(self, content: Content, path: str) -> bytes | None:
        """What it holds; None if that is no longer kept."""
        ...

    def list_staged_tree(self, content: StagedContent, path: str, limit: int) -> Sequence[tuple[str, StagedContent]]:
        """What lies in a tree, by the way there."""
        ...

    def declared_encoding(self, path: str) -> DeclaredEncoding | None:
        """What is said about the encoding of a file there."""
        ...


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


def shorten_path(path: str, roots: Sequence[str]) -> str:
    """A path as a person would write it: below the first root, or in full."""
    return format_path(path.removeprefix(roots[0].rstrip("/") + "/"))


def format_diff(files: Sequence[FileChange], source: ContentSource, roots: Sequence[str]) -> str:
    """A unified diff over many files, bounded; what was left out is said."""
    out: list[str] = []
    room = MAX_DIFF_CHARS
    shown = [change for change in files if not change.is_directory]
    for n, change in enumerate(shown):
        for piece in _format_change(change, source, roots):
            room -= len(piece)
            if (room < 0 and out) or n >= MAX_DIFF_FILES:
                return "".join([*out, f"[{len(shown) - n} more files are not shown]\n"])
            over = len(piece) - MAX_DIFF_CHARS
            more = (
                f"\n[{over:,} more characters of {shorten_path(change.path, roots)} are not shown]\n"
                if over > 0
                else ""
            )
            out.append(piece[:MAX_DIFF_CHARS] + more)
    return "".join(out)


def format_approval_diff(
    files: Sequence[FileChange], places: Collection[str], source: ContentSource, roots: Sequence[str]
) -> tuple[str, int] | None:
    """A diff whose first lines show all that happens at these places, and how many lines that is; the rest is bounded.

    A place may lie in a folder that comes or goes whole. None: these places alone are too long to be shown.
    """
    whole: list[str] = []
    others: list[FileChange] = []
    above = {folder for place in places for folder in _walk_up(place)}
    room = MAX_APPROVAL_DIFF_CHARS
    for change in files:
        if _is_at_or_below(change.path, places):
            pieces = _format_change(change, source, roots, complete=True)
        else:
            others.append(change)
            inside = _expand_trees(change, source, None) if change.path in above else ()
            pieces = (
                _format_tree_entry(one, source, roots, name_folders=True)
                for one in inside
                if _is_at_or_below(one.path, places)
            )
        for piece in pieces:
            whole.append(piece)
            room -= len(piece)
            if room < 0:
                return None
    first = "".join(whole)
    return first + format_diff(others, source, roots), first.count("\n")


def _is_at_or_below(path: str, places: Collection[str]) -> bool:
    """Whether it is one of these places, or lies in one."""
    return any(each in places for each in _walk_up(path))


def _walk_up(path: str) -> Iterator[str]:
    """A path, and the folders that it lies in."""
    while path:
        yield path
        path = path.rpartition("/")[0]


def _format_change(
    change: FileChange, source: ContentSource, roots: Sequence[str], *, complete: bool = False
) -> Iterator[str]:
    """A change, and what is in a folder that came or went whole, as if each file had by itself."""
    yield _format_entry_diff(change, source, roots)
    entries = _expand_trees(change, source, None if complete else MAX_TREE_ENTRIES)
    yield from (_format_tree_entry(one, source, roots, name_folders=complete) for one in entries)
    if (more := sum(tree.entry_count - 1 for tree in _get_trees(change)) - len(entries)) > 0:
        yield f"[{more:,} more entries of {shorten_path(change.path, roots)} are not shown]\n"


def _format_entry_diff(change: FileChange, source: ContentSource, roots: Sequence[str]) -> str:
    name = shorten_path(change.path, roots)
    is_text = _is_text(change.before) and _is_text(change.after)
    return _format_modes(name, change) + (_format_text_diff if is_text else _format_summary)(name, change, source)


def _format_tree_entry(change: FileChange, source: ContentSource, roots: Sequence[str], *, name_folders: bool) -> str:
    """What happens to something in a folder. A folder is shown if `name_folders`,
    or if its mode or owner is unusual."""
    if not _get_trees(change):
        return _format_entry_diff(change, source, roots)
    name = shorten_path(change.path, roots)
    before, after = ("nothing", "a folder") if change.before is None else ("a folder", "nothing")
    return _format_modes(name, change) + (f"[{name}: {before} -> {after}]\n" if name_folders else "")


def _get_trees(change: FileChange) -> list[StagedContent]:
    return [side for side in (change.before, change.after) if isinstance(side, StagedContent) and side.kind == "tree"]


def _expand_trees(change: FileChange, source: ContentSource, limit: int | None) -> list[FileChange]:
    """What is in the folders that come or go, each as a change by itself; of each folder at most so many."""
    return [
        FileChange(path, None, content) if tree is change.after else FileChange(path, content, None)
        for tree in _get_trees(change)
        for relative, content in source.list_staged_tree(
            tree, change.path, tree.entry_count if limit is None else limit
        )
        for path in (f"{change.path}/{escape_ambiguous(relative)}",)
    ]


def _format_text_diff(name: str, change: FileChange, source: ContentSource) -> str:
    if change.is_noop:
        return ""
    if any(
        isinstance(side, StagedContent) and side.size > MAX_DIFFED_FILE_BYTES for side in (change.before, change.after)
    ):
        return _format_summary(name, change, source)
    try:
        before, after = (_decode_content(content, change.path, source) for content in (change.before, change.after))
    except LookupError:
        return f"[{name}: its content is no longer kept]\n"
    except BinaryFile:
        return f"[{name}: binary content differs]\n"
    return unified_diff(name, before, after)


def _decode_content(content: Content | None, path: str, source: ContentSource) -> str | None:
    if content is None:
        return None
    data = source.read_content(content, path)
    if data is None:
        raise LookupError(content.hash)
    return Text.decode(data, path, source.declared_encoding(path)).body


def _is_text(content: Content | None) -> bool:
    """Whether it may be: no link, tree or folder."""
    match content:
        case StagedContent(kind=kind):
            return kind == "file"
        case DirectoryMetadata() | Directory():
            return False
        case _:
            return True


def _format_modes(name: str, change: FileChange) -> str:
    """Permission bits and owners that differ, or that are out of the ordinary on something new."""
    out = ""
    match change.before, change.after:
        case StagedContent(mode=old), StagedContent(mode=new) if old != new:
            out = f"[{name}: mode {old & 0o7777:o} -> {new & 0o7777:o}]\n"
        case None, StagedContent(kind="file" | "tree" as kind, mode=mode) if _is_notable(kind, mode):
            out = f"[{name}: new {'file' if kind == 'file' else 'folder'}, mode {mode & 0o7777:o}]\n"
        case None, InlineContent() | ContentRef() if change.mode and _is_notable("file", change.mode):
            out = f"[{name}: new file, mode {change.mode & 0o7777:o}]\n"
        case _:
            pass
    match change.before, change.after:
        case StagedContent(owner=old), StagedContent(owner=new) if old != new:
            return f"{out}[{name}: owner {_format_user(old)} -> {_format_user(new)}]\n"
        case None, StagedContent(owner=int(new)):
            return f"{out}[{name}: owner {_format_user(new)}]\n"
        case _:
            return out


def _is_notable(kind: str, mode: int) -> bool:
    return bool(mode & (NOTABLE_FILE_MODE_BITS if kind == "file" else NOTABLE_FOLDER_MODE_BITS))


def _format_user(owner: int | None) -> str:
    return "this user" if owner is None else f"user {owner}"


def _format_summary(name: str, change: FileChange, source: ContentSource) -> str:
    before, after = (_describe_content(side, change.path, source) for side in (change.before, change.after))
    return f"[{name}: {before} -> {after}]\n"


def _describe_content(content: Content | None, path: str, source: ContentSource) -> str:
    """What is no text, in a few words."""
    match content:
        case None:
            return "nothing"
        case StagedContent(kind="tree", entry_count=entries, size=size):
            return f"a folder (mode {content.mode & 0o7777:o}, {entries - 1:,} entries in it, {size:,} bytes)"
        case StagedContent(kind="link"):
            target = source.read_content(content, path)
            return f"a link to {target.decode('utf-8', 'backslashreplace')}" if target is not None else "a link"
        case StagedContent(kind="other"):
            return "a pipe, socket or device"
        case DirectoryMetadata(mode=mode, owner=owner, xattrs=attributes):
            owned = "" if owner is None else ", owner {}:{}".format(*owner)
            named = "" if attributes is None else f", attributes {', '.join(name for name, _ in attributes) or 'none'}"
            return f"a folder (mode {mode & 0o7777:o}{owned}{named})"
        case Directory():
            return "a folder"
        case _:
            return f"a file ({content.size:,} bytes)"
