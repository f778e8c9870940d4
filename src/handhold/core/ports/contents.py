"""Contents that undo needs, by hash."""

from collections.abc import Collection, Iterable, Sequence
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

    def needed_slots(self, commands: Collection[str]) -> Collection[str]:
        """Those of these commands whose slots are needed, for undo or for an intent without an outcome."""
        ...

    def dropped_slots(self, limit: int) -> Sequence[str]:
        """The first commands whose slots were dropped and may still exist. They are removed later, in portions."""
        ...

    def forget_dropped_slots(self, commands: Collection[str]) -> None:
        """Nothing of these slots exists any more."""
        ...

    def can_removal_wait(self) -> bool:
        """Whether dropped slots that still exist take so little space that their removal can wait."""
        ...
