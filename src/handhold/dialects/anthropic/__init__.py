"""The dialect `anthropic`: the text editor and the shell whose schemas the vendor's models were trained on.

Names and arguments are those of the vendor's types `text_editor_20250728` and `bash_20250124`, so that an agent can
declare the types and send the calls here.
"""

from collections.abc import Mapping
from typing import Any

from handhold.core.errors import BadArguments, ToolError
from handhold.core.ports.dialect import DialectOptions
from handhold.core.requests import Edit, Insert, PageLimits, Read, Replacement, Request, RestartShell, Run, Write
from handhold.core.results import Result
from handhold.dialects.anthropic import messages
from handhold.dialects.arguments import MISSING, get_count
from handhold.dialects.base import BaseDialect, unhandled_tool_error
from handhold.dialects.formatting import truncate

MAX_REPLY_CHARS = 80_000  # characters: 20,000 tokens
RESERVED_CHARS = 11_000  # notes, line numbers, and the counts of truncated lines
LIMITS = PageLimits(lines=2000, line_chars=2000, chars=MAX_REPLY_CHARS - RESERVED_CHARS)
COMMAND_TIMEOUT_SECONDS = 120.0


class Anthropic(BaseDialect):
    name = "anthropic"
    continuation = "Continue with view_range=[{next}, -1]."
    number_separator = "\t"
    options = DialectOptions(matching="safe", hints=True, absolute_paths=True, shell_persists="exports", folder_depth=2)

    def build_request(self, tool: str, a: Mapping[str, Any]) -> Request:
        match tool:
            case "str_replace_based_edit_tool":
                return build_editor_request(tool, a)
            case "bash":
                if a.get("restart"):
                    return RestartShell()
                return Run(get_required(tool, a, "command"), COMMAND_TIMEOUT_SECONDS, MAX_REPLY_CHARS - RESERVED_CHARS)
            case _:
                raise unhandled_tool_error(tool)

    def format_result(self, request: Request, result: Result) -> str:
        return messages.format_result(request, result)

    def format_error(self, tool: str, error: ToolError, *, hints: bool) -> str:
        return messages.format_error(error, hints=hints)


def build_editor_request(tool: str, a: Mapping[str, Any]) -> Request:
    path = a["path"]
    match a["command"]:
        case "view":
            first, count = get_view_range(tool, a)
            return Read(path, LIMITS, first, count)
        case "create":
            return Write(path, get_required(tool, a, "file_text"))
        case "str_replace":
            return Edit(path, Replacement(get_required(tool, a, "old_str"), a.get("new_str", "")))
        case _:
            text = a.get("insert_text", a.get("new_str"))
            if text is None:
                raise BadArguments(tool, "insert_text", MISSING, "the text to insert")
            line = get_count(tool, a, "insert_line", minimum=0)
            if line is None:
                raise BadArguments(tool, "insert_line", MISSING, "a whole number of at least 0")
            return Insert(path, line, text)


def get_view_range(tool: str, a: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """The first line and the number of lines, from `view_range`."""
    match a.get("view_range"):
        case None | []:
            return None, None
        case [int(first), -1] if first >= 1:
            return first, None
        case [int(first), int(last)] if 1 <= first <= last:
            return first, last - first + 1
        case other:
            wanted = "two line numbers, the first at least 1, the second not smaller, or -1 for the end of the file"
            raise BadArguments(tool, "view_range", truncate(str(other), 60), wanted)


def get_required(tool: str, a: Mapping[str, Any], name: str) -> str:
    """An argument that one command of a tool requires and another does not."""
    if name not in a:
        raise BadArguments(tool, name, MISSING, "a string")
    return a[name]


dialect = Anthropic(__file__)
