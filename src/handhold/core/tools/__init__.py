"""One file an operation: what a request would do, given a view of the files; of a search, what it came to."""

from handhold.core.facts import ConvertedImage, ConvertedPdf, Scan
from handhold.core.plans import Answer, Convert, Plan, Restart, Search
from handhold.core.policy.guard import GuardedView
from handhold.core.requests import (
    Edit,
    Glob,
    Grep,
    Insert,
    JobInput,
    JobOutput,
    JobStop,
    ListFiles,
    MultiEdit,
    NotebookEdit,
    Patch,
    Read,
    ReadMany,
    Request,
    RestartShell,
    Run,
    Write,
)
from handhold.core.results import Result


def plan(request: Request, files: GuardedView) -> Plan:
    """By the file of its operation, imported when it is first asked for: most sessions never patch."""
    match request:
        case Read():
            from handhold.core.tools import read

            return read.plan(request, files)
        case ReadMany():
            from handhold.core.tools import read_many

            return read_many.plan(request, files)
        case Write():
            from handhold.core.tools import write

            return write.plan(request, files)
        case Edit():
            from handhold.core.tools import edit

            return edit.plan(request, files)
        case MultiEdit():
            from handhold.core.tools import edit

            return edit.plan_multi(request, files)
        case NotebookEdit():
            from handhold.core.tools import notebook

            return notebook.plan(request, files)
        case Insert():
            from handhold.core.tools import insert

            return insert.plan(request, files)
        case Patch():
            from handhold.core.tools import patch

            return patch.plan(request, files)
        case ListFiles() | Glob() | Grep():
            from handhold.core.tools import searching

            return searching.plan(request, files)
        case Run():
            from handhold.core.tools import run

            return run.plan(request, files)
        case JobOutput() | JobInput() | JobStop():
            from handhold.core.tools import run

            return run.plan_job(request, files)
        case RestartShell():
            return Restart()


def conclude(search: Search, scan: Scan, files: GuardedView) -> Result:
    from handhold.core.tools import searching

    return searching.conclude(search, scan, files)


def converted(convert: Convert, made: ConvertedImage | ConvertedPdf, files: GuardedView) -> Answer:
    from handhold.core.tools import convert as tool

    return tool.conclude(convert, made, files)
