"""List: the contents of a folder, directories first."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import takewhile

from handhold.core.errors import NotDirectory
from handhold.core.facts import SearchOutcome
from handhold.core.plans import Search
from handhold.core.policy.guarded_view import GuardedView
from handhold.core.requests import ListFiles
from handhold.core.results import ListResult
from handhold.core.tools.paging import CharBudget, plan_search, require_glob, summarize

INDENT_CHARS = 2
MAX_MARKER_CHARS = len(" (link)\n")  # the longest suffix of a name


def plan(request: ListFiles, files: GuardedView) -> Search:
    stat = files.stat_existing(request.path)
    if stat.kind != "directory":
        raise NotDirectory(request.path)
    for pattern in request.ignore:
        require_glob(pattern)
    return plan_search(request, stat.path, files)


def conclude(search: Search, outcome: SearchOutcome, files: GuardedView) -> ListResult:
    skip = search.request.skip if isinstance(search.request, ListFiles) else 0
    outcome, search = replace(outcome, hits=outcome.hits[skip:]), replace(search, start=search.start + skip)
    entries = [(files.format_path(hit.place), hit.kind) for hit in outcome.hits]
    fitting = CharBudget(search.request.chars).count_fitting(
        list(count_entry_chars(entries, files.format_path(search.place)))
    )
    return ListResult(summarize(search, outcome, outcome.hits[:fitting], files), tuple(entries[:fitting]))


def count_entry_chars(entries: Sequence[tuple[str, str]], folder: str) -> Iterator[int]:
    """The running size of a tree listing: each entry's line, and the lines of its folders not yet listed."""
    room = len(folder) + MAX_MARKER_CHARS
    shown_names: Sequence[str] = ()
    for path, _ in entries:
        names = path.removeprefix(folder.rstrip("/") + "/").split("/")
        for depth in range(count_shared_prefix(shown_names, names[:-1]), len(names)):
            room += INDENT_CHARS * (depth + 1) + len(names[depth]) + MAX_MARKER_CHARS
        yield room
        room, shown_names = 0, names


def count_shared_prefix(some: Sequence[str], others: Sequence[str]) -> int:
    """The length of the common prefix."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(some, others, strict=False)))
