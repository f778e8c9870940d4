"""Looking for names and text."""

from collections.abc import Callable
from typing import Protocol

from handhold.core.facts import (
    SearchOutcome,
)
from handhold.core.plans import Search
from handhold.core.ports.files import HiddenPaths


class Searcher(Protocol):
    """Looks for names and for text, beneath the roots and nowhere else. It never hangs and leaves no process."""

    def search(
        self, search: Search, *, visible: Callable[[str], bool], hidden: HiddenPaths | None = None
    ) -> SearchOutcome:
        """What is there, as far as `visible` lets it be seen: no place that is not may be shown, or be told from.

        Nor may a file that has several names, if `hidden` knows one of them.
        """
        ...
