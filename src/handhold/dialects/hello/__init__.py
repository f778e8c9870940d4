"""The dialect `hello`: three tools, in Chinese, to the letter of the document they come from, and the `bash` of its registry.

A write clears the read record, so that the file must be read again before the next write; an edit keeps it.
"""

from collections.abc import Mapping
from typing import Any

from handhold.core.errors import BadArguments, NoChange, ToolError
from handhold.core.ports.dialect import DialectOptions
from handhold.core.requests import Edit, PageLimits, Read, Replacement, Request, Run, Write
from handhold.core.results import Result
from handhold.dialects.base import BaseDialect, unhandled_tool_error
from handhold.dialects.hello import messages

FIRST_LINE = 1
COMMAND_TIMEOUT_SECONDS = 120.0  # for a command; the source has no limit
MAX_PAGE_LINES = (
    messages.MAX_PAGE_CHARS // 8
)  # that fit on a page: each has at least a number, an arrow and a line break


class Hello(BaseDialect):
    name = "hello"
    options = DialectOptions(
        matching="exact",
        hints=False,
        records_write_as_read=False,
        absolute_paths=True,
        lists_folders=False,
        empty_old_creates=False,
    )

    def build_request(self, tool: str, a: Mapping[str, Any]) -> Request:
        if tool == "bash":
            return Run(
                a["command"], COMMAND_TIMEOUT_SECONDS, messages.MAX_OUTPUT_BYTES, first_bytes=messages.MAX_OUTPUT_BYTES
            )
        path = a["file_path"]
        if not path.strip():
            raise BadArguments(tool, "file_path", "empty", "a path")
        match tool:
            case "read_file":
                limit = normalize_limit(a.get("limit"))
                limits = PageLimits(
                    lines=min(max(limit or messages.DEFAULT_PAGE_LINES, messages.DEFAULT_PAGE_LINES), MAX_PAGE_LINES),
                    line_chars=messages.MAX_PAGE_CHARS,
                    chars=messages.MAX_PAGE_CHARS,
                    cut_unit="character",
                    has_final_line=True,
                )
                return Read(path, limits, max(a.get("offset", FIRST_LINE), FIRST_LINE), limit)
            case "write_file":
                return Write(path, a["content"])
            case "edit_file" if a["old_string"] == a["new_string"]:
                raise NoChange(path)  # the source checks this before it checks the file
            case "edit_file":
                return Edit(path, Replacement(a["old_string"], a["new_string"], every=a.get("replace_all", False)))
            case _:
                raise unhandled_tool_error(tool)

    def format_result(self, request: Request, result: Result) -> str:
        return messages.format_result(request, result)

    def format_error(self, tool: str, error: ToolError, *, hints: bool) -> str:
        return messages.format_error(tool, error)


def normalize_limit(limit: int | None) -> int | None:
    """The source takes less than one line as all of them."""
    return limit if limit is not None and limit >= 1 else None


dialect = Hello(__file__)
