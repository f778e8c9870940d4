"""MCP clients: where each one configures its servers, per project and per user, and in which format."""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from handhold.core.text import jsonc, toml_table
from handhold.core.text.jsonc import TextEdit

WORKSPACE_VARIABLE = "${workspaceFolder}"


@dataclass(frozen=True)
class MCPClient:
    """`project_file` is relative to the project, `user_file` to the home folder; empty if the client has no such file.

    `workspace_variable` is the client's placeholder for the project folder. Clients without one start the server there.
    """

    title: str
    servers_key: str
    project_file: str
    user_file: str
    extra_fields: Mapping[str, Any] = field(default_factory=dict[str, Any])
    dialect: str = ""
    workspace_variable: str = ""

    @property
    def is_toml(self) -> bool:
        return (self.project_file or self.user_file).endswith(".toml")

    def build_entry(self, command: str, arguments: list[str]) -> dict[str, Any]:
        return {**self.extra_fields, "command": command, "args": arguments}

    def put_entry(self, text: str, name: str, entry: dict[str, Any]) -> list[TextEdit]:
        return (toml_table if self.is_toml else jsonc).put(text, (self.servers_key, name), entry)

    def remove_entry(self, text: str, name: str) -> list[TextEdit]:
        return (toml_table if self.is_toml else jsonc).remove(text, (self.servers_key, name))


def get_settings_path(linux: str, mac: str) -> str:
    """The path below the system's settings folder. An absolute XDG_CONFIG_HOME is honoured."""
    if sys.platform == "darwin":
        return f"Library/Application Support/{mac}"
    home = os.environ.get("XDG_CONFIG_HOME", "")
    return os.path.join(home if os.path.isabs(home) else ".config", linux)


def get_codex_path() -> str:
    home = os.environ.get("CODEX_HOME", "")
    return os.path.join(home if os.path.isabs(home) else ".codex", "config.toml")


STDIO_FIELDS = {"type": "stdio"}
CLIENTS: Mapping[str, Callable[[], MCPClient]] = {
    "claude-code": lambda: MCPClient("Claude Code", "mcpServers", ".mcp.json", ".claude.json", STDIO_FIELDS, "claude"),
    "claude-desktop": lambda: MCPClient(
        "Claude Desktop",
        "mcpServers",
        "",
        get_settings_path("Claude/claude_desktop_config.json", "Claude/claude_desktop_config.json"),
        dialect="claude",
    ),
    "codex": lambda: MCPClient("Codex", "mcp_servers", ".codex/config.toml", get_codex_path(), dialect="codex"),
    "cursor": lambda: MCPClient(
        "Cursor", "mcpServers", ".cursor/mcp.json", ".cursor/mcp.json", workspace_variable=WORKSPACE_VARIABLE
    ),
    "gemini-cli": lambda: MCPClient(
        "Gemini CLI", "mcpServers", ".gemini/settings.json", ".gemini/settings.json", dialect="gemini"
    ),
    "vscode": lambda: MCPClient(
        "VS Code",
        "servers",
        ".vscode/mcp.json",
        get_settings_path("Code/User/mcp.json", "Code/User/mcp.json"),
        STDIO_FIELDS,
        workspace_variable=WORKSPACE_VARIABLE,
    ),
    "windsurf": lambda: MCPClient("Windsurf", "mcpServers", "", ".codeium/windsurf/mcp_config.json"),
    "zed": lambda: MCPClient(
        "Zed",
        "context_servers",
        ".zed/settings.json",
        ".config/zed/settings.json" if sys.platform == "darwin" else get_settings_path("zed/settings.json", ""),
    ),
}
