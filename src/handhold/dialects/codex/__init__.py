"""The dialect `codex`: apply_patch, as a tool of its own or written as a command, and other commands.

A command that calls apply_patch never reaches a shell: it is applied here, or refused if it does anything else. There
is no tool to read files, so a hunk whose old lines match counts as proof that the model has read them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from shlex import join
from typing import Any

from handhold.core.errors import HunkMismatch, NoShell, ToolError
from handhold.core.policy.shell.patch_call import SCRIPT_FLAGS, parse_patch_call
from handhold.core.ports.dialect import DialectOptions
from handhold.core.problems import Problems
from handhold.core.requests import Operation, Patch, Request, Run, UpdateFile
from handhold.core.results import Result
from handhold.core.text.patch import parse_patch
from handhold.dialects.arguments import get_seconds
from handhold.dialects.base import BaseDialect, unhandled_tool_error
from handhold.dialects.codex import messages as words
from handhold.dialects.commands import prepend_cd

MAX_REPLY_CHARS = 80_000  # characters: 20,000 tokens
DEFAULT_TIMEOUT_SECONDS, MAX_TIMEOUT_SECONDS = 120.0, 3600.0  # for a command


class Codex(BaseDialect):
    name = "codex"
    options = DialectOptions(matching="safe", hints=False, requires_read=False)

    def build_request(self, tool: str, a: Mapping[str, Any]) -> Request:
        match tool:
            case "apply_patch":
                return Patch(parse_patch(a["input"]))
            case "shell":
                return build_shell_request(tool, a)
            case _:
                raise unhandled_tool_error(tool)

    def normalize_arguments(self, tool: str, arguments: Mapping[str, Any] | str) -> Any:
        """Free-form text is a patch; a command line runs with bash."""
        match tool, arguments:
            case "apply_patch", str() if not arguments.lstrip().startswith("{"):
                return {"input": arguments}
            case "shell", {"command": str(line)} if not line.lstrip().startswith("["):
                return {**arguments, "command": ["bash", "-lc", line]}
            case _:
                return arguments

    def format_result(self, request: Request, result: Result) -> str:
        return words.format_result(result)

    def format_error(self, tool: str, error: ToolError, *, hints: bool) -> str:
        return words.format_error(error)

    def format_problems(self, problems: Problems) -> Iterable[str]:
        return words.format_problems(problems)

    def needs_hints(self, error: ToolError) -> bool:
        # There is no tool to read files, so the nearest lines are needed even without hints.
        return isinstance(error, HunkMismatch)


def build_shell_request(tool: str, a: Mapping[str, Any]) -> Patch | Run:
    command, folder = a["command"], a.get("workdir", "")
    try:
        call = parse_patch_call(command)
    except NoShell:  # it does not call apply_patch at all
        time = get_seconds(
            tool, a, "timeout_ms", default=DEFAULT_TIMEOUT_SECONDS, maximum=MAX_TIMEOUT_SECONDS, unit=0.001
        )
        return Run(prepend_cd(folder, to_bash_script(command)), time, MAX_REPLY_CHARS)
    folder = join_path(folder, call.folder)
    return Patch(tuple(prefix_paths(each, folder) for each in parse_patch(call.patch)), folder)


def to_bash_script(command: Sequence[str]) -> str:
    """A command as a script for bash; the script itself if the command runs bash with one."""
    match [*command]:
        case [shell, *flags, text] if shell.rpartition("/")[2] == "bash" and tuple(flags) in SCRIPT_FLAGS:
            return text
        case words:
            return join(words)


def join_path(folder: str, path: str) -> str:
    return path if path.startswith("/") or not folder else f"{folder.rstrip('/')}/{path}".rstrip("/")


def prefix_paths(operation: Operation, folder: str) -> Operation:
    """The same operation, with paths relative to the workspace instead of a folder in it."""
    if isinstance(operation, UpdateFile) and operation.move_to:
        operation = replace(operation, move_to=join_path(folder, operation.move_to))
    return replace(operation, path=join_path(folder, operation.path))


dialect = Codex(__file__)
