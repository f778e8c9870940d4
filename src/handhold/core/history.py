"""Looking back: which calls are meant, what remains of them as one change, and how that reads."""

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

from handhold.core.errors import BinaryFile, NothingToUndo, UndoConflict
from handhold.core.facts import Declared
from handhold.core.plans import Bytes, Content, Directory, FileChange, Folder, Shelved, Stored, hash_of
from handhold.core.ports import Entry, Journal
from handhold.core.text.diff import unified_diff
from handhold.core.text.encoding import Text
from handhold.core.text.names import spelled, unmistakable

MOST_CHARS = 200_000  # of a diff over many files
MOST_WHOLE = 4 * 1024 * 1024  # characters of a diff that may not be cut; a longer one is not shown at all
MOST_FILES = 500
FIRST_LOOK = 50  # entries; most of what is taken back was done just now

MOST_UNFOLDED = 200  # entries of a folder that came or went whole
MOST_READ = 4 * 1024 * 1024  # bytes of a file of a command's; a larger one is not shown
NOTABLE_MODE = 0o7113  # permission bits of a new file that are shown: special, executable, writable by everybody
NOTABLE_FOLDER_MODE = 0o7002


class Source(Protocol):
    """Where contents are looked up."""

    def content(self, content: Content, path: str) -> bytes | None:
        """What it holds; None if that is no longer kept."""
        ...

    def unfolded(self, content: Shelved, path: str, most: int) -> Sequence[tuple[str, Shelved]]:
        """What lies in a tree, by the way there."""
        ...

    def declared(self, path: str) -> Declared | None:
        """What is said about the encoding of a file there."""
        ...


@dataclass(frozen=True)
class Which:
    """One call (by id or number, of one turn if it is given), one turn, the session; if nothing is said, the last."""

    call: str | int = ""
    turn: str = ""
    session: bool = False

    @property
    def several(self) -> bool:
        return self.call == "" and (bool(self.turn) or self.session)

    def names(self, entry: Entry) -> bool:
        named = self.call in ("", entry.call.call_id, entry.seq, f"#{entry.seq}")
        return named and self.turn in ("", entry.call.turn)

    def __str__(self) -> str:
        return str(self.call) or self.turn or ("this session" if self.session else "the last change")


def name_of(entry: Entry) -> str:
    return entry.call.call_id or f"#{entry.seq}"


def changes(journal: Journal, session: str, which: Which, *, undone: bool | None) -> list[Entry]:
    """The changes meant, oldest first; with `undone` only those that stand taken back, or do not."""

    def meant(entry: Entry) -> bool:
        if not entry.changed or not entry.succeeded or entry.call.tool in ("undo", "redo"):
            return False
        return (undone is None or entry.undone is undone) and which.names(entry)

    return _latest(journal, session, meant, which)


def undos(journal: Journal, session: str, which: Which) -> list[Entry]:
    """The undos that took back what is meant and still stand, oldest first."""
    one_of = None
    if which.call != "" or which.turn:
        one_of = {entry.seq for entry in changes(journal, session, which, undone=True)}

    def meant(entry: Entry) -> bool:
        stands = entry.call.tool == "undo" and entry.succeeded and not entry.undone
        return stands and (one_of is None or not one_of.isdisjoint(entry.takes_back))

    found = _latest(journal, session, meant, which)
    if not which.several:
        found = _companions(journal, session, meant, found[0])
    if one_of is not None and any(not one_of.issuperset(entry.takes_back) for entry in found):
        raise NothingToUndo(f"{which} by itself: it was taken back together with other calls")
    return found


def _companions(journal: Journal, session: str, meant: Callable[[Entry], bool], one: Entry) -> list[Entry]:
    """An undo of several calls may have taken several steps: all of them are one undo."""
    batch = batch_of(one)
    if not batch:
        return [one]
    return [entry for entry in journal.entries(session=session) if meant(entry) and batch_of(entry) == batch]


