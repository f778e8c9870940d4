"""The dialect `handhold`: the default, for models without a dialect of their own and for people.

Paths are relative to the first root or absolute. A reply always reports what was left out and how to get it.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from handhold.core.errors import BadArguments, ToolError
from handhold.core.ports.dialect import DialectOptions
from handhold.core.problems import Problems
from handhold.core.requests import (
    MAX_PDF_PAGES,
    Edit,
    Glob,
    Grep,
    JobInput,
    JobOutput,
    JobStop,
    ListFiles,
    MultiEdit,
    PageLimits,
    Patch,
    Read,
    ReadMany,
    Request,
    Run,
    Write,
)
from handhold.core.results import Result
from handhold.core.text.patch import parse_patch
from handhold.dialects import notebooks
from handhold.dialects.arguments import get_count, get_first_line, get_page_ranges, get_seconds
from handhold.dialects.base import BaseDialect, build_replacement, unhandled_tool_error
from handhold.dialects.handhold import messages
from handhold.dialects.searches import MAX_CONTEXT_LINES, MAX_SEARCH_CHARS, normalize_folder

MAX_REPLY_CHARS = 80_000  # characters: 20,000 tokens
RESERVED_CHARS = 11_000  # notes (at most 6,000), the counts of truncated lines, line numbers of more than six digits
LIMITS = PageLimits(lines=2000, line_chars=2000, chars=MAX_REPLY_CHARS - RESERVED_CHARS)
MAX_FILES_PER_CALL = 50  # in one call
DEFAULT_TIMEOUT_SECONDS, MAX_TIMEOUT_SECONDS = 120.0, 600.0  # for a command
BACKGROUND_TIMEOUT_SECONDS, MAX_BACKGROUND_TIMEOUT_SECONDS = 3600.0, 24 * 3600.0
DEFAULT_LIST_LIMIT, DEFAULT_SEARCH_LIMIT, MAX_SEARCH_LIMIT = (
    200,
    100,
    1000,
)  # entries of a listing, files or lines of a search, and the maximum of both
MAX_LIST_DEPTH = 10


class Handhold(BaseDialect):
    name = "handhold"
    options = DialectOptions(matching="safe", hints=True)

    def build_request(self, tool: str, a: Mapping[str, Any]) -> Request:
        match tool:
            case "read_file":
                return Read(
                    a["path"],
                    LIMITS,
                    get_first_line(tool, a),
                    get_count(tool, a, "limit"),
                    page_ranges=get_page_ranges(tool, a, "pages", max_pages=MAX_PDF_PAGES),
                    include_images=a["images"],
                    if_changed=a["if_changed"],
                )
            case "read_files":
                return build_read_many(tool, a)
            case "write_file":
                return Write(a["path"], a["content"])
            case "edit_file":
                return Edit(a["path"], build_replacement(a))
            case "multi_edit":
                return MultiEdit(a["path"], tuple(map(build_replacement, a["edits"])))
            case "notebook_edit":
                return notebooks.build_notebook_edit(tool, a)
            case "apply_patch":
                return Patch(parse_patch(a["patch"]))
            case "bash":
                return build_run(tool, a)
            case "bash_output":
                return JobOutput(a["job"], MAX_REPLY_CHARS, get_count(tool, a, "offset", minimum=0))
            case "bash_input":
                return JobInput(a["job"], a["text"])
            case "bash_stop":
                return JobStop(a["job"])
            case "list_files":
                depth = get_count(tool, a, "depth", maximum=MAX_LIST_DEPTH) or 1
                return ListFiles(
                    depth=depth, ignore=tuple(a.get("ignore", ())), **get_search_fields(tool, a, DEFAULT_LIST_LIMIT)
                )
            case "glob":
                return Glob(pattern=a["pattern"], sort=a["sort"], **get_search_fields(tool, a, DEFAULT_SEARCH_LIMIT))
            case "grep":
                return Grep(
                    pattern=a["pattern"],
                    glob=a.get("glob", ""),
                    regex=a["regex"],
                    ignore_case=a["ignore_case"],
                    mode=a["mode"],
                    before=get_count(tool, a, "before", minimum=0, maximum=MAX_CONTEXT_LINES) or 0,
                    after=get_count(tool, a, "after", minimum=0, maximum=MAX_CONTEXT_LINES) or 0,
                    sort=a["sort"],
                    **get_search_fields(tool, a, DEFAULT_SEARCH_LIMIT),
                )
            case _:
                raise unhandled_tool_error(tool)

    def format_result(self, request: Request, result: Result) -> str:
        return messages.format_result(request, result)

    def format_problems(self, problems: Problems) -> Iterable[str]:
        return messages.format_problems(problems)

    def format_error(self, tool: str, error: ToolError, *, hints: bool) -> str:
        return messages.format_error(tool, error, hints=hints)


def build_read_many(tool: str, a: Mapping[str, Any]) -> ReadMany:
    paths = tuple(dict.fromkeys(a["paths"]))
    if len(paths) > MAX_FILES_PER_CALL:
        raise BadArguments(tool, "paths", f"{len(paths)} paths", f"an array of at most {MAX_FILES_PER_CALL} paths")
    limit = get_count(tool, a, "limit")
    return ReadMany(
        tuple(Read(path, LIMITS, limit=limit) for path in paths), MAX_REPLY_CHARS - messages.CUT_FILES_NOTE_CHARS
    )


def build_run(tool: str, a: Mapping[str, Any]) -> Run:
    background, preview = a["background"], a["preview"]
    if background and preview:
        raise BadArguments(
            tool, "preview", "true", "false when `background` is true: only a command that ends can be previewed"
        )
    limits = (
        (BACKGROUND_TIMEOUT_SECONDS, MAX_BACKGROUND_TIMEOUT_SECONDS)
        if background
        else (DEFAULT_TIMEOUT_SECONDS, MAX_TIMEOUT_SECONDS)
    )
    time = get_seconds(tool, a, "timeout", default=limits[0], maximum=limits[1])
    return Run(a["command"], time, MAX_REPLY_CHARS, background=background, preview=preview)


def get_search_fields(tool: str, a: Mapping[str, Any], limit: int) -> dict[str, Any]:
    """The arguments that all three searches have."""
    return {
        "path": normalize_folder(a.get("path", "")),
        "hidden": a["hidden"],
        "ignored": a["ignored"],
        "limit": min(get_count(tool, a, "limit") or limit, MAX_SEARCH_LIMIT),
        "chars": MAX_SEARCH_CHARS,
        "cursor": a.get("cursor", ""),
    }


dialect = Handhold(__file__)
