"""List: what is in a folder, directories first."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import takewhile

from handhold.core.errors import NotDirectory
from handhold.core.facts import Scan
from handhold.core.plans import Search
from handhold.core.policy.guard import GuardedView
from handhold.core.requests import ListFiles
from handhold.core.results import Listed
from handhold.core.tools.paging import Budget, begin, covered, must_be_glob

INDENT = 2
MARK = len(" (link)\n")  # the most that stands behind a name


def plan(request: ListFiles, files: GuardedView) -> Search:
    look = files.there(request.path)
    if look.kind != "directory":
        raise NotDirectory(request.path)
    for pattern in request.ignore:
        must_be_glob(pattern)
    return begin(request, look.path, files)


def conclude(search: Search, scan: Scan, files: GuardedView) -> Listed:
    skip = search.request.skip if isinstance(search.request, ListFiles) else 0
    scan, search = replace(scan, hits=scan.hits[skip:]), replace(search, start=search.start + skip)
    entries = [(files.spelled(hit.place), hit.kind) for hit in scan.hits]
    fitting = Budget(search.request.chars).holds(list(costs(entries, files.spelled(search.place))))
    return Listed(covered(search, scan, scan.hits[:fitting], files), tuple(entries[:fitting]))


def costs(entries: Sequence[tuple[str, str]], folder: str) -> Iterator[int]:
    """What each takes of a reply that shows a tree: its line, and those of its folders that are not yet there."""
    room = len(folder) + MARK
    there: Sequence[str] = ()
    for path, _ in entries:
        names = path.removeprefix(folder.rstrip("/") + "/").split("/")
        for depth in range(shared(there, names[:-1]), len(names)):
            room += INDENT * (depth + 1) + len(names[depth]) + MARK
        yield room
        room, there = 0, names


def shared(some: Sequence[str], others: Sequence[str]) -> int:
    """How many names both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(some, others, strict=False)))
