"""Searching the disk with the best engine that is there: ripgrep, else git, else our own walk. All answer the same."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING

from handhold.core.requests import Grep, ListFiles
from handhold.core.text.names import real
from handhold.world.search.running import Broken

if TYPE_CHECKING:  # a process that only reads files comes by here too, and has to start fast
    from handhold.core.facts import Scan
    from handhold.core.plans import Search
    from handhold.core.ports import Hiding
    from handhold.world.files.workspace import Workspace

ENGINES = ("ripgrep", "git grep", "walk")


class DiskSearch:
    """Fulfils the port Searcher."""

    def __init__(self, workspace: "Workspace", *, engines: Sequence[str] = ENGINES) -> None:
        self._workspace = workspace
        self._engines = engines

    def search(self, search: "Search", *, visible: Callable[[str], bool], hiding: "Hiding | None" = None) -> "Scan":
        until = monotonic() + search.seconds
        search = replace(search, place=real(search.place))
        if isinstance(search.request, ListFiles):
            from handhold.world.search.listing import listing

            return listing(self._workspace, search, visible, until)
        because = "" if "ripgrep" in self._engines else "ripgrep is switched off"
        for engine in self._engines:
            try:
                match engine:
                    case "ripgrep":
                        return self._ripgrep(search, visible, until, hiding)
                    case "git grep" if isinstance(search.request, Grep):
                        return self._git_grep(search, visible, until, because, hiding)
                    case _:
                        continue
            except Broken as broken:
                because = because or str(broken)
        from handhold.world.search.walk import WalkSearch

        return WalkSearch(self._workspace).search(search, visible, until, because, hiding)

    def _ripgrep(
        self, search: "Search", visible: Callable[[str], bool], until: float, hiding: "Hiding | None"
    ) -> "Scan":
        from handhold.world.search.programs import found
        from handhold.world.search.ripgrep import Ripgrep

        program = found("rg", self._workspace.roots)
        if isinstance(program, str):
            raise Broken(program)
        return Ripgrep(self._workspace, program).search(search, visible, until, hiding)

    def _git_grep(
        self,
        search: "Search",
        visible: Callable[[str], bool],
        until: float,
        because: str,
        hiding: "Hiding | None",
    ) -> "Scan":
        from handhold.world.search.git_grep import GitGrep
        from handhold.world.search.programs import found

        program = found("git", self._workspace.roots)
        if isinstance(program, str):
            raise Broken(program)
        return GitGrep(self._workspace, program).search(search, visible, until, because, hiding)
