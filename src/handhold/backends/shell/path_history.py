"""What paths were called before a brokered command, and are called after it, where it moved folders."""

import stat
from collections.abc import Sequence

from handhold.backends.files.undo_log import UndoRecord


class PathHistory:
    def __init__(self, records: Sequence[UndoRecord]) -> None:
        self._records = records
        # Index, both names, and whether the second became the first. A folder never moves to the store.
        self._moves = [
            (index, f"{record.first}/", f"{record.second}/", record.kind == "exchange")
            for index, record in enumerate(records)
            if record.kind == "exchange" or (record.kind == "move" and stat.S_ISDIR(record.mode))
        ]

    def before(self, path: str, index: int) -> str:
        """What a path of the record at `index` was called before the command."""
        for at, old, new, is_exchange in reversed(self._moves):
            if at < index:
                path = _rename(path, new, old, is_exchange=is_exchange)
        return path

    def after(self, path: str, index: int) -> str:
        """What a path of the record at `index` is called after the command."""
        for at, old, new, is_exchange in self._moves:
            if at > index:
                path = _rename(path, old, new, is_exchange=is_exchange)
        return path

    def find_homes(self) -> dict[tuple[int, int], str]:
        """For each inode that got another name: what it was called before the command."""
        homes: dict[tuple[int, int], str] = {}
        for index, record in enumerate(self._records):
            if record.kind in ("move", "exchange", "exchanged", "keep"):
                homes.setdefault(record.inode, self.before(record.first, index))
        return homes


def _rename(path: str, old: str, new: str, *, is_exchange: bool) -> str:
    if path.startswith(old):
        return new + path[len(old) :]
    if is_exchange and path.startswith(new):
        return old + path[len(new) :]
    return path
