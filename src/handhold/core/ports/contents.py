"""Contents that undo needs, by hash."""

from collections.abc import Collection, Iterable
from typing import Protocol


class ContentStore(Protocol):
    """Contents by hash, and slots of commands, within one bound for both.

    Dropped first are contents that were only read, then those that only a redo needs, then those of calls whose undo
    was given up; each oldest first. What the undo of any other call needs is kept, even beyond the bound.
    """

    def keep(self, contents: Iterable[bytes]) -> None:
        """Keep contents that were read. They are dropped before anything that an undo or a redo needs."""
        ...

    def get(self, hash: str) -> bytes | None:
        """None if it was never kept, or was dropped."""
        ...

    def has(self, hash: str) -> bool: ...

    def slots(self) -> Collection[str]:
        """The commands whose slots are needed, for undo or for an intent without an outcome."""
        ...

    def pop_dropped_slots(self) -> Collection[str]:
        """The commands whose slots this store dropped since the last time this was called."""
        ...
