"""What a hub has, for `handhold log --hub` and `handhold diff --hub`: the calls of any of a tenant's workspaces."""

import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from handhold.backends.state.records import parse_changes
from handhold.backends.uplink.hub_client import HubAway, HubClient, HubRefused
from handhold.backends.uplink.hub_token import HubToken
from handhold.config import ToolboxConfig
from handhold.core.change_diff import format_diff
from handhold.core.facts import DeclaredEncoding
from handhold.core.plans import Content, ContentRef, StagedContent
from handhold.core.ports.journal import Call, JournalEntry, Outcome

MAX_CALLS = 1000


@contextmanager
def connect(url: str) -> Generator[HubClient]:
    """ClickException if the hub cannot be read."""
    try:
        checked = ToolboxConfig(hub=url).hub or ""
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--hub") from None
    client = HubClient(checked, HubToken())
    try:
        yield client
    except (HubAway, HubRefused) as error:
        raise click.ClickException(f"The hub at {checked}: {error}.") from None
    finally:
        client.close()


def list_calls(
    client: HubClient, *, workspace: str | None, session: str | None, path: str | None, last: int
) -> list[tuple[str, JournalEntry]]:
    """The newest calls, oldest first, each with its workspace."""
    query = {"workspace": workspace, "session": session, "path": path}
    wanted, found, cursor = min(last, MAX_CALLS), list[tuple[str, JournalEntry]](), None
    while len(found) < wanted:  # the hub answers in pages, the newest first
        answer = client.fetch_json("/v1/calls", {**query, "last": wanted - len(found), "cursor": cursor})
        found[:0] = map(_parse_entry, answer["calls"])
        cursor = answer.get("next")
        if not cursor:
            break
    return found


def _parse_entry(found: dict[str, Any]) -> tuple[str, JournalEntry]:
    workspace, call, outcome = found.pop("workspace"), found.pop("call"), found.pop("outcome")
    lists = {name: tuple(found.pop(name)) for name in ("paths", "takes_back")}
    return workspace, JournalEntry(call=Call(**call), outcome=Outcome(**outcome) if outcome else None, **lists, **found)


def list_diverged(client: HubClient, workspace: str | None) -> list[str]:
    """What to say about workspaces whose journal the hub refuses."""
    return [
        f"Workspace {each['name']}: its journal diverged at record {each['diverged_at']}; later records are kept apart."
        for each in client.fetch_json("/v1/workspaces")["workspaces"]
        if each["diverged_at"] and workspace in (None, each["name"])
    ]


def read_diff(client: HubClient, workspace: str, seq: int) -> str:
    """The changes of a call. What the hub did not get, because it is secret or too large, is left out."""
    intents = [each["body"] for each in _read_call(client, workspace, seq) if each["kind"] == "intent"]
    if not intents:
        raise click.ClickException(f"Call #{seq} of {workspace} changed nothing, or is not there.")
    return format_diff(parse_changes(intents[-1]["files"]), HubContents(client, workspace), ("/",))


def _read_call(client: HubClient, workspace: str, seq: int) -> Generator[dict[str, Any]]:
    """The records of a call: the hub sends a few megabytes at once."""
    after, is_done = 0, False
    while not is_done:
        is_done = True
        for line in client.fetch_workspace(workspace, "records", {"seq": seq, "after": after}).splitlines():
            record = json.loads(line)
            if record["record"] > after:  # a hub of an earlier version sends all each time
                after, is_done = record["record"], False
                yield record


class HubContents:
    """Implements the port ContentSource."""

    def __init__(self, client: HubClient, workspace: str) -> None:
        self._client, self._workspace = client, workspace

    def read_content(self, content: Content, path: str) -> bytes | None:
        if not isinstance(content, ContentRef | StagedContent):
            return None
        try:
            return self._client.fetch_workspace(self._workspace, f"contents/{content.hash}")
        except HubRefused:
            return None

    def list_staged_tree(self, content: StagedContent, path: str, limit: int) -> Sequence[tuple[str, StagedContent]]:
        return ()

    def declared_encoding(self, path: str) -> DeclaredEncoding | None:
        return None
