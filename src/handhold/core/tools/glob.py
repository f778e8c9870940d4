"""Glob: files by their names, newest first."""

from dataclasses import replace

from handhold.core.errors import BadGlob, NotDirectory
from handhold.core.facts import Scan
from handhold.core.plans import Search
from handhold.core.policy.guard import GuardedView
from handhold.core.requests import Glob
from handhold.core.results import Globbed, Hint
from handhold.core.tools.paging import Budget, begin, covered, must_be_glob


def plan(request: Glob, files: GuardedView) -> Search:
    look = files.there(request.path)
    if look.kind != "directory":
        raise NotDirectory(request.path)
    pattern = below(request.pattern, look.path)
    return begin(replace(request, pattern=pattern), look.path, files)


def below(pattern: str, place: str) -> str:
    """The pattern as it stands from the folder on, where a model spelled it from the root of all."""
    pattern = pattern.removeprefix(place.rstrip("/") + "/").lstrip("/")
    while pattern.startswith("./"):
        pattern = pattern[2:].lstrip("/")
    if ".." in pattern.split("/"):
        raise BadGlob(pattern, "it leads up; give the folder to look in as path")
    must_be_glob(pattern)
    return pattern


def conclude(search: Search, scan: Scan, files: GuardedView) -> Globbed:
    assert isinstance(search.request, Glob)
    paths = tuple(files.spelled(hit.place) for hit in scan.hits)
    fitting = Budget(search.request.chars).holds([len(path) + 1 for path in paths])
    how = covered(search, scan, scan.hits[:fitting], files, hint=meant(search.request.pattern))
    return Globbed(how, search.request.pattern, paths[:fitting])


def meant(pattern: str) -> Hint:
    """Whether a file of this name may be deeper; of a pattern that ends in any name, or in none, that says nothing."""
    return "deeper" if "**" not in pattern and pattern.rpartition("/")[2].strip("*") else ""
