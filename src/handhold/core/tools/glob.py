"""Glob: find files by name, newest first."""

from dataclasses import replace

from handhold.core.errors import BadGlob, NotDirectory
from handhold.core.facts import SearchOutcome
from handhold.core.plans import Search
from handhold.core.policy.guarded_view import GuardedView
from handhold.core.requests import Glob
from handhold.core.results import GlobResult, SearchHint
from handhold.core.tools.paging import CharBudget, plan_search, require_glob, summarize


def plan(request: Glob, files: GuardedView) -> Search:
    stat = files.stat_existing(request.path)
    if stat.kind != "directory":
        raise NotDirectory(request.path)
    pattern = relativize_pattern(request.pattern, stat.path)
    return plan_search(replace(request, pattern=pattern), stat.path, files)


def relativize_pattern(pattern: str, place: str) -> str:
    """Make a pattern that the model wrote as an absolute path relative to the search folder."""
    pattern = pattern.removeprefix(place.rstrip("/") + "/").lstrip("/")
    while pattern.startswith("./"):
        pattern = pattern[2:].lstrip("/")
    if ".." in pattern.split("/"):
        raise BadGlob(pattern, "leave out '..' and search from another folder instead")
    require_glob(pattern)
    return pattern


def conclude(search: Search, outcome: SearchOutcome, files: GuardedView) -> GlobResult:
    assert isinstance(search.request, Glob)
    paths = tuple(files.format_path(hit.place) for hit in outcome.hits)
    fitting = CharBudget(search.request.chars).count_fitting([len(path) + 1 for path in paths])
    summary = summarize(search, outcome, outcome.hits[:fitting], files, hint=suggest_hint(search.request.pattern))
    return GlobResult(summary, search.request.pattern, paths[:fitting])


def suggest_hint(pattern: str) -> SearchHint:
    """Suggest searching deeper, unless the pattern already does or ends in a bare wildcard."""
    return "deeper" if "**" not in pattern and pattern.rpartition("/")[2].strip("*") else ""
