"""One file an operation: what a request would do, given a view of the files; of a search, what it came to."""

from collections.abc import Callable
from typing import Any

from handhold.core.facts import Scan
from handhold.core.plans import Plan, Search
from handhold.core.policy.guard import GuardedView
from handhold.core.requests import (
    Edit,
    Glob,
    Grep,
    JobInput,
    JobOutput,
    JobStop,
    ListFiles,
    MultiEdit,
    Patch,
    Read,
    Request,
    Run,
    Write,
)
from handhold.core.results import Result
from handhold.core.tools import edit, patch, read, run, write

PLANNERS: dict[type, Callable[[Any, GuardedView], Plan]] = {
    Read: read.plan,
    Write: write.plan,
    Edit: edit.plan,
    MultiEdit: edit.plan_multi,
    Patch: patch.plan,
    Run: run.plan,
    JobOutput: run.plan_job,
    JobInput: run.plan_job,
    JobStop: run.plan_job,
}


def plan(request: Request, files: GuardedView) -> Plan:
    if isinstance(request, ListFiles | Glob | Grep):
        from handhold.core.tools import searching

        return searching.plan(request, files)
    return PLANNERS[type(request)](request, files)


def conclude(search: Search, scan: Scan, files: GuardedView) -> Result:
    from handhold.core.tools import searching

    return searching.conclude(search, scan, files)
