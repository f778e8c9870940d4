"""MCP clients: which files configure them, per project and per user, and what `install` enters there."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from handhold.cli.config_steps import Item, Member, Step

WORKSPACE_VARIABLE = "${workspaceFolder}"


class ConfigPlace(NamedTuple):
    """A file below the project, and one below the home folder; empty if the client has no such file."""

    project: str
    user: str

    def choose(self, *, is_project: bool) -> str:
        return self.project if is_project else self.user


@dataclass(frozen=True)
class MCPClient:
    """`workspace_variable` is the client's placeholder for the project folder. Clients without one start the server
    there.

    `hooks` is the file for recording, if the client has hooks or plugins. `only` turns the client's own file and shell
    tools off, and `allow` lets it run ours without asking; both are given with the file that they go into. `next_steps`
    are what is left to a person, for a project and for a user. `local` is for one person in one project, if the client
    has such settings.
    """

    title: str
    servers_path: tuple[str, ...]  # of the object that has the servers
    place: ConfigPlace
    extra_fields: Mapping[str, Any] = field(default_factory=dict[str, Any])
    dialect: str = ""
    workspace_variable: str = ""
    is_command_list: bool = False  # the command and its arguments are one list
    hooks: ConfigPlace | None = None
    hooks_setting: tuple[tuple[str, ...], tuple[str, str]] | None = None  # an array that names that file
    only: Sequence[tuple[ConfigPlace, Step]] = ()
    only_rest: str = ""  # what --only leaves
    allowed_fields: Mapping[str, Any] = field(default_factory=dict[str, Any])  # of the entry
    allow: Callable[[str], Sequence[tuple[ConfigPlace, Step]]] = lambda _: ()
    next_steps: tuple[str, str] = ("", "")
    local: "MCPClient | None" = None

    @property
    def is_toml(self) -> bool:
        return self.place.user.endswith(".toml")

    def list_hook_settings(self, *, is_project: bool) -> list[tuple[ConfigPlace, Step]]:
        if self.hooks_setting is None:
            return []
        path, (project, user) = self.hooks_setting
        return [(self.place, Item(path, project if is_project else user))]

    def get_next_step(self, *, is_project: bool) -> str:
        project, user = self.next_steps
        return project if is_project else user

    def build_entry(self, command: str, arguments: list[str]) -> dict[str, Any]:
        if self.is_command_list:
            return {**self.extra_fields, "command": [command, *arguments]}
        return {**self.extra_fields, "command": command, "args": arguments}


def get_settings_path(linux: str, mac: str) -> str:
    """The path below the system's settings folder. An absolute XDG_CONFIG_HOME is honoured."""
    if sys.platform == "darwin":
        return f"Library/Application Support/{mac}"
    return get_config_path(linux)


def get_config_path(name: str) -> str:
    home = os.environ.get("XDG_CONFIG_HOME", "")
    return os.path.join(home if os.path.isabs(home) else ".config", name)


def get_codex_path(name: str) -> str:
    home = os.environ.get("CODEX_HOME", "")
    return os.path.join(home if os.path.isabs(home) else ".codex", name)


def build_claude_code() -> MCPClient:
    local_servers = ("projects", os.path.realpath(Path.cwd()), "mcpServers")
    local = fill_claude_code(
        local_servers,
        ConfigPlace(os.path.join(Path.home(), ".claude.json"), ""),
        ConfigPlace(".claude/settings.local.json", ""),
        "Start `claude` in this folder, and trust the folder.",
    )
    approval = "Start `claude` in this folder, trust the folder, and approve the server when it asks."
    settings = ConfigPlace(".claude/settings.json", ".claude/settings.json")
    shared = fill_claude_code(("mcpServers",), ConfigPlace(".mcp.json", ".claude.json"), settings, approval)
    return replace(shared, local=local)


def fill_claude_code(
    servers_path: tuple[str, ...], place: ConfigPlace, settings: ConfigPlace, next_step: str
) -> MCPClient:
    own = ("Bash", "PowerShell", "Edit", "Write", "Read", "NotebookEdit", "Glob", "Grep")
    return MCPClient(
        "Claude Code",
        servers_path,
        place,
        # Without alwaysLoad, the model sees the names of our tools only, and has to search for the rest.
        {"type": "stdio", "alwaysLoad": True},
        "claude",
        hooks=settings,
        only=[(settings, Item(("permissions", "deny"), name)) for name in own],
        allow=lambda name: [(settings, Item(("permissions", "allow"), f"mcp__{name}"))],
        next_steps=(next_step, ""),
    )


