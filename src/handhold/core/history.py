"""Looking back: which calls are meant, what remains of them as one change, and how that reads."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from handhold.core.errors import BinaryFile, NothingToUndo, UndoConflict
from handhold.core.plans import Bytes, Content, FileChange, hash_of
from handhold.core.ports import Contents, Entry, Journal
from handhold.core.text.diff import unified_diff
from handhold.core.text.encoding import Text
from handhold.core.text.names import spelled

MOST_CHARS = 200_000  # of a diff over many files
FIRST_LOOK = 50  # entries; most of what is taken back was done just now


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
    if one_of is not None and any(not one_of.issuperset(entry.takes_back) for entry in found):
        raise NothingToUndo(f"{which} by itself: it was taken back together with other calls")
    return found


def _latest(journal: Journal, session: str, meant: Callable[[Entry], bool], which: Which) -> list[Entry]:
    """The last entry that is meant, or all of them. Looks back further and further."""
    last = None if which.several else FIRST_LOOK
    while True:
        entries = journal.entries(session=session, last=last)
        found = [entry for entry in entries if meant(entry)]
        if found:
            return found if which.several else found[-1:]
        if last is None or len(entries) < last:
            raise NothingToUndo(str(which))
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


def short(path: str, roots: Sequence[str]) -> str:
    """A path as a person would write it: below the first root, or in full."""
    return spelled(path.removeprefix(roots[0].rstrip("/") + "/"))


def diff_of(files: Sequence[FileChange], contents: Contents, roots: Sequence[str]) -> str:
    """A unified diff over many files, bounded; what was left out is said."""
    out: list[str] = []
    room = MOST_CHARS
    for n, piece in enumerate(_diffs(files, contents, roots)):
        room -= len(piece)
        if room < 0 and n:
            out.append(f"[{len(files) - n} more files are not shown]\n")
            break
        out.append(piece[:MOST_CHARS])
    return "".join(out)


def _diffs(files: Sequence[FileChange], contents: Contents, roots: Sequence[str]) -> Iterator[str]:
    for change in files:
        if change.of_directory:
            continue
        name = short(change.path, roots)
        try:
            before, after = (_text(content, contents) for content in (change.before, change.after))
        except LookupError:
            yield f"[{name}: its content is no longer kept]\n"
        except BinaryFile:
            yield f"[{name}: binary content differs]\n"
        else:
            yield unified_diff(name, before, after)


def _text(content: Content | None, contents: Contents) -> str | None:
    if content is None:
        return None
    data = content.data if isinstance(content, Bytes) else contents.get(content.hash)
    if data is None:
        raise LookupError(content.hash)
    return Text.decode(data).body
