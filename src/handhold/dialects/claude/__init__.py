"""The dialect `claude`: names, schemas and messages to the letter of the document they come from.

Its repeated sentence, "line number + tab" where the reply has an arrow, and the reminder after each read are the source's
own words and stay. `hints=True` adds notes on what to do next. The dialect `anthropic` has the tools of the vendor's API
instead. Write, Glob, Grep, LS and the commands follow the same style, in our own words.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from handhold.core.errors import BadArguments, ToolError
from handhold.core.ports.dialect import DialectOptions
from handhold.core.problems import Problems
from handhold.core.requests import (
    Edit,
    Glob,
    Grep,
    JobOutput,
    JobStop,
    ListFiles,
    MultiEdit,
    NotebookEdit,
    PageLimits,
    Read,
    Request,
    Run,
    Write,
)
from handhold.core.results import Result
from handhold.dialects.arguments import MISSING, describe_value, get_count, get_first_line, get_seconds
from handhold.dialects.base import BaseDialect, build_replacement, unhandled_tool_error
from handhold.dialects.claude import messages
from handhold.dialects.searches import MAX_CONTEXT_LINES, MAX_SEARCH_CHARS, normalize_folder

LIMITS = PageLimits(
    lines=2000, line_chars=2000, chars=60_000, count_rest=True, refuse_long=True, max_full_read_bytes=256 * 1024
)
DEFAULT_SEARCH_LIMIT, MAX_SEARCH_LIMIT = 100, 1000  # files or lines of a search, and the maximum; entries of a listing
FILE_TYPE_GLOBS = {
    "c": "*.[ch]",
    "cpp": "*.{cc,cpp,cxx,h,hh,hpp,hxx,inl}",
    "cs": "*.cs",
    "css": "*.{css,scss}",
    "go": "*.go",
    "html": "*.{htm,html}",
    "java": "*.java",
    "js": "*.{js,jsx,mjs,cjs}",
    "json": "*.json",
    "kotlin": "*.{kt,kts}",
    "lua": "*.lua",
    "md": "*.{md,markdown}",
    "php": "*.php",
    "py": "*.{py,pyi}",
    "ruby": "*.rb",
    "rust": "*.rs",
    "sh": "*.{sh,bash,zsh}",
    "sql": "*.sql",
    "swift": "*.swift",
    "toml": "*.toml",
    "ts": "*.{ts,tsx,mts,cts}",
    "yaml": "*.{yaml,yml}",
}
"""The globs of Grep's types."""

MAX_OUTPUT_CHARS = 80_000  # characters of a command's output: 20,000 tokens
DEFAULT_TIMEOUT_SECONDS, MAX_TIMEOUT_SECONDS = 120.0, 600.0  # for a command
BACKGROUND_TIMEOUT_SECONDS = 3600.0


class Claude(BaseDialect):
    name = "claude"
    options = DialectOptions(
        matching="exact",
        hints=False,
        lists_folders=False,
        first_cell=0,
        absolute_paths=True,
        shell_persists="folder",
    )

    def build_request(self, tool: str, a: Mapping[str, Any]) -> Request:
        match tool:
            case "Read":
                return Read(a["file_path"], LIMITS, get_first_line(tool, a), get_count(tool, a, "limit"))
            case "Write":
                return Write(a["file_path"], a["content"])
            case "Edit":
                return Edit(a["file_path"], build_replacement(a))
            case "MultiEdit":
                return MultiEdit(a["file_path"], tuple(map(build_replacement, a["edits"])))
            case "NotebookEdit":
                return build_notebook_edit(a)
            case "Bash":
                background = a["run_in_background"]
                default = BACKGROUND_TIMEOUT_SECONDS if background else DEFAULT_TIMEOUT_SECONDS
                time = get_seconds(
                    tool, a, "timeout", default=default, maximum=max(default, MAX_TIMEOUT_SECONDS), unit=0.001
                )
                return Run(a["command"], time, MAX_OUTPUT_CHARS, background=background)
            case "BashOutput":
                return JobOutput(a["bash_id"], MAX_OUTPUT_CHARS)
            case "KillShell":
                return JobStop(a["shell_id"])
            case "Glob":
                return Glob(pattern=a["pattern"], **get_search_fields(a, DEFAULT_SEARCH_LIMIT))
            case "Grep":
                return build_grep(a)
            case "LS":
                return ListFiles(ignore=tuple(a.get("ignore", ())), **get_search_fields(a, MAX_SEARCH_LIMIT))
            case _:
                raise unhandled_tool_error(tool)

    def format_result(self, request: Request, result: Result) -> str:
        return messages.format_result(request, result)

    def format_problems(self, problems: Problems) -> Iterable[str]:
        return messages.format_problems(problems)

    def format_error(self, tool: str, error: ToolError, *, hints: bool) -> str:
        return messages.format_error(tool, error)


def build_notebook_edit(a: Mapping[str, Any]) -> NotebookEdit:
    """Without a cell id, a new cell goes to the end; the source is not used to delete a cell."""
    cell, source, kind = a.get("cell_id", ""), a["new_source"], a.get("cell_type")
    match a["edit_mode"]:
        case "insert" if kind is None:
            raise BadArguments("NotebookEdit", "cell_type", MISSING, "code or markdown, to insert a cell")
        case "insert":
            return NotebookEdit(a["notebook_path"], "insert_after" if cell else "append", cell, source, kind)
        case _ if not cell:
            raise BadArguments("NotebookEdit", "cell_id", MISSING, "the ID of a cell, as Read shows it")
        case "delete":
            return NotebookEdit(a["notebook_path"], "delete", cell)
        case _:
            return NotebookEdit(a["notebook_path"], "replace", cell, source, kind)


def build_grep(a: Mapping[str, Any]) -> Grep:
    if "glob" in a and "type" in a:
        raise BadArguments("Grep", "type", describe_value(a["type"]), "left out when `glob` is given")
    limit = get_count("Grep", a, "head_limit", minimum=0)
    around = get_context_lines(a, "-C") or 0
    before, after = get_context_lines(a, "-B"), get_context_lines(a, "-A")
    return Grep(
        pattern=a["pattern"],
        glob=FILE_TYPE_GLOBS[a["type"]] if "type" in a else a.get("glob", ""),
        regex=True,
        ignore_case=a["-i"],
        mode=a["output_mode"],
        before=around if before is None else before,
        after=around if after is None else after,
        **get_search_fields(a, DEFAULT_SEARCH_LIMIT if limit is None else limit or MAX_SEARCH_LIMIT),
    )


def get_context_lines(a: Mapping[str, Any], name: str) -> int | None:
    return get_count("Grep", a, name, minimum=0, maximum=MAX_CONTEXT_LINES)


def get_search_fields(a: Mapping[str, Any], limit: int) -> dict[str, Any]:
    """The arguments of all three searches. This family has no argument for hidden files, and expects to see them."""
    return {
        "path": normalize_folder(a.get("path", "")),
        "hidden": True,
        "limit": min(limit, MAX_SEARCH_LIMIT),
        "chars": MAX_SEARCH_CHARS,
    }


dialect = Claude(__file__)
