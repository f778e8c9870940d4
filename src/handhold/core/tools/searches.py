"""The three searches. Imported on first use, because many sessions start without searching."""

from collections.abc import Callable
from typing import Any

from handhold.core.facts import SearchOutcome
from handhold.core.plans import Search
from handhold.core.policy.guarded_view import GuardedView
from handhold.core.requests import Glob, Grep, ListFiles
from handhold.core.results import Result
from handhold.core.tools import glob, grep, list_files

PLANNERS: dict[type, Callable[[Any, GuardedView], Search]] = {
    ListFiles: list_files.plan,
    Glob: glob.plan,
    Grep: grep.plan,
}
CONCLUDERS: dict[type, Callable[[Search, SearchOutcome, GuardedView], Result]] = {
    ListFiles: list_files.conclude,
    Glob: glob.conclude,
    Grep: grep.conclude,
}


def plan(request: ListFiles | Glob | Grep, files: GuardedView) -> Search:
    return PLANNERS[type(request)](request, files)


def conclude(search: Search, outcome: SearchOutcome, files: GuardedView) -> Result:
    """The page of a search that fits in a reply, and how to get the rest."""
    return CONCLUDERS[type(search.request)](search, outcome, files)
