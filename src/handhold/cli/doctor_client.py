"""`handhold doctor CLIENT`: whether what an agent client's own tools change is recorded.

Clients skip hooks that nobody trusted, and plugins that do not load, without a word. So the last check is a call: the
person lets the client run a harmless command, and it is recorded or not.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, cast

import click

from handhold.cli import options
from handhold.cli.clients import CLIENTS, MCPClient
from handhold.cli.config_steps import Item, Step, WholeFile
from handhold.cli.install import locate
from handhold.cli.programs import find_on_path
from handhold.cli.recording_hooks import build_hook_steps, is_our_hook
from handhold.cli.server_check import ServerFailed, count_tools
from handhold.cli.state import default_root, open_store
from handhold.cli.terminal import colour_text, is_stdout_terminal
from handhold.core.errors import SettingsBroken
from handhold.core.text import jsonc, toml_table

POLL_SECONDS = 0.2
MARKS = {True: ("yes", "green"), False: ("no", "red")}
HINTS = {
    "claude-code": "Trust the folder in Claude Code, and look at /hooks.",
    "codex": "Codex skips hooks that you have not trusted: run /hooks in Codex.",
    "gemini-cli": "Trust the folder in Gemini CLI, and look at /hooks.",
    "opencode": "Look for the plugin in opencode's log: opencode --print-logs.",
    "qwen-code": "Trust the folder in Qwen Code, and look at /hooks.",
}


class ClientCheckJSON(TypedDict):
    what: str
    holds: bool
    detail: str


class ClientDoctorJSON(TypedDict):
    recorded: bool
    findings: list[ClientCheckJSON]
    hint: str


class ClientCheck(NamedTuple):
    what: str
    holds: bool
    detail: str


class RecordedCall(NamedTuple):
    session: str
    tool: str


def diagnose_client(name: str, state: Path | None, wait: float, *, as_json: bool) -> int:
    findings = list(check_configuration(name))
    if wait and not as_json:
        click.echo("\n".join(format_findings(findings)))
        click.echo(f"\nNow let {CLIENTS[name]().title} run this command in this folder:\n\n    true\n")
        findings = []
    call = find_call(name, state, wait)
    is_recorded = call is not None
    detail = f"{call.tool}, in session {call.session}" if call else "nothing of this client has been recorded here"
    if call and not wait:
        detail = f"last: {detail}"
    findings.append(ClientCheck("a recorded call", is_recorded, detail))
    hint = "" if is_recorded else HINTS[name]
    if as_json:
        told = [ClientCheckJSON(what=each.what, holds=each.holds, detail=each.detail) for each in findings]
        options.print_json(ClientDoctorJSON(recorded=is_recorded, findings=told, hint=hint))
    else:
        click.echo("\n".join(format_findings(findings)))
        if hint:
            click.echo(hint if wait else f"{hint} To be sure: handhold doctor {name} --wait 120")
    return 0 if is_recorded else options.EXIT_REFUSED


def find_call(client: str, state: Path | None, wait: float) -> RecordedCall | None:
    """The last call that was recorded; with a time to wait, only one that is made meanwhile."""
    before, last = find_newest_window(client, state)
    until = time.monotonic() + wait
    while time.monotonic() < until:
        number, call = find_newest_window(client, state)
        if number != before:
            return call
        time.sleep(POLL_SECONDS)
    return None if wait else last


def check_configuration(name: str) -> Iterator[ClientCheck]:
    client = CLIENTS[name]()
    scopes = [(client, True), (client, False), *([(client.local, True)] if client.local else [])]
    found = [file for each, is_project in scopes if has_server(each, file := locate(each.place, is_project=is_project))]
    yield ClientCheck("the server", bool(found), found[0] if found else "in no configuration; run `handhold install`")
    program = find_on_path("handhold")
    on_path = find_on_path("handhold", only_path=True)
    elsewhere = f"only in {os.path.dirname(program)}, where the client does not look" if program else "not found"
    yield ClientCheck("handhold on the PATH", bool(on_path), on_path or elsewhere)
    if program:
        yield check_server(program)
    files = [file for each, is_project in scopes if (file := find_hooks(name, each, is_project=is_project))]
    yield ClientCheck("hooks", bool(files), files[0] if files else "in no configuration; run `handhold install`")


def has_server(client: MCPClient, file: str) -> bool:
    text = read_text(file)
    try:
        servers = toml_table.parse_toml(text).get(client.servers_path[0]) if client.is_toml else None
        servers = servers if client.is_toml else jsonc.get_member(text, client.servers_path)
    except ValueError:
        return False
    entries = cast(dict[str, Any], servers).values() if isinstance(servers, dict) else ()
    return any(isinstance(entry, dict) and starts_handhold(cast(dict[str, Any], entry)) for entry in entries)


def starts_handhold(entry: dict[str, Any]) -> bool:
    found = [entry.get("command"), entry.get("args")]
    words = [word for each in found for word in (cast(list[Any], each) if isinstance(each, list) else [each])]
    return any(os.path.basename(word).startswith("handhold") for word in words if isinstance(word, str))


def check_server(program: str) -> ClientCheck:
    try:
        return ClientCheck("starts", holds=True, detail=f"{count_tools([program, 'mcp'])} tools")
    except ServerFailed as error:
        return ClientCheck("starts", holds=False, detail=str(error))


def find_hooks(name: str, client: MCPClient, *, is_project: bool) -> str:
    """The file that has all of our hooks, or our plugin; empty if there is none."""
    assert client.hooks is not None
    file = locate(client.hooks, is_project=is_project)
    text = read_text(file)
    steps = build_hook_steps(name, "handhold", "handhold", is_strict=False)
    try:
        return file if text and all(is_entered(text, step) for step in steps) else ""
    except ValueError:
        return ""


def is_entered(text: str, step: Step) -> bool:
    if isinstance(step, WholeFile):
        return text.startswith(step.head)
    items = jsonc.get_member(text, step.path) if isinstance(step, Item) else None
    return isinstance(items, list) and any(map(is_our_hook, cast(list[Any], items)))


def read_text(file: str) -> str:
    from handhold.backends.settings import client_config

    try:
        return client_config.read_text(file, follow_links=True) or ""
    except SettingsBroken:
        return ""


def find_newest_window(client: str, state: Path | None) -> tuple[int, RecordedCall | None]:
    """The number of the newest window of a client's call that has ended, and the call."""
    root = default_root(state)
    with open_store((root,), state) as store:
        found = store.windows(os.path.realpath(root)).find_newest(f"{client}:")
    return (found.id, RecordedCall(found.window.session, found.window.tool)) if found else (0, None)


def format_findings(findings: list[ClientCheck]) -> Iterator[str]:
    width = max((len(each.what) for each in findings), default=0)
    for each in findings:
        word, colour = MARKS[each.holds]
        mark = colour_text(f"{word:3}", colour) if is_stdout_terminal() else f"{word:3}"
        yield f"{mark}  {each.what:{width}}  {each.detail}"
