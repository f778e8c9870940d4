"""The dialect `claude`: names, schemas and messages to the letter of the document they come from.

Write is in the same manner, in our own words.
"""

from collections.abc import Mapping
from typing import Any

from handhold.core.errors import ToolError
from handhold.core.ports import Traits
from handhold.core.requests import Edit, Limits, MultiEdit, Read, Request, Write
from handhold.core.results import Result
from handhold.dialects.arguments import counted, first_line
from handhold.dialects.claude import words
from handhold.dialects.family import Family, replacement, unknown

LIMITS = Limits(lines=2000, line_chars=2000, chars=60_000, count_rest=True, refuse_long=True, whole_bytes=256 * 1024)


class Claude(Family):
    name = "claude"
    traits = Traits(matching="exact", hints=False)

    def request(self, tool: str, a: Mapping[str, Any]) -> Request:
        match tool:
            case "Read":
                return Read(a["file_path"], LIMITS, first_line(tool, a), counted(tool, a, "limit"))
            case "Write":
                return Write(a["file_path"], a["content"])
            case "Edit":
                return Edit(a["file_path"], replacement(a))
            case "MultiEdit":
                return MultiEdit(a["file_path"], tuple(map(replacement, a["edits"])))
            case _:
                raise unknown(tool)

    def said(self, request: Request, result: Result) -> str:
        return words.said(request, result)

    def refused(self, tool: str, error: ToolError, *, hints: bool) -> str:
        return words.refused(tool, error)


dialect = Claude(__file__)
