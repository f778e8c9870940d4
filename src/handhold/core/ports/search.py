"""Searches for names and text."""

from collections.abc import Callable
from typing import Protocol

from handhold.core.facts import (
    SearchOutcome,
)
from handhold.core.plans import Search
from handhold.core.ports.files import HiddenPaths


class Searcher(Protocol):
    """Searches for names and text, only below the roots. It never hangs and leaves no process behind."""

    def search(
        self, search: Search, *, visible: Callable[[str], bool], hidden: HiddenPaths | None = None
    ) -> SearchOutcome:
        """The matches in paths for which `visible` is true. Nothing may reveal the content of any other path.

        A file with several names is left out if `hidden` has one of them.
        """
        ...
