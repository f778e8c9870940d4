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
    query = {"workspace": workspace, "session": session, "path": path, "last": min(last, MAX_CALLS)}
    return [_parse_entry(each) for each in client.fetch_json("/v1/calls", query)["calls"]]


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
    lines = client.fetch_workspace(workspace, "records", {"seq": seq}).splitlines()
    intents = [found["body"] for found in map(json.loads, lines) if found["kind"] == "intent"]
    if not intents:
        raise click.ClickException(f"Call #{seq} of {workspace} changed nothing, or is not there.")
    return format_diff(parse_changes(intents[-1]["files"]), HubContents(client, workspace), ("/",))


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
