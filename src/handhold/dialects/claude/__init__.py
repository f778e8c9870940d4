"""The dialect `claude`: names, schemas and messages to the letter of the document they come from.

Write is in the same manner, in our own words.
"""

from collections.abc import Mapping
from typing import Any

from handhold.core.errors import ToolError
from handhold.core.ports import Traits
from handhold.core.requests import Edit, Limits, MultiEdit, Read, Replacement, Request, Write
from handhold.core.results import Result, ToolSpec
from handhold.dialects.arguments import Specs, counted, first_line
from handhold.dialects.claude import words
from handhold.dialects.hints import hinted, notes_about, notes_on
from handhold.dialects.quoting import sendable

LIMITS = Limits(lines=2000, line_chars=2000, chars=60_000, refuse_long=True, whole_bytes=256 * 1024)


class Claude:
    name = "claude"
    traits = Traits(matching="exact", hints=False)

    def __init__(self) -> None:
        self._specs = Specs(__file__)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return self._specs.tools

    def decode(self, tool: str, arguments: Mapping[str, Any] | str) -> Request:
        a = self._specs.fit(tool, arguments).values
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
                raise AssertionError(f"{tool} is in specs.json and not here")

    def repaired(self, tool: str, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        """What `decode` mends in these arguments."""
        return self._specs.fit(tool, arguments).repaired

    def encode(self, tool: str, request: Request, result: Result, *, hints: bool) -> str:
        return sendable(hinted(words.said(request, result), notes_on(result) if hints else ()))

    def refuse(self, tool: str, error: ToolError, *, hints: bool) -> str:
        return sendable(hinted(words.refused(tool, error), notes_about(error) if hints else ()))


def replacement(a: Mapping[str, Any]) -> Replacement:
    return Replacement(a["old_string"], a["new_string"], every=a["replace_all"])


dialect = Claude()