def batch_of(entry: Entry) -> int:
    """The number of the first step of the undo or redo that this one is a step of; 0 if it was the only one."""
    try:
        return json.loads(entry.call.arguments).get("batch", 0)
    except (ValueError, AttributeError):  # a tampered journal: it is found out elsewhere
        return 0


def _latest(journal: Journal, session: str, meant: Callable[[Entry], bool], which: Which) -> list[Entry]:
    """The last entry that is meant, or all of them. Looks back further and further."""
    last = None if which.several else FIRST_LOOK
    while True:
        entries = journal.entries(session=session, last=last)
        if last and any(is_redo(entry) for entry in entries):  # what it did again may lie further back
            entries, last = journal.entries(session=session), None
        again = done_again(entries)
        found = sorted((entry for entry in entries if meant(entry)), key=lambda entry: again.get(entry.seq, entry.seq))
        if found:
            return found if which.several else found[-1:]
        if last is None or len(entries) < last:
            raise NothingToUndo(str(which))
        last *= 20


def is_redo(entry: Entry) -> bool:
    return entry.call.tool == "redo" and entry.succeeded


def done_again(entries: Sequence[Entry]) -> dict[int, int]:
    """The calls that were done again, and the redo that did so last: they came after all that stood then."""
    undone = {entry.seq: entry.takes_back for entry in entries if entry.call.tool == "undo"}
    redos = (entry for entry in entries if is_redo(entry))
    return {call: redo.seq for redo in redos for undo in redo.takes_back for call in undone.get(undo, ())}


def _since(journal: Journal, session: str, seq: int) -> Sequence[Entry]:
    """The entries from a number on, and some before."""
    last = FIRST_LOOK
    while True:
        entries = journal.entries(session=session, last=last)
        if len(entries) < last or entries[0].seq <= seq:
            return entries
        last *= 20


def net(calls: Sequence[Sequence[FileChange]]) -> list[FileChange]:
    """The sum of these changes, oldest first. UndoConflict where somebody else's change lies in between."""
    total: dict[str, FileChange] = {}
    for change in (change for files in calls for change in files):
        known = total.pop(change.path, None)
        if known and hash_of(known.after) != hash_of(change.before):
            raise UndoConflict((change.path,))
        mode = change.mode if change.mode is not None or known is None else known.mode
        total[change.path] = FileChange(change.path, known.before if known else change.before, change.after, mode)
    return [change for change in total.values() if not change.idle]


@dataclass(frozen=True)
class Step:
    """Calls that are taken back together, as one change; what their journals say, oldest first."""

    entries: tuple[Entry, ...]
    files: tuple[FileChange, ...]


def steps(journal: Journal, session: str, chosen: Sequence[Entry]) -> list[Step]:
    """The sum of these calls, oldest first. A command stands by itself: its things change places, one at a time."""
    out: list[Step] = []
    done = [Step(entries, journal.files(seq)) for entries, seq in _as_last_done(journal, session, chosen)]
    for by_command, group in groupby(done, key=lambda step: has_things(step.files)):
        if by_command:
            out += group
        else:
            together = list(group)
            entries = tuple(entry for step in together for entry in step.entries)
            out.append(Step(entries, tuple(net([step.files for step in together]))))
    return out


def _as_last_done(journal: Journal, session: str, chosen: Sequence[Entry]) -> Iterator[tuple[tuple[Entry, ...], int]]:
    """Calls, and the entry that says what they did. A call that was done again made, that time, other folders too."""
    again = done_again(_since(journal, session, min(entry.seq for entry in chosen)))
    for redo, group in groupby(chosen, key=lambda entry: again.get(entry.seq, 0)):
        entries = tuple(group)
        if redo and {entry.seq for entry in entries} == {call for call, by in again.items() if by == redo}:
            yield entries, redo
        else:
            yield from (((entry,), entry.seq) for entry in entries)


