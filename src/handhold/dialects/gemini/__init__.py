"""The dialect `gemini`: the tools that the vendor's own command line gives its models.

An offset counts lines from 0. An edit states how many occurrences it expects, and the number is checked.
"""

from collections.abc import Mapping
from typing import Any

from handhold.core.errors import ToolError
from handhold.core.ports.dialect import DialectOptions
from handhold.core.requests import Edit, Glob, Grep, ListFiles, PageLimits, Read, Replacement, Request, Run, Write
from handhold.core.results import Result
from handhold.dialects.arguments import get_count
from handhold.dialects.base import BaseDialect, unhandled_tool_error
from handhold.dialects.commands import prepend_cd
from handhold.dialects.gemini import messages
from handhold.dialects.searches import MAX_SEARCH_CHARS, normalize_folder

MAX_REPLY_CHARS = 80_000  # characters: 20,000 tokens
RESERVED_CHARS = 11_000  # notes, and the counts of truncated lines
LIMITS = PageLimits(lines=2000, line_chars=2000, chars=MAX_REPLY_CHARS - RESERVED_CHARS)
COMMAND_TIMEOUT_SECONDS = 300.0
MAX_LISTED_ENTRIES, MAX_SEARCH_RESULTS = 1000, 200


class Gemini(BaseDialect):
    name = "gemini"
    continuation = "Continue with offset={skip}, counted from 0."
    options = DialectOptions(matching="safe", hints=True, absolute_paths=True, lists_folders=False)

    def build_request(self, tool: str, a: Mapping[str, Any]) -> Request:
        match tool:
            case "read_file":
                offset = get_count(tool, a, "offset", minimum=0)
                return Read(a["file_path"], LIMITS, None if offset is None else offset + 1, get_count(tool, a, "limit"))
            case "write_file":
                return Write(a["file_path"], a["content"])
            case "replace":
                count = get_count(tool, a, "expected_replacements") or 1
                every = count > 1 or a.get("allow_multiple", False)
                return Edit(
                    a["file_path"],
                    Replacement(
                        a["old_string"], a["new_string"], every=every, expected_count=count if count > 1 else None
                    ),
                )
            case "list_directory":
                ignored = a.get("file_filtering_options", {}).get("respect_git_ignore") is False
                return ListFiles(
                    path=normalize_folder(a["dir_path"]),
                    hidden=True,
                    ignored=ignored,
                    ignore=tuple(a.get("ignore", ())),
                    limit=MAX_LISTED_ENTRIES,
                    chars=MAX_SEARCH_CHARS,
                )
            case "glob":
                return Glob(
                    pattern=a["pattern"] if a["case_sensitive"] else messages.make_case_insensitive(a["pattern"]),
                    path=normalize_folder(a.get("dir_path", "")),
                    ignored=not a["respect_git_ignore"],
                    hidden=True,
                    limit=MAX_SEARCH_RESULTS,
                    chars=MAX_SEARCH_CHARS,
                )
            case "search_file_content":
                return Grep(
                    pattern=a["pattern"],
                    path=normalize_folder(a.get("dir_path", "")),
                    glob=a.get("include", ""),
                    regex=True,
                    ignore_case=True,
                    mode="content",
                    hidden=True,
                    limit=MAX_SEARCH_RESULTS,
                    chars=MAX_SEARCH_CHARS,
                )
            case "run_shell_command":
                return Run(
                    prepend_cd(a.get("dir_path", ""), a["command"]),
                    COMMAND_TIMEOUT_SECONDS,
                    MAX_REPLY_CHARS - RESERVED_CHARS,
                )
            case _:
                raise unhandled_tool_error(tool)

    def format_result(self, request: Request, result: Result) -> str:
        return messages.format_result(result)

    def format_error(self, tool: str, error: ToolError, *, hints: bool) -> str:
        return messages.format_error(error, hints=hints)


dialect = Gemini(__file__)
