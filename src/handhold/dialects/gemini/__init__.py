"""The dialect `gemini`: the tools that the vendor's own command line gives its models.

Lines are counted from 0 where one is asked for. How often a text must stand in a file is said beforehand, and checked.
"""

from collections.abc import Mapping
from typing import Any

from handhold.core.errors import ToolError
from handhold.core.ports import Traits
from handhold.core.requests import Edit, Glob, Grep, Limits, ListFiles, Read, Replacement, Request, Run, Write
from handhold.core.results import Result
from handhold.dialects.arguments import counted
from handhold.dialects.commands import standing_in
from handhold.dialects.family import Family, unknown
from handhold.dialects.gemini import words
from handhold.dialects.searches import ROOM, folder

BUDGET = 80_000  # characters: 20,000 tokens
FRAME = 11_000  # notes, and the counts of cut lines
LIMITS = Limits(lines=2000, line_chars=2000, chars=BUDGET - FRAME)
SECONDS = 300.0
LISTED, FOUND = 1000, 200


class Gemini(Family):
    name = "gemini"
    traits = Traits(matching="safe", hints=True, absolute_paths=True, lists_folders=False)

    def request(self, tool: str, a: Mapping[str, Any]) -> Request:
        match tool:
            case "read_file":
                offset = counted(tool, a, "offset", least=0)
                return Read(a["file_path"], LIMITS, None if offset is None else offset + 1, counted(tool, a, "limit"))
            case "write_file":
                return Write(a["file_path"], a["content"])
            case "replace":
                count = counted(tool, a, "expected_replacements") or 1
                every = count > 1 or a.get("allow_multiple", False)
                return Edit(
                    a["file_path"],
                    Replacement(a["old_string"], a["new_string"], every=every, count=count if count > 1 else None),
                )
            case "list_directory":
                ignored = a.get("file_filtering_options", {}).get("respect_git_ignore") is False
                return ListFiles(
                    path=folder(a["dir_path"]),
                    hidden=True,
                    ignored=ignored,
                    ignore=tuple(a.get("ignore", ())),
                    limit=LISTED,
                    chars=ROOM,
                )
            case "glob":
                return Glob(
                    pattern=a["pattern"] if a["case_sensitive"] else words.any_case(a["pattern"]),
                    path=folder(a.get("dir_path", "")),
                    ignored=not a["respect_git_ignore"],
                    hidden=True,
                    limit=FOUND,
                    chars=ROOM,
                )
            case "search_file_content":
                return Grep(
                    pattern=a["pattern"],
                    path=folder(a.get("dir_path", "")),
                    glob=a.get("include", ""),
                    regex=True,
                    ignore_case=True,
                    mode="content",
                    hidden=True,
                    limit=FOUND,
                    chars=ROOM,
                )
            case "run_shell_command":
                return Run(standing_in(a.get("dir_path", ""), a["command"]), SECONDS, BUDGET - FRAME)
            case _:
                raise unknown(tool)

    def said(self, request: Request, result: Result) -> str:
        return words.said(result)

    def refused(self, tool: str, error: ToolError, *, hints: bool) -> str:
        return words.refused(error, hints=hints)


dialect = Gemini(__file__)
