"""The dialect `deepagents`: a family of seven, as the document it comes from describes them.

Lines are counted from 0 where one is asked for, and from 1 where they are shown. A long line goes on in parts, 5.1 and
5.2, which count as lines. Text is searched for as it stands.
"""

from collections.abc import Mapping
from typing import Any

from handhold.core.errors import ToolError
from handhold.core.ports import Traits
from handhold.core.requests import MOST_PAGES, Edit, Glob, Grep, Limits, ListFiles, Read, Request, Run, Write
from handhold.core.results import Ran, Result
from handhold.dialects.arguments import counted, page_runs, seconds
from handhold.dialects.deepagents import words
from handhold.dialects.family import Family, replacement, unknown
from handhold.dialects.searches import ROOM, folder

BUDGET = 80_000  # characters: 20,000 tokens
FRAME = 2_000  # numbers of long lines and the notice that there is more
LIMITS = Limits(lines=2000, line_chars=5000, chars=BUDGET - FRAME, split=True)
TIMEOUT = 120.0  # seconds that a command may take
LISTED, FOUND = 1000, 200
AROUND = 2  # lines before and after a match


class DeepAgents(Family):
    name = "deepagents"
    traits = Traits(matching="exact", hints=False, absolute_paths=True, search_seconds=20.0, lists_folders=False)

    def request(self, tool: str, a: Mapping[str, Any]) -> Request:
        match tool:
            case "read_file":
                offset = counted(tool, a, "offset", least=0) or 0
                return Read(
                    a["file_path"],
                    LIMITS,
                    offset + 1,
                    counted(tool, a, "limit"),
                    pages=page_runs(tool, a, "pages", most=MOST_PAGES),
                )
            case "write_file":
                return Write(a["file_path"], a["content"])
            case "edit_file":
                return Edit(a["file_path"], replacement(a))
            case "ls":
                return ListFiles(path=folder(a["path"]), hidden=True, ignored=True, limit=LISTED, chars=ROOM)
            case "glob":
                return Glob(pattern=a["pattern"], path=folder(a["path"]), hidden=True, limit=FOUND, chars=ROOM)
            case "grep":
                return Grep(
                    pattern=a["pattern"],
                    path=folder(a.get("path", "")),
                    glob=a.get("glob", ""),
                    mode=a["output_mode"],
                    before=AROUND,
                    after=AROUND,
                    hidden=True,
                    limit=FOUND,
                    chars=ROOM,
                )
            case "execute":
                time = seconds(tool, a, "timeout", default=TIMEOUT, most=words.LONGEST)
                return Run(a["command"], time, BUDGET - FRAME)
            case _:
                raise unknown(tool)

    def said(self, request: Request, result: Result) -> str:
        return words.said(result)

    def word_result(self, request: Request, result: Result, call_id: str) -> str:
        return words.ran(result, call_id) if isinstance(result, Ran) else self.said(request, result)

    def refused(self, tool: str, error: ToolError, *, hints: bool) -> str:
        return words.refused(tool, error)


dialect = DeepAgents(__file__)
