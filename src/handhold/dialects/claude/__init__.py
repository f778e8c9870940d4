"""The dialect `claude`: names, schemas and messages to the letter of the document they come from.

Write, Glob, Grep, LS and the commands are in the same manner, in our own words.
"""

from collections.abc import Mapping
from typing import Any

from handhold.core.errors import BadArguments, ToolError
from handhold.core.ports import Traits
from handhold.core.requests import (
    Edit,
    Glob,
    Grep,
    JobOutput,
    JobStop,
    Limits,
    ListFiles,
    MultiEdit,
    NotebookEdit,
    Read,
    Request,
    Run,
    Write,
)
from handhold.core.results import Result
from handhold.dialects.arguments import counted, first_line, seconds
from handhold.dialects.claude import words
from handhold.dialects.family import Family, replacement, unknown
from handhold.dialects.searches import MOST_CONTEXT, ROOM, folder

LIMITS = Limits(lines=2000, line_chars=2000, chars=60_000, count_rest=True, refuse_long=True, whole_bytes=256 * 1024)
FOUND, MOST = 100, 1000  # files or lines of a search, and never more; entries of a listing
TYPES = {
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
"""The types of Grep, as the globs that they stand for."""

OUTPUT = 80_000  # characters of a command's output: 20,000 tokens
TIMEOUT, LONGEST = 120.0, 600.0  # seconds that a command may take
IN_BACKGROUND = 3600.0


class Claude(Family):
    name = "claude"
    traits = Traits(
        matching="exact",
        hints=False,
        lists_folders=False,
        first_cell=0,
        absolute_paths=True,
        shell_lasts="folder",
    )

    def request(self, tool: str, a: Mapping[str, Any]) -> Request:
        match tool:
            case "Read":
                return Read(a["file_path"], LIMITS, first_line(tool, a), counted(tool, a, "limit"))
            case "Write":
                return Write(a["file_path"], a["content"])
            case "Edit":
                return Edit(a["file_path"], replacement(a))
            case "MultiEdit":
                return MultiEdit(a["file_path"], tuple(map(replacement, a["edits"])))
            case "NotebookEdit":
                return notebook_edit(a)
            case "Bash":
                background = a["run_in_background"]
                default = IN_BACKGROUND if background else TIMEOUT
                time = seconds(tool, a, "timeout", default=default, most=max(default, LONGEST), unit=0.001)
                return Run(a["command"], time, OUTPUT, background=background)
            case "BashOutput":
                return JobOutput(a["bash_id"], OUTPUT)
            case "KillShell":
                return JobStop(a["shell_id"])
            case "Glob":
                return Glob(pattern=a["pattern"], **below(a, FOUND))
            case "Grep":
                return grep(a)
            case "LS":
                return ListFiles(ignore=tuple(a.get("ignore", ())), **below(a, MOST))
            case _:
                raise unknown(tool)

    def said(self, request: Request, result: Result) -> str:
        return words.said(request, result)

    def refused(self, tool: str, error: ToolError, *, hints: bool) -> str:
        return words.refused(tool, error)


def notebook_edit(a: Mapping[str, Any]) -> NotebookEdit:
    """Without the id of a cell a new one goes to the end; the source of a cell that goes is of no use."""
    cell, source, kind = a.get("cell_id", ""), a["new_source"], a.get("cell_type")
    match a["edit_mode"]:
        case "insert" if kind is None:
            raise BadArguments("NotebookEdit", "cell_type", "missing", "code or markdown, to insert a cell")
        case "insert":
            return NotebookEdit(a["notebook_path"], "insert_after" if cell else "append", cell, source, kind)
        case _ if not cell:
            raise BadArguments("NotebookEdit", "cell_id", "missing", "the ID of a cell, as Read shows it")
        case "delete":
            return NotebookEdit(a["notebook_path"], "delete", cell)
        case _:
            return NotebookEdit(a["notebook_path"], "replace", cell, source, kind)


def grep(a: Mapping[str, Any]) -> Grep:
    if "glob" in a and "type" in a:
        raise BadArguments("Grep", "type", "given together with glob", "only one of them")
    limit = counted("Grep", a, "head_limit", least=0)
    around = context(a, "-C") or 0
    before, after = context(a, "-B"), context(a, "-A")
    return Grep(
        pattern=a["pattern"],
        glob=TYPES[a["type"]] if "type" in a else a.get("glob", ""),
        regex=True,
        ignore_case=a["-i"],
        mode=a["output_mode"],
        before=around if before is None else before,
        after=around if after is None else after,
        **below(a, FOUND if limit is None else limit or MOST),
    )


def context(a: Mapping[str, Any], name: str) -> int | None:
    return counted("Grep", a, name, least=0, most=MOST_CONTEXT)


def below(a: Mapping[str, Any], limit: int) -> dict[str, Any]:
    """What the three searches have in common. This family has no argument for what is hidden, and expects to see it."""
    return {"path": folder(a.get("path", "")), "hidden": True, "limit": min(limit, MOST), "chars": ROOM}


dialect = Claude(__file__)
