"""The dialect `anthropic`: the text editor and the shell whose schemas the vendor's models were trained on.

Their types are part of the vendor's interface (`text_editor_20250728`, `bash_20250124`); names and arguments here are
those, so that an agent may declare the types and still send the calls through.
"""

from collections.abc import Mapping
from typing import Any

from handhold.core.errors import BadArguments, ToolError
from handhold.core.ports.dialect import DialectOptions
from handhold.core.requests import Edit, Insert, PageLimits, Read, Replacement, Request, RestartShell, Run, Write
from handhold.core.results import Result
from handhold.dialects.anthropic import messages
from handhold.dialects.arguments import describe_value, get_count
from handhold.dialects.base import BaseDialect, unhandled_tool_error

MAX_REPLY_CHARS = 80_000  # characters: 20,000 tokens
RESERVED_CHARS = 11_000  # notes, line numbers, and the counts of cut lines
LIMITS = PageLimits(lines=2000, line_chars=2000, chars=MAX_REPLY_CHARS - RESERVED_CHARS)
COMMAND_TIMEOUT_SECONDS = 120.0


class Anthropic(BaseDialect):
    name = "anthropic"
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
                raise BadArguments(tool, "insert_text", "missing", "the text to insert")
            line = get_count(tool, a, "insert_line", minimum=0)
            if line is None:
                raise BadArguments(tool, "insert_line", "missing", "a whole number from 0 on")
            return Insert(path, line, text)


def get_view_range(tool: str, a: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """The first line and how many, from `view_range`."""
    match a.get("view_range"):
        case None | []:
            return None, None
        case [int(first), -1] if first >= 1:
            return first, None
        case [int(first), int(last)] if 1 <= first <= last:
            return first, last - first + 1
        case other:
            wanted = "two line numbers, the first from 1 on, the second not before it or -1"
            raise BadArguments(tool, "view_range", describe_value(other), wanted)


def get_required(tool: str, a: Mapping[str, Any], name: str) -> str:
    """What one command of a tool needs and another does not."""
    if name not in a:
        raise BadArguments(tool, name, "missing", "a string")
    return a[name]


dialect = Anthropic(__file__)
