"""The dialect `codex`: files are changed by apply_patch alone, as a tool of its own or spelled as a command.

There is no tool to read with, so a hunk whose old lines match is its own proof of sight.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from handhold.core.errors import HunkMismatch, ToolError
from handhold.core.policy.shell.patch_call import patch_call
from handhold.core.ports import Traits
from handhold.core.requests import Operation, Patch, Request, UpdateFile
from handhold.core.results import Result
from handhold.core.text.patch import parse
from handhold.dialects.codex import words
from handhold.dialects.family import Family, unknown


class Codex(Family):
    name = "codex"
    traits = Traits(matching="safe", hints=False, needs_read=False)

    def request(self, tool: str, a: Mapping[str, Any]) -> Request:
        match tool:
            case "apply_patch":
                return Patch(parse(a["input"]))
            case "shell":
                call = patch_call(a["command"])
                folder = joined(a.get("workdir", ""), call.folder)
                return Patch(tuple(placed(each, folder) for each in parse(call.patch)), folder)
            case _:
                raise unknown(tool)

    def object_of(self, tool: str, arguments: Mapping[str, Any] | str) -> Any:
        """Free-form text is the patch, a command line is one for bash."""
        match tool, arguments:
            case "apply_patch", str() if not arguments.lstrip().startswith("{"):
                return {"input": arguments}
            case "shell", {"command": str(line)} if not line.lstrip().startswith("["):
                return {**arguments, "command": ["bash", "-lc", line]}
            case _:
                return arguments

    def said(self, request: Request, result: Result) -> str:
        return words.said(result)

    def refused(self, tool: str, error: ToolError, *, hints: bool) -> str:
        return words.refused(error)

    def tells_more(self, error: ToolError) -> bool:
        # Without a tool to read with, the nearest lines are not a hint: there is no other way to see them.
        return isinstance(error, HunkMismatch)


def joined(folder: str, path: str) -> str:
    return path if path.startswith("/") or not folder else f"{folder.rstrip('/')}/{path}".rstrip("/")


def placed(operation: Operation, folder: str) -> Operation:
    """The same operation, its paths seen from the workspace and not from a folder in it."""
    if isinstance(operation, UpdateFile) and operation.move_to:
        operation = replace(operation, move_to=joined(folder, operation.move_to))
    return replace(operation, path=joined(folder, operation.path))


dialect = Codex(__file__)
