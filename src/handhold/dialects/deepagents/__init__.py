"""The dialect `deepagents`: seven tools, as the document they come from describes them.

An offset counts lines from 0, replies number them from 1. A long line continues in parts, 5.1 and 5.2, which count as
lines. Text is searched literally.
"""

from collections.abc import Mapping
from typing import Any

from handhold.core.errors import ToolError
from handhold.core.ports.dialect import DialectOptions
from handhold.core.requests import MAX_PDF_PAGES, Edit, Glob, Grep, ListFiles, PageLimits, Read, Request, Run, Write
from handhold.core.results import Result, RunResult
from handhold.dialects.arguments import get_count, get_page_ranges, get_seconds
from handhold.dialects.base import BaseDialect, build_replacement, unhandled_tool_error
from handhold.dialects.deepagents import messages
from handhold.dialects.searches import MAX_SEARCH_CHARS, normalize_folder

MAX_REPLY_CHARS = 80_000  # characters: 20,000 tokens
RESERVED_CHARS = 2_000  # the numbers of continued lines, and the note that there is more
LIMITS = PageLimits(lines=2000, line_chars=5000, chars=MAX_REPLY_CHARS - RESERVED_CHARS, split_long_lines=True)
DEFAULT_TIMEOUT_SECONDS = 120.0  # for a command
MAX_LISTED_ENTRIES, MAX_SEARCH_RESULTS = 1000, 200
CONTEXT_LINES = 2  # lines before and after a match


class DeepAgents(BaseDialect):
    name = "deepagents"
    continuation = "Continue with offset={skip}."
    options = DialectOptions(
        matching="exact",
        hints=False,
        absolute_paths=True,
        search_seconds=20.0,
        lists_folders=False,
        empty_old_creates=False,
    )

    def build_request(self, tool: str, a: Mapping[str, Any]) -> Request:
        match tool:
            case "read_file":
                offset = get_count(tool, a, "offset", minimum=0) or 0
                return Read(
                    a["file_path"],
                    LIMITS,
                    offset + 1,
                    get_count(tool, a, "limit"),
                    page_ranges=get_page_ranges(tool, a, "pages", max_pages=MAX_PDF_PAGES),
                )
            case "write_file":
                return Write(a["file_path"], a["content"])
            case "edit_file":
                return Edit(a["file_path"], build_replacement(a))
            case "ls":
                return ListFiles(
                    path=normalize_folder(a["path"]),
                    hidden=True,
                    ignored=True,
                    limit=MAX_LISTED_ENTRIES,
                    chars=MAX_SEARCH_CHARS,
                )
            case "glob":
                return Glob(
                    pattern=a["pattern"],
                    path=normalize_folder(a["path"]),
                    hidden=True,
                    limit=MAX_SEARCH_RESULTS,
                    chars=MAX_SEARCH_CHARS,
                )
            case "grep":
                return Grep(
                    pattern=a["pattern"],
                    path=normalize_folder(a.get("path", "")),
                    glob=a.get("glob", ""),
                    mode=a["output_mode"],
                    before=CONTEXT_LINES,
                    after=CONTEXT_LINES,
                    hidden=True,
                    limit=MAX_SEARCH_RESULTS,
                    chars=MAX_SEARCH_CHARS,
                )
            case "execute":
                time = get_seconds(
                    tool, a, "timeout", default=DEFAULT_TIMEOUT_SECONDS, maximum=messages.MAX_TIMEOUT_SECONDS
                )
                return Run(a["command"], time, MAX_REPLY_CHARS - RESERVED_CHARS)
            case _:
                raise unhandled_tool_error(tool)

    def format_result(self, request: Request, result: Result) -> str:
        return messages.format_result(result)

    def format_result_for_call(self, request: Request, result: Result, call_id: str) -> str:
        return (
            messages.format_command(result, call_id)
            if isinstance(result, RunResult)
            else self.format_result(request, result)
        )

    def format_error(self, tool: str, error: ToolError, *, hints: bool) -> str:
        return messages.format_error(tool, error)


dialect = DeepAgents(__file__)
