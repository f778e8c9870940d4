"""The dialect `codex`: files are changed by apply_patch alone, as a tool of its own or spelled as a command.

There is no tool to read with, so a hunk whose old lines match is its own proof of sight.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from handhold.core.errors import HunkMismatch, ToolError
from handhold.core.policy.commands import patch_call
from handhold.core.ports import Traits
from handhold.core.requests import Operation, Patch, Request, UpdateFile
from handhold.core.results import Result, ToolSpec
from handhold.core.text.patch import parse
from handhold.dialects.arguments import Specs
from handhold.dialects.codex import words
from handhold.dialects.hints import hinted, notes_about, notes_on
from handhold.dialects.quoting import sendable


class Codex:
    name = "codex"
    traits = Traits(matching="safe", hints=False, needs_read=False)

    def __init__(self) -> None:
        self._specs = Specs(__file__)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return self._specs.tools

    def decode(self, tool: str, arguments: Mapping[str, Any] | str) -> Request:
        a = self._specs.fit(tool, object_of(tool, arguments)).values
        match tool:
            case "apply_patch":
                return Patch(parse(a["input"]))
            case "shell":
                call = patch_call(a["command"])
                folder = joined(a.get("workdir", ""), call.folder)
                return Patch(tuple(placed(each, folder) for each in parse(call.patch)), folder)
            case _:
                raise AssertionError(f"{tool} is in specs.json and not here")

    def repaired(self, tool: str, arguments: Mapping[str, Any] | str) -> tuple[str, ...]:
        """What `decode` mends in these arguments."""
        return self._specs.fit(tool, object_of(tool, arguments)).repaired

    def encode(self, tool: str, request: Request, result: Result, *, hints: bool) -> str:
        return sendable(hinted(words.said(result), notes_on(result) if hints else ()))

    def refuse(self, tool: str, error: ToolError, *, hints: bool) -> str:
        # Without a tool to read with, the nearest lines are not a hint: there is no other way to see them.
        told = hints or isinstance(error, HunkMismatch)
        return sendable(hinted(words.refused(error), notes_about(error) if told else ()))


def object_of(tool: str, arguments: Mapping[str, Any] | str) -> Any:
    """Arguments as the schema has them: free-form text is the patch, a command line is one for bash."""
    match tool, arguments:
        case "apply_patch", str() if not arguments.lstrip().startswith("{"):
            return {"input": arguments}
        case "shell", {"command": str(line)} if not line.lstrip().startswith("["):
            return {**arguments, "command": ["bash", "-lc", line]}
        case _:
            return arguments


def joined(folder: str, path: str) -> str:
    return path if path.startswith("/") or not folder else f"{folder.rstrip('/')}/{path}".rstrip("/")


def placed(operation: Operation, folder: str) -> Operation:
    """The same operation, its paths seen from the workspace and not from a folder in it."""
    if isinstance(operation, UpdateFile) and operation.move_to:
        operation = replace(operation, move_to=joined(folder, operation.move_to))
    return replace(operation, path=joined(folder, operation.path))


dialect = Codex()
