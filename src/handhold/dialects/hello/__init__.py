"""The dialect `hello`: three tools, in Chinese, to the letter of the document they come from, and the `bash` of its registry.

A write clears the mark of having been read, so that the next one needs a new look; an edit keeps it.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from handhold.core.errors import BadArguments, NoChange, ToolError
from handhold.core.ports import Traits
from handhold.core.requests import Edit, Limits, Read, Replacement, Request, Run, Write
from handhold.core.results import Result
from handhold.dialects.family import Family, unknown
from handhold.dialects.hello import words

SECONDS = 120.0  # for a command; the source has no number
MOST_LINES = words.MOST // 8  # that a page has room for, since each has at least a number, an arrow and an end
LIMITS = Limits(lines=words.LINES, line_chars=words.MOST, chars=words.MOST, ends="character")


class Hello(Family):
    name = "hello"
    traits = Traits(matching="exact", hints=False, mark_after_write=False, absolute_paths=True, lists_folders=False)

    def request(self, tool: str, a: Mapping[str, Any]) -> Request:
        if tool == "bash":
            return Run(a["command"], SECONDS, words.MOST_OUTPUT, first_bytes=words.MOST_OUTPUT)
        path = a["file_path"]
        if not path.strip():
            raise BadArguments(tool, "file_path", "empty", "a path")
        match tool:
            case "read_file":
                limit = least_one(a.get("limit"))
                limits = replace(LIMITS, lines=min(max(limit or 0, words.LINES), MOST_LINES))
                return Read(path, limits, max(a.get("offset", 1), 1), limit)
            case "write_file":
                return Write(path, a["content"])
            case "edit_file" if a["old_string"] == a["new_string"]:
                raise NoChange(path)  # which the source looks at before it looks at the file
            case "edit_file":
                return Edit(path, Replacement(a["old_string"], a["new_string"], every=a.get("replace_all", False)))
            case _:
                raise unknown(tool)

    def said(self, request: Request, result: Result) -> str:
        return words.said(request, result)

    def refused(self, tool: str, error: ToolError, *, hints: bool) -> str:
        return words.refused(tool, error)


def least_one(limit: int | None) -> int | None:
    """The source takes less than one line as all of them."""
    return limit if limit is not None and limit >= 1 else None


dialect = Hello(__file__)
