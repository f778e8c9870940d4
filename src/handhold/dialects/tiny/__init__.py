"""The dialect `tiny`: four tools, in Chinese, to the letter of the document they come from.

Its numbers stay: eight thousand bytes of a file or of output, thirty seconds for a command. What the document leaves
undone is done all the same: a file is read before it is changed, line endings stay, new lines are indented to fit.
"""

from collections.abc import Mapping
from typing import Any

from handhold.core.errors import ToolError
from handhold.core.ports import Traits
from handhold.core.requests import Edit, Limits, Read, Replacement, Request, Run, Write
from handhold.core.results import Result
from handhold.dialects.family import Family, unknown
from handhold.dialects.tiny import words

LIMITS = Limits(lines=words.MOST + 1, line_chars=words.MOST + 1, chars=words.MOST, ends="byte")
SECONDS = 30.0


class Tiny(Family):
    name = "tiny"
    traits = Traits(matching="safe", hints=False, lists_folders=False)

    def request(self, tool: str, a: Mapping[str, Any]) -> Request:
        match tool:
            case "read_file":
                return Read(a["path"], LIMITS)
            case "write_file":
                return Write(a["path"], a["content"])
            case "edit_file":
                return Edit(a["path"], Replacement(a["old_text"], a["new_text"]))
            case "bash":
                return Run(a["command"], SECONDS, words.MOST, first_bytes=words.MOST)
            case _:
                raise unknown(tool)

    def said(self, request: Request, result: Result) -> str:
        return words.said(result)

    def refused(self, tool: str, error: ToolError, *, hints: bool) -> str:
        return words.refused(tool, error)


dialect = Tiny(__file__)