def has_things(files: Sequence[FileChange]) -> bool:
    return any(isinstance(content, Shelved | Folder) for change in files for content in (change.before, change.after))


def short(path: str, roots: Sequence[str]) -> str:
    """A path as a person would write it: below the first root, or in full."""
    return spelled(path.removeprefix(roots[0].rstrip("/") + "/"))


def diff_of(files: Sequence[FileChange], source: Source, roots: Sequence[str]) -> str:
    """A unified diff over many files, bounded; what was left out is said."""
    out: list[str] = []
    room = MOST_CHARS
    shown = [change for change in files if not change.of_directory]
    for n, change in enumerate(shown):
        for piece in _pieces(change, source, roots):
            room -= len(piece)
            if (room < 0 and out) or n >= MOST_FILES:
                return "".join([*out, f"[{len(shown) - n} more files are not shown]\n"])
            over = len(piece) - MOST_CHARS
            more = f"\n[{over:,} more characters of {short(change.path, roots)} are not shown]\n" if over > 0 else ""
            out.append(piece[:MOST_CHARS] + more)
    return "".join(out)


def diff_for_approval(
    files: Sequence[FileChange], places: Collection[str], source: Source, roots: Sequence[str]
) -> tuple[str, int] | None:
    """A diff whose first lines show all that happens at these places, and how many lines that is; the rest is bounded.

    A place may lie in a folder that comes or goes whole. None: these places alone are too long to be shown.
    """
    whole: list[str] = []
    others: list[FileChange] = []
    above = {folder for place in places for folder in _upwards(place)}
    room = MOST_WHOLE
    for change in files:
        if _is_at(change.path, places):
            pieces = _pieces(change, source, roots, whole=True)
        else:
            others.append(change)
            inside = _entries(change, source, None) if change.path in above else ()
            pieces = (_entry(one, source, roots, named=True) for one in inside if _is_at(one.path, places))
        for piece in pieces:
            whole.append(piece)
            room -= len(piece)
            if room < 0:
                return None
    first = "".join(whole)
    return first + diff_of(others, source, roots), first.count("\n")


def _is_at(path: str, places: Collection[str]) -> bool:
    """Whether it is one of these places, or lies in one."""
    return any(each in places for each in _upwards(path))


def _upwards(path: str) -> Iterator[str]:
    """A path, and the folders that it lies in."""
    while path:
        yield path
        path = path.rpartition("/")[0]


def _pieces(change: FileChange, source: Source, roots: Sequence[str], *, whole: bool = False) -> Iterator[str]:
    """A change, and what is in a folder that came or went whole, as if each file had by itself."""
    yield _piece(change, source, roots)
    entries = _entries(change, source, None if whole else MOST_UNFOLDED)
    yield from (_entry(one, source, roots, named=whole) for one in entries)
    if (more := sum(tree.entries - 1 for tree in _trees(change)) - len(entries)) > 0:
        yield f"[{more:,} more entries of {short(change.path, roots)} are not shown]\n"


def _piece(change: FileChange, source: Source, roots: Sequence[str]) -> str:
    name = short(change.path, roots)
    is_text = _is_text(change.before) and _is_text(change.after)
    return _modes(name, change) + (_text_diff if is_text else _in_words)(name, change, source)


def _entry(one: FileChange, source: Source, roots: Sequence[str], *, named: bool) -> str:
    """What happens to something in a folder. A folder is `named`, or shown only if its mode or owner is unusual."""
    if not _trees(one):
        return _piece(one, source, roots)
    name = short(one.path, roots)
    before, after = ("nothing", "a folder") if one.before is None else ("a folder", "nothing")
    return _modes(name, one) + (f"[{name}: {before} -> {after}]\n" if named else "")


def _trees(change: FileChange) -> list[Shelved]:
    return [side for side in (change.before, change.after) if isinstance(side, Shelved) and side.kind == "tree"]


