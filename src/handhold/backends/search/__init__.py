"""Search the disk: with ripgrep, or with the slower built-in search."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from time import monotonic

from handhold.backends.files.workspace import Workspace
from handhold.backends.search.builtin import BuiltinSearch
from handhold.backends.search.listing import list_directory
from handhold.backends.search.ripgrep import RipgrepSearch
from handhold.backends.search.ripgrep_binary import find_ripgrep
from handhold.backends.search.search_process import EngineFailed
from handhold.core.facts import SearchOutcome
from handhold.core.plans import Search
from handhold.core.ports.files import HiddenPaths
from handhold.core.requests import ListFiles
from handhold.core.text.path_escaping import unescape_ambiguous
from handhold.logs import warn_once

ENGINES = ("ripgrep", "walk")


class DiskSearch:
    """Implements the port Searcher."""

    def __init__(self, workspace: Workspace, *, engines: Sequence[str] = ENGINES) -> None:
        self._workspace = workspace
        self._engines = engines

    def search(
        self, search: Search, *, visible: Callable[[str], bool], hidden: HiddenPaths | None = None
    ) -> SearchOutcome:
        until = monotonic() + search.timeout_seconds
        search = replace(search, place=unescape_ambiguous(search.place))
        if isinstance(search.request, ListFiles):
            return list_directory(self._workspace, search, visible, until)
        fallback_reason = "" if "ripgrep" in self._engines else "ripgrep is disabled"
        limits_entries = search.max_entries is not None  # in a defined order, which only the built-in search has
        if not fallback_reason and not limits_entries:
            try:
                return self._search_with_ripgrep(search, visible, until, hidden)
            except EngineFailed as broken:
                fallback_reason = str(broken)
                warn_once("search", f"Searches use the slower built-in engine: {fallback_reason}")
        return BuiltinSearch(self._workspace).search(
            search, visible, until, "" if limits_entries else fallback_reason, hidden
        )

    def _search_with_ripgrep(
        self, search: Search, visible: Callable[[str], bool], until: float, hidden_paths: HiddenPaths | None
    ) -> SearchOutcome:
        program = find_ripgrep(self._workspace.roots)
        if isinstance(program, str):
            raise EngineFailed(program)
        return RipgrepSearch(self._workspace, program).search(search, visible, until, hidden_paths)
