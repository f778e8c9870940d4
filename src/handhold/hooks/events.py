"""What the hooks of agent clients say, as windows: a call begins, a call ends, or nobody's call is under way.

Clients differ in the names of their events and tools, and in whether calls have ids. What is not known here is ignored:
a hook must never stand in the way of the client.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Literal, cast

from handhold.core.ports.recording import Window
from handhold.core.text.patch import ADD, DELETE, MOVE, UPDATE

Action = Literal["start", "begin", "end", "sweep", "turn", "finish"]
HEADERS = (ADD, DELETE, UPDATE, MOVE)  # of a patch: what follows is a path


@dataclass(frozen=True)
class HookDialect:
    """How one client names its events, and the tools that can change files."""

    events: Mapping[str, Action]
    shells: frozenset[str]
    edits: Mapping[str, str] = field(default_factory=dict[str, str])  # the argument that names the file
    patches: Mapping[str, str] = field(default_factory=dict[str, str])  # the argument that has a patch
    ours: str = ""  # what the names of MCP tools begin with, if only events of these tell that a turn began

    @property
    def tools(self) -> list[str]:
        return sorted({*self.shells, *self.edits, *self.patches})


@dataclass(frozen=True)
class HookEvent:
    action: Action
    session: str
    folder: str  # the client's working directory
    window: Window | None = None  # of a beginning; of an end only its session and id count
    prompt: str = ""  # the id of what the person asked for, if the client has one: it names the turn
    transcript: str = ""  # the file in which the client keeps its session
    agent: str = ""  # the sub-agent that it is about


_TOOL_EVENTS: Mapping[str, Action] = {"PreToolUse": "begin", "PostToolUse": "end"}
_FAILURE: Mapping[str, Action] = {"PostToolUseFailure": "end"}
_TURN_EVENTS: Mapping[str, Action] = {
    "SessionStart": "start",
    "UserPromptSubmit": "turn",
    "Stop": "sweep",
    "SessionEnd": "finish",
}
_SUBAGENT: Mapping[str, Action] = {"SubagentStop": "sweep"}
HOOK_DIALECTS: Mapping[str, HookDialect] = {
    "claude-code": HookDialect(
        {**_TOOL_EVENTS, **_FAILURE, **_TURN_EVENTS, **_SUBAGENT},
        frozenset({"Bash", "PowerShell"}),
        {"Edit": "file_path", "Write": "file_path", "MultiEdit": "file_path", "NotebookEdit": "notebook_path"},
    ),
    "codex": HookDialect(
        {**_TOOL_EVENTS, **_TURN_EVENTS, **_SUBAGENT, "Interrupt": "sweep"},
        frozenset({"Bash", "exec_command", "shell", "local_shell"}),
        patches={"apply_patch": "command"},
    ),
    "qwen-code": HookDialect(
        # Not UserPromptSubmit: Qwen Code 0.24 runs its hook before every request to the model, not only for prompts.
        {**_TOOL_EVENTS, **_FAILURE, "SessionStart": "start", "Stop": "sweep", "SessionEnd": "finish"},
        frozenset({"run_shell_command", "Shell"}),
        {"edit": "file_path", "replace": "file_path", "write_file": "file_path"},
        ours="mcp__",
    ),
    "gemini-cli": HookDialect(
        {
            "BeforeTool": "begin",
            "AfterTool": "end",
            "SessionStart": "start",
            "BeforeAgent": "turn",
            "AfterAgent": "sweep",
            "SessionEnd": "finish",
        },
        frozenset({"run_shell_command"}),
        {"replace": "file_path", "write_file": "file_path"},
    ),
    "opencode": HookDialect(
        {"before": "begin", "after": "end", "start": "start", "turn": "turn", "idle": "sweep"},
        frozenset({"bash"}),
        {"edit": "filePath", "write": "filePath"},
        {"apply_patch": "patchText"},
    ),
}


def parse_event(client: str, given: Mapping[str, Any]) -> HookEvent | None:
    """None for an event that changes nothing, or of a tool that cannot change files."""
    dialect = HOOK_DIALECTS[client]
    action = dialect.events.get(_text(given, "hook_event_name"))
    session = _text(given, "session_id")
    if action is None or not session:
        return None
    name, folder, prompt = f"{client}:{session}", _text(given, "cwd"), _text(given, "prompt_id")
    agent = _text(given, "agent_id")
    if action not in ("begin", "end"):
        return HookEvent(action, name, folder, prompt=prompt, agent=agent)
    tool = _text(given, "tool_name")
    arguments = given.get("tool_input")
    arguments = cast(dict[str, Any], arguments) if isinstance(arguments, dict) else {}
    is_known, paths = _find_paths(dialect, tool, arguments)
    if not is_known:
        return (
            HookEvent(action, name, folder, prompt=prompt) if dialect.ours and tool.startswith(dialect.ours) else None
        )
    text = json.dumps(arguments, sort_keys=True, ensure_ascii=False)
    call_id = _text(given, "tool_use_id") or _derive_id(tool, text)
    window = Window(name, call_id, tool, _text(given, "turn_id"), text, paths, agent=agent)
    return HookEvent(action, name, folder, window, prompt, _text(given, "transcript_path"), agent)


def _find_paths(dialect: HookDialect, tool: str, arguments: Mapping[str, Any]) -> tuple[bool, tuple[str, ...] | None]:
    """Whether a tool can change files, and the paths that it names; None if it can change any."""
    if tool in dialect.shells:
        return True, None
    if tool in dialect.edits:
        path = _text(arguments, dialect.edits[tool])
        return True, (path,) if path else None
    if tool in dialect.patches:
        return True, _find_patched(_text(arguments, dialect.patches[tool]))
    return False, None


def _find_patched(patch: str) -> tuple[str, ...] | None:
    """The files that a patch names, by the lines that name them; None if it names none."""
    named = (line.partition(header)[2].strip() for line in patch.splitlines() for header in HEADERS if header in line)
    return tuple(dict.fromkeys(path for path in named if path)) or None


def _derive_id(tool: str, arguments: str) -> str:
    """For a client whose calls have no id: the same before and after the call."""
    return sha256(f"{tool}\0{arguments}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _text(given: Mapping[str, Any], key: str) -> str:
    value = given.get(key)
    return value if isinstance(value, str) else ""
