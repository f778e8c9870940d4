"""What a journal entry was about and how it ended, in short."""

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, cast

from handhold.core.change_diff import shorten_path
from handhold.core.ports.journal import JournalEntry

COMMAND_ARGUMENTS = ("command", "cmd")
PATH_ARGUMENTS = ("file_path", "path", "notebook_path", "filePath", "dir_path")
OTHER_ARGUMENTS = ("pattern", "query", "url")
SHELLS = ("bash", "sh", "zsh")
SHELL_COMMAND_FLAGS = ("-c", "-lc")
PREVIEW_ENDING = "preview only"


def describe_ending(entry: JournalEntry) -> str:
    """How the call ended; empty if it succeeded."""
    if entry.outcome is None:
        return "unfinished"
    if entry.undone:
        return "undone"
    if entry.changed and not entry.kept:
        return f"{entry.outcome.status} (no undo)"
    if is_preview(entry) and entry.succeeded:
        return PREVIEW_ENDING
    return entry.outcome.code or ("" if entry.outcome.status == "success" else entry.outcome.status)


def describe_end(entry: JournalEntry) -> str:
    """The same, with how a command ended that did not succeed."""
    ended, ending = read_exit(entry), describe_ending(entry)
    if not ended:
        return ending
    rest = "" if ending == "partial" else ending.removeprefix("success ").removeprefix("partial ").strip("()")
    return f"{ended}, {rest}" if rest else ended


def is_preview(entry: JournalEntry) -> bool:
    """Whether the command ran without its changes being applied, because the call asked for a preview."""
    return not entry.changed and str(parse_arguments(entry).get("preview", "")).lower() in ("true", "1")


def read_exit(entry: JournalEntry) -> str:
    """How a command ended that did not succeed: `exit 1`, `SIGKILL`; empty if it did, or if the reply is not kept."""
    reply = entry.outcome.reply if entry.outcome else None
    if not reply or '"exit' not in reply:
        return ""
    try:
        data = json.loads(reply)["data"]
        code, signal, timed_out = data.get("exit_status"), data.get("signal"), data.get("timed_out")
    except (ValueError, KeyError, AttributeError, TypeError):
        return ""
    if timed_out is True:
        return "timed out"
    if signal and isinstance(signal, str):
        return signal
    return f"exit {code}" if isinstance(code, int) and code else ""


def describe_decision(entry: JournalEntry) -> str:
    by, rule = f" by {entry.approver}" if entry.approver else "", f": {entry.rule}" if entry.rule else ""
    return f"{entry.decision}{by}{rule}"


def find_target(entry: JournalEntry, roots: Sequence[str]) -> tuple[str, bool]:
    """What the call was about, and whether that is a path: the command, the changed paths, or another argument."""
    arguments = parse_arguments(entry)
    if entry.takes_back:
        return ", ".join(map(str, arguments.get("calls", []))), False
    if "while" in arguments and isinstance(given := arguments.get("input"), dict):  # what another tool was given
        arguments = cast("dict[str, Any]", given)
    path = next((arguments[name] for name in PATH_ARGUMENTS if isinstance(arguments.get(name), str)), "")
    # The editor tool of the dialect anthropic has both; there `command` is the name of an action.
    command = "" if path and "dir_path" not in arguments else find_command(arguments)
    if command:
        return command, False
    if entry.paths:
        leaves = [path for path in entry.paths if not any(other.startswith(f"{path}/") for other in entry.paths)]
        more = len(leaves) - 1 + entry.changed - len(entry.paths)
        return shorten_path(leaves[0], roots) + (f" and {more:,} more" if more > 0 else ""), True
    other = next((arguments[name] for name in OTHER_ARGUMENTS if isinstance(arguments.get(name), str)), "")
    return (shorten_path(path, roots), True) if path else (other, False)


def find_command(arguments: Mapping[str, Any]) -> str:
    """The command of a shell tool. Some dialects pass it as a list, often as `bash -lc COMMAND`."""
    for value in (arguments.get(name) for name in COMMAND_ARGUMENTS):
        if isinstance(value, str) and value:
            return value
        if isinstance(value, list) and value:
            words = [str(each) for each in cast("list[object]", value)]
            if len(words) == 3 and words[0].rpartition("/")[2] in SHELLS and words[1] in SHELL_COMMAND_FLAGS:
                return words[2]
            return shlex.join(words)
    return ""


def parse_arguments(entry: JournalEntry) -> dict[str, Any]:
    try:
        found = json.loads(entry.call.arguments)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}  # pyright: ignore[reportUnknownVariableType]
