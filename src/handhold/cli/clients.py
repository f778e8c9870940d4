"""The clients that start us: where each keeps its servers, for one project or for one user, and how it writes them."""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from handhold.core.text import jsonc, toml_table
from handhold.core.text.jsonc import Cut

WORKSPACE = "${workspaceFolder}"


@dataclass(frozen=True)
class Client:
    """A file is named from the project's folder or from the user's home; one that a client does not have is empty.

    `here` is how its file names the project's folder, where it has a word for it; else it starts us there.
    """

    title: str
    key: str
    project: str
    user: str
    more: Mapping[str, Any] = field(default_factory=dict[str, Any])
    dialect: str = ""
    here: str = ""

    @property
    def in_toml(self) -> bool:
        return (self.project or self.user).endswith(".toml")

    def entry(self, command: str, arguments: list[str]) -> dict[str, Any]:
        return {**self.more, "command": command, "args": arguments}

    def put(self, text: str, name: str, entry: dict[str, Any]) -> list[Cut]:
        return (toml_table if self.in_toml else jsonc).put(text, (self.key, name), entry)

    def take(self, text: str, name: str) -> list[Cut]:
        return (toml_table if self.in_toml else jsonc).take(text, (self.key, name))


def settings(linux: str, mac: str) -> str:
    """In the folder of settings that the system has; a user's own XDG_CONFIG_HOME counts."""
    if sys.platform == "darwin":
        return f"Library/Application Support/{mac}"
    home = os.environ.get("XDG_CONFIG_HOME", "")
    return os.path.join(home if os.path.isabs(home) else ".config", linux)


def codex() -> str:
    home = os.environ.get("CODEX_HOME", "")
    return os.path.join(home if os.path.isabs(home) else ".codex", "config.toml")


STDIO = {"type": "stdio"}
CLIENTS: Mapping[str, Callable[[], Client]] = {
    "claude-code": lambda: Client("Claude Code", "mcpServers", ".mcp.json", ".claude.json", STDIO, "claude"),
    "claude-desktop": lambda: Client(
        "Claude Desktop",
        "mcpServers",
        "",
        settings("Claude/claude_desktop_config.json", "Claude/claude_desktop_config.json"),
        dialect="claude",
    ),
    "codex": lambda: Client("Codex", "mcp_servers", ".codex/config.toml", codex(), dialect="codex"),
    "cursor": lambda: Client("Cursor", "mcpServers", ".cursor/mcp.json", ".cursor/mcp.json", here=WORKSPACE),
    "gemini-cli": lambda: Client(
        "Gemini CLI", "mcpServers", ".gemini/settings.json", ".gemini/settings.json", dialect="gemini"
    ),
    "vscode": lambda: Client(
        "VS Code",
        "servers",
        ".vscode/mcp.json",
        settings("Code/User/mcp.json", "Code/User/mcp.json"),
        STDIO,
        here=WORKSPACE,
    ),
    "windsurf": lambda: Client("Windsurf", "mcpServers", "", ".codeium/windsurf/mcp_config.json"),
    "zed": lambda: Client(
        "Zed",
        "context_servers",
        ".zed/settings.json",
        ".config/zed/settings.json" if sys.platform == "darwin" else settings("zed/settings.json", ""),
    ),
}
