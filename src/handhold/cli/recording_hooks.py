"""What `install` enters so that a client's own shell and edit tools are recorded: hooks, or a plugin for opencode.

They never allow, deny or rewrite a call. If one fails, the client goes on and says so; a strict one blocks the call.
"""

import json
import re
import shlex
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from handhold.cli.config_steps import Item, Step, WholeFile
from handhold.hooks.events import HOOK_DIALECTS, HookDialect

TIMEOUT_SECONDS = 30
TIMEOUT_UNITS = {"claude-code": 1, "codex": 1, "gemini-cli": 1000, "qwen-code": 1}  # in a second
OUR_COMMAND = re.compile(r"\bhandhold'? hook ")  # by which an entry is recognized as ours
PLUGIN = "opencode_plugin.js"


def build_hook_steps(client: str, program: str, server: str, *, is_strict: bool) -> list[Step]:
    if client == "opencode":
        return [WholeFile((), build_plugin(program, is_strict=is_strict))]
    dialect = HOOK_DIALECTS[client]
    steps: list[Step] = []
    for event, action in dialect.events.items():
        tools = build_matcher(dialect, action, server)
        entry = build_entry(client, program, is_strict=is_strict and action == "begin", tools=tools)
        steps.append(Item(("hooks", event), entry))
    return steps


def build_matcher(dialect: HookDialect, action: str, server: str) -> str:
    """A regular expression for the tools that an event is about; empty if it is about none."""
    if action not in ("begin", "end"):
        return ""
    ours = [f"{dialect.ours}{server}__.*"] if dialect.ours and action == "begin" else []
    return f"^({'|'.join([*dialect.tools, *ours])})$"


def build_entry(client: str, program: str, *, is_strict: bool, tools: str) -> dict[str, Any]:
    command = f"{shlex.quote(program)} hook {client}"
    hook: dict[str, Any] = {"type": "command", "command": command, "timeout": TIMEOUT_SECONDS * TIMEOUT_UNITS[client]}
    if is_strict and client == "claude-code":
        hook |= {"command": f"{command} --strict", "onFailure": "block"}
    elif is_strict:  # these go on after a timeout of theirs, and if the program is missing
        refusal = '{ echo "handhold: this is not recorded" >&2; exit 2; }'
        hook["command"] = f"timeout {TIMEOUT_SECONDS // 2} {command} --strict || {refusal}"
    return {"matcher": tools, "hooks": [hook]} if tools else {"hooks": [hook]}


def build_plugin(program: str, *, is_strict: bool) -> str:
    text = files("handhold.cli").joinpath(PLUGIN).read_text("utf-8")
    constants: Mapping[str, object] = {
        "PROGRAM": program,
        "STRICT": is_strict,
        "TOOLS": HOOK_DIALECTS["opencode"].tools,
    }
    for name, value in constants.items():
        text = text.replace(f"const {name} = null", f"const {name} = {json.dumps(value)}")
    return text


def is_our_hook(entry: object) -> bool:
    """Whether an item of a client's hooks was entered by some installation of Handhold."""
    return bool(OUR_COMMAND.search(json.dumps(entry)))
