"""The dialect `mycode`: four tools to look around with. Every reply is one JSON object with the same members.

Its numbers are the document's: 200 entries at most, 100 matches, two seconds, 20,000 visited entries, 500 lines and never
more than 2000.
"""

from collections.abc import Mapping
from typing import Any

from handhold.core.errors import ToolError
from handhold.core.ports import Frame, Traits
from handhold.core.requests import Glob, Grep, Limits, ListFiles, Read, Request
from handhold.core.results import Reply, Result
from handhold.dialects.arguments import counted
from handhold.dialects.family import Family, unknown
from handhold.dialects.mycode import words
from handhold.dialects.searches import folder

ENTRIES, MATCHES = 200, 100
LINES, MOST_LINES = 500, 2000
ROOM = 20_000  # characters of what is found: it stands in the form twice, and each may take two there
LIMITS = Limits(lines=MOST_LINES, line_chars=2000, chars=ROOM)
DEEPEST_OFFSET = 10_000


class MyCode(Family):
    name = "mycode"
    traits = Traits(
        matching="exact", hints=False, search_seconds=2.0, visited_entries=words.MOST_VISITED, lists_folders=False
    )

    def request(self, tool: str, a: Mapping[str, Any]) -> Request:
        match tool:
            case "LS":
                offset = counted(tool, a, "offset", least=0, most=DEEPEST_OFFSET) or 0
                limit = counted(tool, a, "limit", most=ENTRIES) or ENTRIES
                return ListFiles(
                    path=folder(a.get("path", "")),
                    hidden=a["include_hidden"],
                    ignore=tuple(a.get("ignore", ())),
                    limit=offset + limit,
                    skip=offset,
                    chars=ROOM,
                )
            case "Glob":
                return Glob(
                    pattern=a["pattern"],
                    path=folder(a.get("path", "")),
                    hidden=a["include_hidden"],
                    ignored=a["include_ignored"],
                    limit=counted(tool, a, "limit", most=ENTRIES) or ENTRIES,
                    chars=ROOM,
                )
            case "Grep":
                return Grep(
                    pattern=a["pattern"],
                    path=folder(a.get("path", "")),
                    glob=a.get("include", ""),
                    regex=True,
                    ignore_case=not a["case_sensitive"],
                    mode="content",
                    limit=MATCHES,
                    chars=ROOM,
                )
            case "Read":
                start = counted(tool, a, "start_line")
                return Read(a["path"], LIMITS, start, counted(tool, a, "limit", most=MOST_LINES))
            case _:
                raise unknown(tool)

    def said(self, request: Request, result: Result) -> str:
        return words.said(result)

    def refused(self, tool: str, error: ToolError, *, hints: bool) -> str:
        return words.refused(tool, error)

    def framed(self, reply: Reply, frame: Frame) -> str:
        return words.framed(reply, frame)


dialect = MyCode(__file__)
