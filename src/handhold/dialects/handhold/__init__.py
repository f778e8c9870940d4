"""The dialect `handhold`: the default, for models without a family of their own and for people.

Paths are relative to the first root or absolute; what was left out, and how to get it, is always said.
"""

from collections.abc import Mapping
from typing import Any

from handhold.core.errors import BadArguments, ToolError
from handhold.core.ports import Traits
from handhold.core.requests import (
    MOST_PAGES,
    Edit,
    Glob,
    Grep,
    JobInput,
    JobOutput,
    JobStop,
    Limits,
    ListFiles,
    MultiEdit,
    Patch,
    Read,
    ReadMany,
    Request,
    Run,
    Write,
)
from handhold.core.results import Result
from handhold.core.text.patch import parse
from handhold.dialects import notebooks
from handhold.dialects.arguments import counted, first_line, page_runs, seconds
from handhold.dialects.family import Family, replacement, unknown
from handhold.dialects.handhold import words
from handhold.dialects.searches import MOST_CONTEXT, ROOM, folder

BUDGET = 80_000  # characters: 20,000 tokens
FRAME = 11_000  # notes (at most 6,000), the counts of cut lines, line numbers of more than six digits
LIMITS = Limits(lines=2000, line_chars=2000, chars=BUDGET - FRAME)
MOST_FILES = 50  # of one call
TIMEOUT, LONGEST = 120.0, 600.0  # seconds that a command may take
IN_BACKGROUND, LONGEST_IN_BACKGROUND = 3600.0, 24 * 3600.0
LISTED, FOUND, MOST = 200, 100, 1000  # entries of a listing, files or lines of a search, and never more of either
DEEPEST = 10


class Handhold(Family):
    name = "handhold"
    traits = Traits(matching="safe", hints=True)

    def request(self, tool: str, a: Mapping[str, Any]) -> Request:
        match tool:
            case "read_file":
                return Read(
                    a["path"],
                    LIMITS,
                    first_line(tool, a),
                    counted(tool, a, "limit"),
                    pages=page_runs(tool, a, "pages", most=MOST_PAGES),
                    images=a["images"],
                    if_changed=a["if_changed"],
                )
            case "read_files":
                return read_many(tool, a)
            case "write_file":
                return Write(a["path"], a["content"])
            case "edit_file":
                return Edit(a["path"], replacement(a))
            case "multi_edit":
                return MultiEdit(a["path"], tuple(map(replacement, a["edits"])))
            case "notebook_edit":
                return notebooks.edit(tool, a)
            case "apply_patch":
                return Patch(parse(a["patch"]))
            case "bash":
                return run(tool, a)
            case "bash_output":
                return JobOutput(a["job"], BUDGET, counted(tool, a, "offset", least=0))
            case "bash_input":
                return JobInput(a["job"], a["text"])
            case "bash_stop":
                return JobStop(a["job"])
            case "list_files":
                depth = counted(tool, a, "depth", most=DEEPEST) or 1
                return ListFiles(depth=depth, ignore=tuple(a.get("ignore", ())), **below(tool, a, LISTED))
            case "glob":
                return Glob(pattern=a["pattern"], sort=a["sort"], **below(tool, a, FOUND))
            case "grep":
                return Grep(
                    pattern=a["pattern"],
                    glob=a.get("glob", ""),
                    regex=a["regex"],
                    ignore_case=a["ignore_case"],
                    mode=a["mode"],
                    before=counted(tool, a, "before", least=0, most=MOST_CONTEXT) or 0,
                    after=counted(tool, a, "after", least=0, most=MOST_CONTEXT) or 0,
                    sort=a["sort"],
                    **below(tool, a, FOUND),
                )
            case _:
                raise unknown(tool)

    def said(self, request: Request, result: Result) -> str:
        return words.said(request, result)

    def refused(self, tool: str, error: ToolError, *, hints: bool) -> str:
        return words.refused(tool, error, hints=hints)


def read_many(tool: str, a: Mapping[str, Any]) -> ReadMany:
    paths = tuple(dict.fromkeys(a["paths"]))
    if len(paths) > MOST_FILES:
        raise BadArguments(tool, "paths", f"an array of {len(paths)}", f"an array of at most {MOST_FILES}")
    limit = counted(tool, a, "limit")
    return ReadMany(tuple(Read(path, LIMITS, limit=limit) for path in paths), BUDGET - words.ENDING)


def run(tool: str, a: Mapping[str, Any]) -> Run:
    background, preview = a["background"], a["preview"]
    if background and preview:
        raise BadArguments(tool, "preview", "true", "false with background: only what ends can be looked at first")
    limits = (IN_BACKGROUND, LONGEST_IN_BACKGROUND) if background else (TIMEOUT, LONGEST)
    time = seconds(tool, a, "timeout", default=limits[0], most=limits[1])
    return Run(a["command"], time, BUDGET, background=background, preview=preview)


def below(tool: str, a: Mapping[str, Any], limit: int) -> dict[str, Any]:
    """What the three searches have in common."""
    return {
        "path": folder(a.get("path", "")),
        "hidden": a["hidden"],
        "ignored": a["ignored"],
        "limit": min(counted(tool, a, "limit") or limit, MOST),
        "chars": ROOM,
        "cursor": a.get("cursor", ""),
    }


dialect = Handhold(__file__)
