"""The messages of the dialect `codex`: the list of files as its family prints it, otherwise plain words."""

from collections.abc import Iterator

from handhold.core import errors as e
from handhold.core.problems import Problems
from handhold.core.results import PatchResult, Result, RunResult
from handhold.dialects import commands
from handhold.dialects.error_messages import format_plain_error
from handhold.dialects.formatting import truncate
from handhold.dialects.problems import format_rest

STATUS_LETTERS = {"added": "A", "updated": "M", "moved": "M", "deleted": "D"}
MAX_LISTED_FILES = 300


def format_result(result: Result) -> str:
    match result:
        case PatchResult():
            return "\n".join(["Success. Updated the following files:", *format_file_list(result)])
        case RunResult():
            return commands.format_command(
                result,
                timeout_advice="Set a longer `timeout_ms`.",
                output_advice="Print parts of it, or search it, with shell.",
            )
        case _:
            raise AssertionError(f"no tool of this dialect gives {type(result).__name__}")


def format_file_list(patched: PatchResult) -> Iterator[str]:
    rows = sorted(patched.files, key=lambda file: "AMD".index(STATUS_LETTERS[file.verb]))
    for file in rows[:MAX_LISTED_FILES]:
        yield f"{STATUS_LETTERS[file.verb]} {truncate(file.path)}"
    if len(rows) > MAX_LISTED_FILES:
        yield f"[{len(rows) - MAX_LISTED_FILES} more files not listed.]"


def format_problems(problems: Problems) -> Iterator[str]:
    """As compilers print them."""
    for each in problems.told:
        cell = f" cell {each.cell}" if each.cell else ""
        yield f"{truncate(each.path)}{cell}:{each.line}:{each.column}: error: {each.message}: {each.text}"
    if problems.total > len(problems.told):
        yield f"{format_rest(problems)}."
    for note in problems.unchecked:
        yield f"[{note}.]"


def format_error(error: e.ToolError) -> str:
    match error:
        case e.NotFound():
            return f"{truncate(error.path)} does not exist. Find the path with shell."
        case e.AlreadyExists():
            return f"{truncate(error.path)} already exists, so nothing was changed. Use *** Update File, or delete it first in the same patch."
        case _:
            return format_plain_error(error)
