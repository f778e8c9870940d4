"""The dialect `handhold`: the default, for models without a family of their own and for people.

Paths are relative to the first root or absolute; what was left out, and how to get it, is always said.
"""

from collections.abc import Mapping
from typing import Any

from handhold.core.errors import ToolError
from handhold.core.ports import Traits
from handhold.core.requests import Edit, Limits, MultiEdit, Patch, Read, Request, Write
from handhold.core.results import Result
from handhold.core.text.patch import parse
from handhold.dialects.arguments import counted, first_line
from handhold.dialects.family import Family, replacement, unknown
from handhold.dialects.handhold import words

BUDGET = 80_000  # characters: 20,000 tokens
FRAME = 11_000  # notes (at most 6,000), the counts of cut lines, line numbers of more than six digits
LIMITS = Limits(lines=2000, line_chars=2000, chars=BUDGET - FRAME)


class Handhold(Family):
    name = "handhold"
    traits = Traits(matching="safe", hints=True)

    def request(self, tool: str, a: Mapping[str, Any]) -> Request:
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
                raise unknown(tool)

    def said(self, request: Request, result: Result) -> str:
        return words.said(result)

    def refused(self, tool: str, error: ToolError, *, hints: bool) -> str:
        return words.refused(tool, error, hints=hints)


dialect = Handhold(__file__)
