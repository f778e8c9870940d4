"""What paths were called before a brokered command, and are called after it, where it moved folders."""

import stat
from collections.abc import Sequence

from handhold.backends.files.undo_log import UndoRecord


class FolderNames:
    """Folders by the names that they have at one time, and the names that they have at another."""

    def __init__(self, name: str = "") -> None:
        self._name = name
        self._children: dict[str, FolderNames] = {}

    def find(self, folder: str) -> str:
        """The other name of a folder."""
        if not self._children:
            return folder
        at, names = self, folder.split("/")[1:]
        for depth, name in enumerate(names):
            below = at._children.get(name)
            if below is None:
                return "/".join((at._name, *names[depth:]))
            at = below
        return at._name

    def move(self, old: str, new: str) -> None:
        """What was called `old` so far is called `new` from now on; another folder may come to `old`."""
        (above, name), (above_new, new_name) = self._locate(old), self._locate(new)
        above_new._children[new_name] = above._open(name)
        above._children[name] = FolderNames(f"{above._name}/{name}")

    def exchange(self, first: str, second: str) -> None:
        (above, name), (other, other_name) = self._locate(first), self._locate(second)
        above._children[name], other._children[other_name] = other._open(other_name), above._open(name)

    def _locate(self, path: str) -> "tuple[FolderNames, str]":
        *above, name = path.split("/")[1:]
        at = self
        for each in above:
            at = at._open(each)
        return at, name

    def _open(self, name: str) -> "FolderNames":
        return self._children.setdefault(name, FolderNames(f"{self._name}/{name}"))


class PathHistory:
    def __init__(self, records: Sequence[UndoRecord]) -> None:
        self._records = records
        self._names_before = FolderNames()
        self._before = [self._translate(record, self._names_before, is_undone=False) for record in records]
        names_after = FolderNames()
        self._after = [self._translate(record, names_after, is_undone=True) for record in reversed(records)]
        self._after.reverse()

    def before(self, index: int) -> tuple[str, str]:
        """What the paths of a record were called before the command."""
        return self._before[index]

    def after(self, index: int) -> tuple[str, str]:
        """What the paths of a record are called after the command."""
        return self._after[index]

    def find_before(self, path: str) -> str:
        """What a path of the time after the command was called before."""
        return _translate_path(path, self._names_before)

    def find_homes(self) -> dict[tuple[int, int], str]:
        """For each inode that got another name: what it was called before the command."""
        homes: dict[tuple[int, int], str] = {}
        for record, (first, _) in zip(self._records, self._before, strict=True):
            if record.kind in ("move", "exchange", "exchanged", "keep"):
                homes.setdefault(record.inode, first)
        return homes

    def _translate(self, record: UndoRecord, names: FolderNames, *, is_undone: bool) -> tuple[str, str]:
        paths = _translate_path(record.first, names), _translate_path(record.second, names)
        if record.kind == "exchange":
            names.exchange(record.first, record.second)
        elif record.kind == "move" and stat.S_ISDIR(record.mode):  # a folder never moves to the store
            names.move(*((record.second, record.first) if is_undone else (record.first, record.second)))
        return paths


def _translate_path(path: str, names: FolderNames) -> str:
    """The name itself stays: where it moved, its record has both."""
    above, slash, name = path.rpartition("/")
    return f"{names.find(above)}/{name}" if slash else path
