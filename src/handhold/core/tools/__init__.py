"""One file an operation: what a request would do, given a view of the files."""

from collections.abc import Callable
from typing import Any

from handhold.core.plans import Plan
from handhold.core.policy.guard import GuardedView
from handhold.core.requests import Edit, MultiEdit, Patch, Read, Request, Write
from handhold.core.tools import edit, patch, read, write

PLANNERS: dict[type, Callable[[Any, GuardedView], Plan]] = {
    Read: read.plan,
    Write: write.plan,
    Edit: edit.plan,
    MultiEdit: edit.plan_multi,
    Patch: patch.plan,
}


def plan(request: Request, files: GuardedView) -> Plan:
    return PLANNERS[type(request)](request, files)
