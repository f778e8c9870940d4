"""Contents that undo needs, by hash."""

from collections.abc import Collection, Iterable
from typing import Protocol


class ContentStore(Protocol):
    """Contents by hash, and slots of commands, within one bound for both.

    What was only seen goes first, then what only a redo needs, then what the undo of calls needs that were given up;
    each oldest first. What the undo of any other call needs stays, even beyond the bound.
    """

    def keep(self, contents: Iterable[bytes]) -> None:
        """What was seen. It never costs an undo or a redo: it goes itself before what came in an intent does."""
        ...

    def get(self, hash: str) -> bytes | None:
        """None if it was never kept, or had to go."""
        ...

    def has(self, hash: str) -> bool: ...

    def slots(self) -> Collection[str]:
        """The commands whose slots are needed: for taking back, or for an intent without an outcome."""
        ...

    def pop_dropped_slots(self) -> Collection[str]:
        """The commands whose slots went, by what was done through this, since this was asked before."""
        ...
