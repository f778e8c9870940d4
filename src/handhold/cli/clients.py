"""The clients that start us: where each keeps its servers, for one project or for one user, and how it writes them."""

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
    """A file is named from the project's folder or from the user's home; one that a client does not have is empty.

    `workspace_variable` is how its file names the project's folder, where it has a word for it; else it starts us
    there.
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
    """In the folder of settings that the system has; a user's own XDG_CONFIG_HOME counts."""
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
