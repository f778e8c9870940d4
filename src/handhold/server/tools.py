"""A dialect's tools as MCP definitions, and the kind of each tool."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from mcp_types import Tool, ToolAnnotations

from handhold.core.errors import ToolError
from handhold.core.ports.dialect import Dialect
from handhold.core.requests import Run
from handhold.core.results import ToolSpec
from handhold.logs import log_swallowed
from handhold.server.server_config import ServerConfig

ToolKind = Literal["look", "change", "command"]

SESSION_SCHEMA = {
    "type": "string",
    "description": 'Session of this call: the handle from an earlier result, or "new" to start a session. '
    "Defaults to the client's own session.",
}
FORK_SCHEMA = {
    "type": "string",
    "description": "Name of a fork: a copy of the workspace, at the same path, in which this call works. It is made if "
    "there is none. A person merges or drops it.",
}
CALL_ID_SCHEMA = {
    "type": "string",
    "description": "Unique id of this call. Retrying with the same id does not execute the call twice.",
}


@dataclass(frozen=True)
class ToolCatalog:
    """`kinds` says for each tool whether it only reads, changes files, or runs commands."""

    definitions: tuple[Tool, ...]
    kinds: Mapping[str, ToolKind]

    @classmethod
    def from_config(cls, config: ServerConfig) -> "ToolCatalog":
        dialect = config.resolved_dialect
        kinds: dict[str, ToolKind] = {spec.name: _classify_tool(dialect, spec) for spec in dialect.specs}
        return cls(tuple(_build_definition(spec, kinds[spec.name], config) for spec in dialect.specs), kinds)


def _classify_tool(dialect: Dialect, spec: ToolSpec) -> ToolKind:
    if spec.annotations["readOnlyHint"]:
        return "look"
    return "command" if _is_shell_tool(dialect, spec) else "change"


def _is_shell_tool(dialect: Dialect, spec: ToolSpec) -> bool:
    """Whether the tool's `command` argument is a shell command."""
    if "command" not in spec.input_schema["properties"]:
        return False
    try:
        return isinstance(dialect.decode(spec.name, {"command": "true"}), Run)
    except ToolError:
        log_swallowed()
        return False


def _build_definition(spec: ToolSpec, kind: ToolKind, config: ServerConfig) -> Tool:
    # Only commands can reach the outside world, and only with network access or without our sandbox.
    can_reach_outside = kind == "command" and bool(config.network or config.shell != "contained")
    return Tool(
        name=spec.name,
        title=spec.title,
        description=spec.description,
        input_schema=_build_schema(spec, config),
        annotations=ToolAnnotations(
            title=spec.title,
            read_only_hint=spec.annotations["readOnlyHint"],
            destructive_hint=spec.annotations["destructiveHint"],
            idempotent_hint=spec.annotations["idempotentHint"],
            open_world_hint=can_reach_outside,
        ),
    )


def _build_schema(spec: ToolSpec, config: ServerConfig) -> dict[str, Any]:
    schema = dict(spec.input_schema)
    if config.handles:
        added = {"session": SESSION_SCHEMA, "call_id": CALL_ID_SCHEMA, "fork": FORK_SCHEMA}
        schema["properties"] = {**schema["properties"], **added}
    return schema
