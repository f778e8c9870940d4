"""One module per operation: each plans a request on a view of the files, and turns a search outcome into a result."""

from handhold.core.facts import ConvertedImage, ConvertedPdf, SearchOutcome
from handhold.core.plans import Answer, Convert, Plan, Restart, Search
from handhold.core.policy.guarded_view import GuardedView
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
from handhold.core.tools import convert as conversion
from handhold.core.tools import read, read_many, run, searches


def plan(request: Request, files: GuardedView) -> Plan:
    """What the request would do. Modules that change text are imported on first use: they take half of the startup."""
    match request:
        case Read():
            return read.plan(request, files)
        case ReadMany():
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
            return searches.plan(request, files)
        case Run():
            return run.plan(request, files)
        case JobOutput() | JobInput() | JobStop():
            return run.plan_job(request, files)
        case RestartShell():
            return Restart()


def conclude(search: Search, outcome: SearchOutcome, files: GuardedView) -> Result:
    return searches.conclude(search, outcome, files)


def conclude_conversion(convert: Convert, converted: ConvertedImage | ConvertedPdf, files: GuardedView) -> Answer:
    return conversion.conclude(convert, converted, files)
