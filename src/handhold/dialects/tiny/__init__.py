"""The dialect `tiny`: four tools, in Chinese, to the letter of the document they come from.

Its limits are those of the document: 8000 bytes of a file or of output, 30 seconds for a command. Four rules go beyond
it: a file must be read before it is changed, `path#L120` reads from line 120 on, line endings are kept, and new lines
are indented to fit.
"""

from collections.abc import Mapping
from typing import Any

from handhold.core.errors import ToolError
from handhold.core.ports.dialect import DialectOptions
from handhold.core.requests import Edit, PageLimits, Read, Replacement, Request, Run, Write
from handhold.core.results import Result
from handhold.dialects.base import BaseDialect, unhandled_tool_error
from handhold.dialects.tiny import messages

LIMITS = PageLimits(
    lines=messages.MAX_BYTES + 1, line_chars=messages.MAX_BYTES + 1, chars=messages.MAX_BYTES, cut_unit="byte"
)
COMMAND_TIMEOUT_SECONDS = 30.0


class Tiny(BaseDialect):
    name = "tiny"
    continuation = ""
    options = DialectOptions(matching="safe", hints=False, lists_folders=False, empty_old_creates=False)

    def build_request(self, tool: str, a: Mapping[str, Any]) -> Request:
        match tool:
            case "read_file":
                path, first = split_page_path(a["path"])
                return Read(path, LIMITS, first)
            case "write_file":
                return Write(a["path"], a["content"])
            case "edit_file":
                return Edit(a["path"], Replacement(a["old_text"], a["new_text"]))
            case "bash":
                return Run(a["command"], COMMAND_TIMEOUT_SECONDS, messages.MAX_BYTES, first_bytes=messages.MAX_BYTES)
            case _:
                raise unhandled_tool_error(tool)

    def format_result(self, request: Request, result: Result) -> str:
        return messages.format_result(result)

    def format_error(self, tool: str, error: ToolError, *, hints: bool) -> str:
        return messages.format_error(tool, error)


def split_page_path(path: str) -> tuple[str, int | None]:
    """A path and the line from which it is read: the source has no argument for that, and cuts every page."""
    name, mark, line = path.rpartition(messages.PAGE_MARK)
    return (name, int(line)) if mark and name and line.isdecimal() and int(line) else (path, None)


dialect = Tiny(__file__)
