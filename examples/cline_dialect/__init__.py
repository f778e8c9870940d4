"""A dialect of one's own: six tools under the names that a known editor extension gives them.

from examples.cline_dialect import dialect
box = Toolbox.open("path/to/repo", dialect=dialect)
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from handhold.core.errors import BadArguments, NoMatch, ToolError
from handhold.core.ports import Traits
from handhold.core.requests import Grep, Limits, ListFiles, MultiEdit, Read, Replacement, Request, Run, Write
from handhold.core.results import Edited, Grepped, Listed, Ran, Result, Shown, Written
from handhold.dialects import commands, media, notebooks
from handhold.dialects.family import Family, unknown
from handhold.dialects.hints import hinted
from handhold.dialects.plain import plain
from handhold.dialects.searches import ROOM, Manner, folder, miss, notes, rows, tree

LIMITS = Limits(lines=2000, line_chars=2000, chars=69_000)
BLOCK = re.compile(r"^[-<]{5,} SEARCH\n(.*?)^={5,}\n(.*?)^[+>]{5,} REPLACE$", re.MULTILINE | re.DOTALL)
WAYS = notebooks.Ways(rest="", inside="; search_files finds lines in it", by_cells=False)
MANNER = Manner("", "Search in a smaller directory, or with a file_pattern.", "", "", "", "", "", "")


class Cline(Family):
    name = "cline"
    traits = Traits(matching="safe", hints=True)

    def request(self, tool: str, a: Mapping[str, Any]) -> Request:
        match tool:
            case "list_files":
                return ListFiles(path=folder(a["path"]), depth=10 if a["recursive"] else 1, limit=200, chars=ROOM)
            case "search_files":
                where = {"path": folder(a["path"]), "glob": a.get("file_pattern", "")}
                return Grep(
                    pattern=a["regex"], regex=True, mode="content", before=1, after=1, limit=300, chars=ROOM, **where
                )
            case "read_file":
                return Read(a["path"], LIMITS)
            case "write_to_file":
                return Write(a["path"], a["content"])
            case "replace_in_file":
                return MultiEdit(a["path"], tuple(blocks(tool, a["diff"])))
            case "execute_command":
                return Run(a["command"], 120.0, ROOM)
            case _:
                raise unknown(tool)

    def said(self, request: Request, result: Result) -> str:
        if isinstance(result, media.Media):
            return media.shown(result, WAYS)
        match result:
            case Shown():
                return "\n".join(line.text for line in result.lines) or "(The file is empty.)"
            case Written() | Edited():
                return f"The content was successfully saved to {result.path}."
            case Ran():
                return commands.ran(result)
            case Listed() | Grepped():
                found = miss(result) if not result.search.shown else "\n".join(shown(result))
                return hinted(found, notes(result, MANNER))
            case _:
                raise AssertionError(f"no tool of this dialect gives {type(result).__name__}")

    def refused(self, tool: str, error: ToolError, *, hints: bool) -> str:
        match error:
            case NoMatch() if tool == "replace_in_file":
                return f"A SEARCH block does not match anything in {error.path}. Nothing was changed."
            case _:
                return plain(error)


def blocks(tool: str, diff: str) -> Iterator[Replacement]:
    found = BLOCK.findall(diff + "\n")
    if not found:
        raise BadArguments(tool, "diff", "without a whole block", "SEARCH/REPLACE blocks")
    for old, new in found:
        yield Replacement(old, new)


def shown(result: Listed | Grepped) -> Iterator[str]:
    return tree(result) if isinstance(result, Listed) else rows(result)


dialect = Cline(__file__)
