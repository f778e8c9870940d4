"""The dialect `tiny`: four tools, in Chinese, to the letter of the document they come from.

Its limits are those of the document: 8000 bytes of a file or of output, 30 seconds for a command. Three rules go beyond
it: a file must be read before it is changed, line endings are kept, and new lines are indented to fit.
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
    options = DialectOptions(matching="safe", hints=False, lists_folders=False)

    def build_request(self, tool: str, a: Mapping[str, Any]) -> Request:
        match tool:
            case "read_file":
                return Read(a["path"], LIMITS)
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


dialect = Tiny(__file__)
