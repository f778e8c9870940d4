"""The plugin for Claude Code: the same server and hooks as `handhold install claude-code`, in files of its own."""

import json
import re
from pathlib import Path
from typing import Any

from handhold.cli.clients import CLIENTS
from handhold.cli.commands import COMMANDS
from handhold.cli.recording_hooks import build_hook_steps
from handhold.version import VERSION

PLUGINS = Path(__file__).parents[2] / "plugins"
PLUGIN = PLUGINS / "claude-code"


def said(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def test_the_plugin_has_the_hooks_and_the_server_of_install():
    hooks: dict[str, list[Any]] = {}
    for step in build_hook_steps("claude-code", "handhold", "handhold", is_strict=False):
        hooks.setdefault(step.path[1], []).append(step.value)
    assert said(PLUGIN / "hooks/hooks.json")["hooks"] == hooks
    manifest = said(PLUGIN / ".claude-plugin/plugin.json")
    entry = CLIENTS["claude-code"]().build_entry("handhold", ["mcp", "--dialect", "claude"])
    assert (manifest["version"], manifest["mcpServers"]) == (VERSION, {"handhold": entry})
    (listed,) = said(PLUGINS / ".claude-plugin/marketplace.json")["plugins"]
    assert (listed["name"], (PLUGINS / listed["source"]).resolve()) == (manifest["name"], PLUGIN)


def test_the_skill_names_commands_and_options_that_there_are():
    text = (PLUGIN / "skills/handhold/SKILL.md").read_text(encoding="utf-8")
    reference = (PLUGINS.parent / "docs/reference/cli.md").read_text(encoding="utf-8")
    named = re.findall(r"`handhold (\w+)((?: [^`]*)?)`", text)
    assert {"undo", "redo", "log", "diff", "run"} <= {command for command, _ in named}
    for command, words in named:
        assert command in COMMANDS
        section = reference.split(f"\n## handhold {command}\n")[1].split("\n## ")[0]
        assert all(option in section for option in re.findall(r"--\w[\w-]*", words)), (command, words)
