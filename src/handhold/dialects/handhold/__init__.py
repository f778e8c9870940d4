"""The dialect `handhold`: the default, for models without a family of their own and for people.

Paths are relative to the first root or absolute; what was left out, and how to get it, is always said.
"""

from collections.abc import Mapping
from typing import Any

from handhold.core.errors import ToolError
from handhold.core.ports import Traits
from handhold.core.requests import Edit, Limits, MultiEdit, Patch, Read, Replacement, Request, Write
from handhold.core.results import Result, ToolSpec
from handhold.core.text.patch import parse
from handhold.dialects.arguments import Specs, counted, first_line
from handhold.dialects.handhold import words
from handhold.dialects.hints import hinted, notes_about, notes_on
from handhold.dialects.quoting import sendable

BUDGET = 80_000  # characters: 20,000 tokens
FRAME = 11_000  # notes (at most 6,000), the counts of cut lines, line numbers of more than six digits
LIMITS = Limits(lines=2000, line_chars=2000, chars=BUDGET - FRAME)


class Handhold:
    name = "handhold"
    traits = Traits(matching="safe", hints=True)

    def __init__(self) -> None:
        self._specs = Specs(__file__)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return self._specs.tools

    def decode(self, tool: str, arguments: Mapping[str, Any] | str) -> Request:
        a = self._specs.fit(tool, arguments).values
        match tool:
            case "read_file":
                return Read(a["path"], LIMITS, first_line(tool, a), counted(tool, a, "limit"))
            case "write_file":
                return Write(a["path"], a["content"])
            case "edit_file":
                return Edit(a["path"], replacement(a))
            case "multi_edit":
                return MultiEdit(a["path"], tuple(map(replacement, a["edits"])))
            case "apply_patch":
                return Patch(parse(a["patch"]))
            case _:
                raise AssertionError(f"{tool} is in specs.json and not here")

    def repaired(self, tool: str, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        """What `decode` mends in these arguments."""
        return self._specs.fit(tool, arguments).repaired

    def encode(self, tool: str, request: Request, result: Result, *, hints: bool) -> str:
        return sendable(hinted(words.said(result), notes_on(result) if hints else ()))

    def refuse(self, tool: str, error: ToolError, *, hints: bool) -> str:
        return sendable(hinted(words.refused(tool, error, hints=hints), notes_about(error) if hints else ()))


def replacement(a: Mapping[str, Any]) -> Replacement:
    return Replacement(a["old_string"], a["new_string"], every=a["replace_all"])


dialect = Handhold()
