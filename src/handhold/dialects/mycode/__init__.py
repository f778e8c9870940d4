"""The dialect `mycode`: four tools that read and search. Every reply is one JSON object with the same members.

Its limits are those of the document: 200 entries, 100 matches, two seconds, 20,000 visited entries, 500 lines by default
and at most 2000.
"""

from collections.abc import Mapping
from typing import Any

from handhold.core.errors import ToolError
from handhold.core.ports.dialect import DialectOptions, ReplyFrame
from handhold.core.requests import Glob, Grep, ListFiles, PageLimits, Read, Request
from handhold.core.results import Reply, Result
from handhold.dialects.arguments import get_count
from handhold.dialects.base import BaseDialect, unhandled_tool_error
from handhold.dialects.mycode import messages
from handhold.dialects.searches import normalize_folder

MAX_ENTRIES, MAX_MATCHES = 200, 100
MAX_PAGE_LINES = 2000
MAX_RESULT_CHARS = 20_000  # characters of search results: the form has them twice, and escaping may double them
MAX_PAGE_CHARS = 120_000  # characters of a page, which the form has once: 2,000 lines of 60
MAX_LINE_CHARS = 2000  # characters of a line of a page
MAX_OFFSET = 10_000


class MyCode(BaseDialect):
    name = "mycode"
    continuation = "Continue with start_line={next}."
    options = DialectOptions(
        matching="exact",
        hints=False,
        search_seconds=2.0,
        max_visited_entries=messages.MAX_VISITED_ENTRIES,
        lists_folders=False,
    )

    def build_request(self, tool: str, a: Mapping[str, Any]) -> Request:
        match tool:
            case "LS":
                offset = get_count(tool, a, "offset", minimum=0, maximum=MAX_OFFSET) or 0
                limit = get_count(tool, a, "limit", maximum=MAX_ENTRIES) or MAX_ENTRIES
                return ListFiles(
                    path=normalize_folder(a.get("path", "")),
                    hidden=a["include_hidden"],
                    ignore=tuple(a.get("ignore", ())),
                    limit=offset + limit,
                    skip=offset,
                    chars=MAX_RESULT_CHARS,
                )
            case "Glob":
                return Glob(
                    pattern=a["pattern"],
                    path=normalize_folder(a.get("path", "")),
                    hidden=a["include_hidden"],
                    ignored=a["include_ignored"],
                    flags_decide=True,
                    limit=get_count(tool, a, "limit", maximum=MAX_ENTRIES) or MAX_ENTRIES,
                    chars=MAX_RESULT_CHARS,
                )
            case "Grep":
                return Grep(
                    pattern=a["pattern"],
                    path=normalize_folder(a.get("path", "")),
                    glob=a.get("include", ""),
                    flags_decide=True,
                    regex=True,
                    ignore_case=not a["case_sensitive"],
                    mode="content",
                    limit=MAX_MATCHES,
                    chars=MAX_RESULT_CHARS,
                )
            case "Read":
                lines = get_count(tool, a, "limit", maximum=MAX_PAGE_LINES) or MAX_PAGE_LINES  # 500 by the schema
                # A limit of the page, not of the request: whatever ends before the file does is partial.
                return Read(
                    a["path"], PageLimits(lines, MAX_LINE_CHARS, MAX_PAGE_CHARS), get_count(tool, a, "start_line")
                )
            case _:
                raise unhandled_tool_error(tool)

    def format_result(self, request: Request, result: Result) -> str:
        return messages.format_result(result)

    def format_error(self, tool: str, error: ToolError, *, hints: bool) -> str:
        return messages.format_error(tool, error)

    def frame(self, reply: Reply, frame: ReplyFrame) -> str:
        return messages.format_reply(reply, frame)


dialect = MyCode(__file__)
