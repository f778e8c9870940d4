"""A workspace to search in, and one function to search it."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from handhold.backends.files.workspace import Workspace
from handhold.backends.search import ENGINES, DiskSearch
from handhold.backends.state.sqlite import SqliteStore
from handhold.core.facts import SearchOutcome
from handhold.core.plans import Search
from handhold.core.requests import Glob, Grep


def planted(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """Files by name, each a second older than the one before."""
    for age, (name, content) in enumerate(files.items()):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        os.utime(path, (1_000_000 - age, 1_000_000 - age))
    return root


class Looking:
    """Searches below a root, with names relative to it."""

    def __init__(self, workspace: Workspace, engines: Sequence[str]) -> None:
        self.workspace = workspace
        self.searcher = DiskSearch(workspace, engines=engines)
        self.root = workspace.roots[0]

    def glob(self, pattern: str, **how: Any) -> SearchOutcome:
        return self._search(Glob, pattern, how)

    def grep(self, pattern: str, **how: Any) -> SearchOutcome:
        return self._search(Grep, pattern, how)

    def names(self, scan: SearchOutcome) -> list[str]:
        return [hit.place.removeprefix(self.root + "/") for hit in scan.hits]

    def lines(self, scan: SearchOutcome) -> list[tuple[str, int, str]]:
        named = zip(self.names(scan), scan.hits, strict=True)
        return [(name, row.number, row.text) for name, hit in named for row in hit.rows if row.is_match]

    def _search(self, kind: type[Glob] | type[Grep], pattern: str, how: dict[str, Any]) -> SearchOutcome:
        visible: Callable[[str], bool] = how.pop("visible", lambda _: True)
        place = how.pop("below", "")
        where: dict[str, Any] = {"timeout_seconds": 20.0} | {
            name: how.pop(name) for name in ("start", "checksum", "timeout_seconds") if name in how
        }
        request = kind(**{"pattern": pattern, "limit": 100, "chars": 10_000, **how})
        place = f"{self.root}/{place}" if place else self.root
        search = Search(request, place, **where)
        return self.searcher.search(search, visible=visible)


@contextmanager
def looking(root: Path, *engines: str) -> Iterator[Looking]:
    workspace = Workspace([root], SqliteStore.in_memory())
    try:
        yield Looking(workspace, engines or ENGINES)
    finally:
        workspace.close()


def children() -> set[int]:
    """The child processes of this one that have not been waited for."""
    pids = set[int]()
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread of an earlier test that ended
            pids |= {int(pid) for pid in (task / "children").read_text().split()}
    return pids


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))
