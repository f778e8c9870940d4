"""The dialect `codex`: apply_patch, as a tool of its own or spelled as a command, and commands besides.

A command that calls apply_patch never reaches a shell: it is carried out here, or refused if it is anything more. There
is no tool to read with, so a hunk whose old lines match is its own proof of sight.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from shlex import join
from typing import Any

from handhold.core.errors import HunkMismatch, NoShell, ToolError
from handhold.core.policy.shell.patch_call import SCRIPT_FLAGS, patch_call
from handhold.core.ports import Traits
from handhold.core.requests import Operation, Patch, Request, Run, UpdateFile
from handhold.core.results import Result
from handhold.core.text.patch import parse
from handhold.dialects.arguments import seconds
from handhold.dialects.codex import words
from handhold.dialects.commands import standing_in
from handhold.dialects.family import Family, unknown

BUDGET = 80_000  # characters: 20,000 tokens
TIMEOUT, LONGEST = 120.0, 3600.0  # seconds that a command may take


class Codex(Family):
    name = "codex"
    traits = Traits(matching="safe", hints=False, needs_read=False)

    def request(self, tool: str, a: Mapping[str, Any]) -> Request:
        match tool:
            case "apply_patch":
                return Patch(parse(a["input"]))
            case "shell":
                return shell(tool, a)
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


def shell(tool: str, a: Mapping[str, Any]) -> Patch | Run:
    command, folder = a["command"], a.get("workdir", "")
    try:
        call = patch_call(command)
    except NoShell:  # it does not call apply_patch at all
        time = seconds(tool, a, "timeout_ms", default=TIMEOUT, most=LONGEST, unit=0.001)
        return Run(standing_in(folder, script(command)), time, BUDGET)
    folder = joined(folder, call.folder)
    return Patch(tuple(placed(each, folder) for each in parse(call.patch)), folder)


def script(command: Sequence[str]) -> str:
    """A command as bash takes it; one that is a script for bash is that script."""
    match [*command]:
        case [shell, *flags, text] if shell.rpartition("/")[2] == "bash" and tuple(flags) in SCRIPT_FLAGS:
            return text
        case words:
            return join(words)


def joined(folder: str, path: str) -> str:
    return path if path.startswith("/") or not folder else f"{folder.rstrip('/')}/{path}".rstrip("/")


def placed(operation: Operation, folder: str) -> Operation:
    """The same operation, its paths seen from the workspace and not from a folder in it."""
    if isinstance(operation, UpdateFile) and operation.move_to:
        operation = replace(operation, move_to=joined(folder, operation.move_to))
    return replace(operation, path=joined(folder, operation.path))


dialect = Codex(__file__)
