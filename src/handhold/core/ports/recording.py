"""Telling what others change from what we change ourselves."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Window:
    """A call that somebody else makes."""

    session: str
    call_id: str
    tool: str
    turn: str = ""
    input: str = ""  # what the call was given, as JSON
    paths: tuple[str, ...] | None = None  # those that it names, if it can change no others
    process: int = 0  # whose end closes the window; 0: nobody's
    agent: str = ""  # the sub-agent that makes the call


class Recording(Protocol):
    """Tells others' changes from ours. Without a baseline it does nothing."""

    def settle(self, paths: Collection[str]) -> None:
        """Before a commit: record what others changed at these paths. Call it with the journal held exclusively."""
        ...

    def follow(self, paths: Collection[str]) -> Callable[[], Callable[[], None]]:
        """Once the changes are in place: what makes the baseline equal to them, in one transaction with the outcome.

        That returns what removes copies which are no longer needed. Call it when the transaction is committed.
        """
        ...

    def keep(self, paths: Collection[str]) -> None:
        """After the commit: follow the times that the files just got, and copy their new contents, so that a later
        change of somebody else can be undone."""
        ...