def _entries(change: FileChange, source: Source, most: int | None) -> list[FileChange]:
    """What is in the folders that come or go, each as a change by itself; of each folder at most so many."""
    return [
        FileChange(path, None, thing) if tree is change.after else FileChange(path, thing, None)
        for tree in _trees(change)
        for way, thing in source.unfolded(tree, change.path, tree.entries if most is None else most)
        for path in (f"{change.path}/{unmistakable(way)}",)
    ]


def _text_diff(name: str, change: FileChange, source: Source) -> str:
    if change.idle:
        return ""
    if any(isinstance(side, Shelved) and side.size > MOST_READ for side in (change.before, change.after)):
        return _in_words(name, change, source)
    try:
        before, after = (_text(content, change.path, source) for content in (change.before, change.after))
    except LookupError:
        return f"[{name}: its content is no longer kept]\n"
    except BinaryFile:
        return f"[{name}: binary content differs]\n"
    return unified_diff(name, before, after)


def _text(content: Content | None, path: str, source: Source) -> str | None:
    if content is None:
        return None
    data = source.content(content, path)
    if data is None:
        raise LookupError(content.hash)
    return Text.decode(data, path, source.declared(path)).body


def _is_text(content: Content | None) -> bool:
    """Whether it may be: no link, tree or folder."""
    match content:
        case Shelved(kind=kind):
            return kind == "file"
        case Folder() | Directory():
            return False
        case _:
            return True


def _modes(name: str, change: FileChange) -> str:
    """Permission bits and owners that differ, or that are out of the ordinary on something new."""
    out = ""
    match change.before, change.after:
        case Shelved(mode=old), Shelved(mode=new) if old != new:
            out = f"[{name}: mode {old & 0o7777:o} -> {new & 0o7777:o}]\n"
        case None, Shelved(kind="file" | "tree" as kind, mode=mode) if _is_notable(kind, mode):
            out = f"[{name}: new {'file' if kind == 'file' else 'folder'}, mode {mode & 0o7777:o}]\n"
        case None, Bytes() | Stored() if change.mode and _is_notable("file", change.mode):
            out = f"[{name}: new file, mode {change.mode & 0o7777:o}]\n"
        case _:
            pass
    match change.before, change.after:
        case Shelved(owner=old), Shelved(owner=new) if old != new:
            return f"{out}[{name}: owner {_user(old)} -> {_user(new)}]\n"
        case None, Shelved(owner=int(new)):
            return f"{out}[{name}: owner {_user(new)}]\n"
        case _:
            return out


def _is_notable(kind: str, mode: int) -> bool:
    return bool(mode & (NOTABLE_MODE if kind == "file" else NOTABLE_FOLDER_MODE))


def _user(owner: int | None) -> str:
    return "this user" if owner is None else f"user {owner}"


def _in_words(name: str, change: FileChange, source: Source) -> str:
    before, after = (_told(side, change.path, source) for side in (change.before, change.after))
    return f"[{name}: {before} -> {after}]\n"


def _told(content: Content | None, path: str, source: Source) -> str:
    """What is no text, in a few words."""
    match content:
        case None:
            return "nothing"
        case Shelved(kind="tree", entries=entries, size=size):
            return f"a folder (mode {content.mode & 0o7777:o}, {entries - 1:,} entries in it, {size:,} bytes)"
        case Shelved(kind="link"):
            target = source.content(content, path)
            return f"a link to {target.decode('utf-8', 'backslashreplace')}" if target is not None else "a link"
        case Shelved(kind="other"):
            return "a pipe, socket or device"
        case Folder(mode=mode, owner=owner, attributes=attributes):
            owned = "" if owner is None else ", owner {}:{}".format(*owner)
            named = "" if attributes is None else f", attributes {', '.join(name for name, _ in attributes) or 'none'}"
            return f"a folder (mode {mode & 0o7777:o}{owned}{named})"
        case Directory():
            return "a folder"
        case _:
            return f"a file ({content.size:,} bytes)"
