"""A custom dialect: six tools with the names that a well-known editor extension uses.

from examples.cline_dialect import dialect
box = Toolbox.open("path/to/repo", dialect=dialect)
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from handhold.core.errors import BadArguments, NoMatch, ToolError
from handhold.core.ports.dialect import DialectOptions
from handhold.core.requests import Grep, ListFiles, MultiEdit, PageLimits, Read, Replacement, Request, Run, Write
from handhold.core.results import EditResult, GrepResult, ListResult, Result, RunResult, TextResult, WriteResult
from handhold.dialects import commands, media, notebooks, searches
from handhold.dialects.base import BaseDialect, unhandled_tool_error
from handhold.dialects.error_messages import format_plain_error
from handhold.dialects.hints import append_notes

LIMITS = PageLimits(lines=2000, line_chars=2000, chars=69_000)
BLOCK = re.compile(r"^[-<]{5,} SEARCH\n(.*?)^={5,}\n(.*?)^[+>]{5,} REPLACE$", re.MULTILINE | re.DOTALL)
MAX_CHARS = searches.MAX_SEARCH_CHARS
CELLS = notebooks.NotebookPhrases("", "; use search_files to search it", can_edit_cells=False)
SEARCHES = searches.SearchPhrases("", "Search in a smaller directory, or with a file_pattern.", "", "", "", "", "", "")


class Cline(BaseDialect):
    name = "cline"
    options = DialectOptions(matching="safe", hints=True)

    def build_request(self, tool: str, a: Mapping[str, Any]) -> Request:
        match tool:
            case "list_files":
                folder = searches.normalize_folder(a["path"])
                return ListFiles(path=folder, depth=10 if a["recursive"] else 1, limit=200, chars=MAX_CHARS)
            case "search_files":
                where = {"path": searches.normalize_folder(a["path"]), "glob": a.get("file_pattern", "")}
                where |= {"mode": "content", "before": 1, "after": 1}
                return Grep(pattern=a["regex"], regex=True, limit=300, chars=MAX_CHARS, **where)
            case "read_file":
                return Read(a["path"], LIMITS)
            case "write_to_file":
                return Write(a["path"], a["content"])
            case "replace_in_file":
                return MultiEdit(a["path"], tuple(blocks(tool, a["diff"])))
            case "execute_command":
                return Run(a["command"], 120.0, MAX_CHARS)
            case _:
                raise unhandled_tool_error(tool)

    def format_result(self, request: Request, result: Result) -> str:
        if isinstance(result, media.Media):
            return media.format_media(result, CELLS)
        match result:
            case TextResult():
                return "\n".join(line.text for line in result.lines) or "(The file is empty.)"
            case WriteResult() | EditResult():
                return f"The content was successfully saved to {result.path}."
            case RunResult():
                return commands.format_command(result)
            case ListResult() | GrepResult():
                lines = format_found(result) if result.summary.shown_count else (searches.format_empty_result(result),)
                return append_notes("\n".join(lines), searches.format_search_notes(result, SEARCHES))
            case _:
                raise AssertionError(f"no tool of this dialect gives {type(result).__name__}")

    def format_error(self, tool: str, error: ToolError, *, hints: bool) -> str:
        match error:
            case NoMatch() if tool == "replace_in_file":
                return f"A SEARCH block does not match anything in {error.path}. Nothing was changed."
            case _:
                return format_plain_error(error)


def blocks(tool: str, diff: str) -> Iterator[Replacement]:
    found = BLOCK.findall(diff + "\n")
    if not found:
        raise BadArguments(tool, "diff", "without a whole block", "SEARCH/REPLACE blocks")
    for old, new in found:
        yield Replacement(old, new)


def format_found(result: ListResult | GrepResult) -> Iterator[str]:
    return searches.format_tree(result) if isinstance(result, ListResult) else searches.format_matches(result)


dialect = Cline(__file__)
