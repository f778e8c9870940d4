"""Searches the disk: with ripgrep, or by reading the files ourselves, which is slower."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from time import monotonic

from handhold.core.facts import Scan
from handhold.core.plans import Search
from handhold.core.ports import Hiding
from handhold.core.requests import ListFiles
from handhold.core.text.names import real
from handhold.world.files.workspace import Workspace
from handhold.world.search.listing import listing
from handhold.world.search.programs import found
from handhold.world.search.ripgrep import Ripgrep
from handhold.world.search.running import Broken
from handhold.world.search.walk import WalkSearch

ENGINES = ("ripgrep", "walk")


class DiskSearch:
    """Fulfils the port Searcher."""

    def __init__(self, workspace: Workspace, *, engines: Sequence[str] = ENGINES) -> None:
        self._workspace = workspace
        self._engines = engines

    def search(self, search: Search, *, visible: Callable[[str], bool], hiding: Hiding | None = None) -> Scan:
        until = monotonic() + search.seconds
        search = replace(search, place=real(search.place))
        if isinstance(search.request, ListFiles):
            return listing(self._workspace, search, visible, until)
        because = "" if "ripgrep" in self._engines else "ripgrep is switched off"
        counted = search.entries is not None  # in a defined order, which only our own walk has
        if not because and not counted:
            try:
                return self._ripgrep(search, visible, until, hiding)
            except Broken as broken:
                because = str(broken)
        return WalkSearch(self._workspace).search(search, visible, until, "" if counted else because, hiding)

    def _ripgrep(self, search: Search, visible: Callable[[str], bool], until: float, hiding: Hiding | None) -> Scan:
        program = found(self._workspace.roots)
        if isinstance(program, str):
            raise Broken(program)
        return Ripgrep(self._workspace, program).search(search, visible, until, hiding)
