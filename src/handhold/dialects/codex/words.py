"""The messages of the dialect `codex`: the list of files as its family prints it, plain words for the rest."""

from collections.abc import Iterator

from handhold.core import errors as e
from handhold.core.results import Patched, Ran, Result
from handhold.dialects import commands
from handhold.dialects.plain import plain
from handhold.dialects.quoting import clipped

LETTERS = {"added": "A", "updated": "M", "moved": "M", "deleted": "D"}
MOST_FILES = 300


def said(result: Result) -> str:
    match result:
        case Patched():
            return "\n".join(["Success. Updated the following files:", *listing(result)])
        case Ran():
            return commands.ran(result)
        case _:
            raise AssertionError(f"no tool of this dialect gives {type(result).__name__}")


def listing(patched: Patched) -> Iterator[str]:
    rows = sorted(patched.files, key=lambda file: "AMD".index(LETTERS[file.verb]))
    for file in rows[:MOST_FILES]:
        yield f"{LETTERS[file.verb]} {clipped(file.path)}"
    if len(rows) > MOST_FILES:
        yield f"[{len(rows) - MOST_FILES} more files not listed.]"


def refused(error: e.ToolError) -> str:
    match error:
        case e.AlreadyExists():
            return f"{clipped(error.path)} already exists, so nothing was changed. Use *** Update File, or delete it first in the same patch."
        case _:
            return plain(error)
