"""What can be asked of the tools of a fork: operations by name, with the types of their arguments and results.

Nothing else crosses between the processes, and nothing that is not of its type. To add an operation, add a line here
and a handler in `handhold.cli.fork_tools`.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Literal, NamedTuple

from handhold.core import errors
from handhold.core.checkers import Checker
from handhold.core.choices import Resolution
from handhold.core.errors import ToolError
from handhold.core.facts import FileSnapshot
from handhold.core.history import Target
from handhold.core.policy.rules import Rule
from handhold.core.ports.approvals import Consent, PendingApproval, Question
from handhold.core.ports.journal import JournalEntry
from handhold.core.ports.policy import CommandAnalysis, Decision, Verb
from handhold.core.problems import Problems
from handhold.core.results import Reply
from handhold.core.typed_json import NotOfType, from_json, to_json


class Operation(NamedTuple):
    arguments: Mapping[str, Any]  # their types
    result: Any  # its type


AnyTarget = Target | JournalEntry | None

OPERATIONS: Mapping[str, Operation] = {
    "call": Operation({"tool": str, "arguments": Any, "call_id": str, "turn": str}, Reply),
    "reverse": Operation(
        {
            "direction": Literal["undo", "redo"],
            "target": AnyTarget,
            "preview": bool,
            "keep_times": bool,
            "with_foreign": bool,
            "take": Resolution | None,
        },
        Reply,
    ),
    "check": Operation({}, Problems),
    "decide": Operation({"verb": Verb, "path": str}, Decision),
    "decide_command": Operation({"command": str, "contained": bool, "no_undo": str}, tuple[CommandAnalysis, Decision]),
    "log": Operation({"last": int | None, "everyone": bool}, tuple[JournalEntry, ...]),
    "diff": Operation({"target": AnyTarget}, str),
    "masked_paths": Operation({}, tuple[str, ...]),
    "resolve": Operation({"path": str}, str),
    "read": Operation({"path": str}, FileSnapshot),
    "record_truncation": Operation({"path": str}, None),
    "list_pending": Operation({"session": str | None}, tuple[PendingApproval, ...]),
    "get_pending": Operation({"which": str}, PendingApproval),
    "answer": Operation({"which": str, "answer": Consent, "by": str, "word": str}, PendingApproval),
}

# The keywords of its toolbox, with the types of those that are data. Objects of the application stay in its process.
OPTIONS: Mapping[str, Any] = {
    **dict.fromkeys(("root", "read_only", "credentials", "unredacted", "hidden"), tuple[str, ...]),
    **dict.fromkeys(("dialect", "model", "session", "shell", "durable"), str),
    **dict.fromkeys(("state", "policy", "matching", "refuse_broken", "secrets", "hub"), str | None),
    **dict.fromkeys(("undo_bytes", "memory", "processes"), int | None),
    **dict.fromkeys(("check_syntax", "tracing", "asks"), bool),
    "hints": bool | None,
    "encodings": Mapping[str, str] | None,
    "settings": bool | str,
    "network": bool | tuple[str, ...],
    "search_seconds": float | None,
    "rules": tuple[Rule, ...],
    "checkers": tuple[Checker, ...],
}


def encode_question(question: Question) -> Any:
    return to_json(question)


def decode_question(message: Any) -> Question:
    return from_json(Question, message)


def encode_error(error: Exception) -> Any:
    """A ToolError of ours by its fields. TypeError for any other: that is a bug, and the other end is told so."""
    if type(error) is not _list_errors().get(type(error).__name__):
        raise TypeError(f"{type(error).__name__} is no error of a call")
    return to_json(error)


def decode_error(message: Any) -> ToolError:
    name = message.get("$") if isinstance(message, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    kind = _list_errors().get(name) if isinstance(name, str) else None
    if kind is None:
        raise NotOfType("it is no error of a call")
    return from_json(kind, message)


@cache
def _list_errors() -> Mapping[str, type[ToolError]]:
    def descend(kind: type[ToolError]) -> Iterator[type[ToolError]]:
        for each in kind.__subclasses__():
            if each.__module__ == errors.__name__:
                yield each
                yield from descend(each)

    return {each.__name__: each for each in descend(ToolError)}


def encode_options(options: Mapping[str, Any]) -> tuple[Any, str]:
    """The options as JSON; or None, and the name of one that is an object of the application."""
    encoded: dict[str, Any] = {}
    for name, value in options.items():
        if name not in OPTIONS:
            if value is not None:
                return None, name
            continue
        try:
            encoded[name] = to_json(value)
            from_json(OPTIONS[name], encoded[name])
        except (TypeError, NotOfType):
            return None, name
    return encoded, ""


def decode_options(message: Any) -> dict[str, Any]:
    given: dict[str, Any] = from_json(dict[str, Any], message)
    if unknown := given.keys() - OPTIONS.keys():
        raise NotOfType(f"no options are {', '.join(sorted(unknown))}")
    return {name: from_json(OPTIONS[name], value) for name, value in given.items()}
