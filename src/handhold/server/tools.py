"""A dialect's tools as a client lists them, and what the server must know of each to serve it well."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from mcp_types import Tool, ToolAnnotations

from handhold.core.errors import ToolError
from handhold.core.ports import Dialect
from handhold.core.requests import Run
from handhold.core.results import ToolSpec
from handhold.server.serving import Serving

Kind = Literal["look", "change", "command"]

SESSION = {
    "type": "string",
    "description": 'The session this call belongs to: the handle that an earlier result gave, or "new" for a new one. '
    "Without it, the client's own session.",
}
CALL_ID = {
    "type": "string",
    "description": "Any text that names this call. Sent again with the same one, it is not done twice.",
}


@dataclass(frozen=True)
class Tools:
    """`kinds` says of each tool by name whether it only looks, changes files, or runs commands."""

    listed: tuple[Tool, ...]
    kinds: Mapping[str, Kind]

    @classmethod
    def of(cls, serving: Serving) -> "Tools":
        dialect = serving.words
        kinds: dict[str, Kind] = {spec.name: _kind(dialect, spec) for spec in dialect.specs}
        return cls(tuple(_tool(spec, kinds[spec.name], serving) for spec in dialect.specs), kinds)


def _kind(dialect: Dialect, spec: ToolSpec) -> Kind:
    if spec.annotations["readOnlyHint"]:
        return "look"
    return "command" if _runs(dialect, spec) else "change"


def _runs(dialect: Dialect, spec: ToolSpec) -> bool:
    """Whether what the tool calls a command is one of a shell."""
    if "command" not in spec.input_schema["properties"]:
        return False
    try:
        return isinstance(dialect.decode(spec.name, {"command": "true"}), Run)
    except ToolError:
        return False


def _tool(spec: ToolSpec, kind: Kind, serving: Serving) -> Tool:
    # What is said of the world outside is said of commands, and of them it depends on whether they have a network.
    open_world = kind == "command" and bool(serving.network or serving.shell != "contained")
    return Tool(
        name=spec.name,
        title=spec.title,
        description=spec.description,
        input_schema=_schema(spec, serving),
        annotations=ToolAnnotations(
            title=spec.title,
            read_only_hint=spec.annotations["readOnlyHint"],
            destructive_hint=spec.annotations["destructiveHint"],
            idempotent_hint=spec.annotations["idempotentHint"],
            open_world_hint=open_world,
        ),
    )


def _schema(spec: ToolSpec, serving: Serving) -> dict[str, Any]:
    schema = dict(spec.input_schema)
    if serving.handles:
        schema["properties"] = {**schema["properties"], "session": SESSION, "call_id": CALL_ID}
    return schema