def build_codex() -> MCPClient:
    config = ConfigPlace(".codex/config.toml", get_codex_path("config.toml"))
    trust_hooks = "run /hooks in Codex and trust them: until then they are skipped without a word."
    return MCPClient(
        "Codex",
        ("mcp_servers",),
        config,
        # Without these, our tools come late or not at all.
        {"required": True, "omit_tools_from": ["deferred"]},
        "codex",
        hooks=ConfigPlace(".codex/hooks.json", get_codex_path("hooks.json")),
        only=[(config, Member(("features", name), False, True)) for name in ("shell_tool", "unified_exec")],  # noqa: FBT003
        only_rest="Codex keeps its tool apply_patch, which cannot be turned off; recording covers it.",
        allowed_fields={"default_tools_approval_mode": "approve"},
        next_steps=(
            f"Start `codex` in this folder and trust it. If recording is on, {trust_hooks}",
            f"If recording is on, {trust_hooks}",
        ),
    )


def build_opencode() -> MCPClient:
    config = ConfigPlace("opencode.json", get_config_path("opencode/opencode.json"))
    own = ("bash", "edit", "write", "read", "glob", "grep", "list", "patch", "apply_patch")
    return MCPClient(
        "opencode",
        ("mcp",),
        config,
        {"type": "local", "enabled": True},
        is_command_list=True,
        # Not in `.opencode`: for a folder of that name, opencode installs packages.
        hooks=ConfigPlace(".handhold/opencode.js", get_config_path("opencode/handhold.js")),
        hooks_setting=(("plugin",), ("./.handhold/opencode.js", "./handhold.js")),
        only=[(config, Member(("permission", name), "deny")) for name in own],
    )


def build_gemini() -> MCPClient:
    place = ConfigPlace(".gemini/settings.json", ".gemini/settings.json")
    return MCPClient(
        "Gemini CLI",
        ("mcpServers",),
        place,
        dialect="gemini",
        hooks=place,
        allowed_fields={"trust": True},
        next_steps=("Start `gemini` in this folder and trust the folder when it asks.", ""),
    )


def build_qwen() -> MCPClient:
    place = ConfigPlace(".qwen/settings.json", ".qwen/settings.json")
    own = ("run_shell_command", "edit", "write_file", "read_file", "glob", "grep_search", "list_directory")
    return MCPClient(
        "Qwen Code",
        ("mcpServers",),
        place,
        {"alwaysLoadTools": True},  # else they are hidden behind a search
        hooks=place,
        only=[(place, Item(("permissions", "deny"), name)) for name in own],
        allowed_fields={"trust": True},
        next_steps=("Start `qwen` in this folder and trust the folder when it asks.", ""),
    )


STDIO_FIELDS = {"type": "stdio"}
CLIENTS: Mapping[str, Callable[[], MCPClient]] = {
    "claude-code": build_claude_code,
    "claude-desktop": lambda: MCPClient(
        "Claude Desktop",
        ("mcpServers",),
        ConfigPlace("", get_settings_path("Claude/claude_desktop_config.json", "Claude/claude_desktop_config.json")),
        dialect="claude",
    ),
    "codex": build_codex,
    "cursor": lambda: MCPClient(
        "Cursor",
        ("mcpServers",),
        ConfigPlace(".cursor/mcp.json", ".cursor/mcp.json"),
        workspace_variable=WORKSPACE_VARIABLE,
    ),
    "devin-desktop": lambda: MCPClient(
        "Devin Desktop",
        ("mcpServers",),
        ConfigPlace(".devin/mcp_config.json", get_config_path("devin/mcp_config.json")),
    ),
    "gemini-cli": build_gemini,
    "opencode": build_opencode,
    "qwen-code": build_qwen,
    "vscode": lambda: MCPClient(
        "VS Code",
        ("servers",),
        ConfigPlace(".vscode/mcp.json", get_settings_path("Code/User/mcp.json", "Code/User/mcp.json")),
        STDIO_FIELDS,
        workspace_variable=WORKSPACE_VARIABLE,
    ),
    "windsurf": lambda: MCPClient(  # now Devin Desktop
        "Windsurf", ("mcpServers",), ConfigPlace("", ".codeium/windsurf/mcp_config.json")
    ),
    "zed": lambda: MCPClient(
        "Zed",
        ("context_servers",),
        ConfigPlace(
            ".zed/settings.json",
            ".config/zed/settings.json" if sys.platform == "darwin" else get_config_path("zed/settings.json"),
        ),
    ),
}
