"""`handhold hook`: what an agent client runs around its own tools, so that their changes can be undone.

It never allows, denies or rewrites anything. If it fails, the client goes on, and says so; with --strict it is told to
stop, where it can be.
"""

import json
import os
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from handhold.cli import options
from handhold.cli.hook_events import HOOK_DIALECTS, HookEvent, parse_event
from handhold.cli.options import format_error
from handhold.cli.state import default_root
from handhold.core.errors import BadPath, OutsideWorkspace, ToolError

if TYPE_CHECKING:
    from handhold.toolbox import Toolbox

EXIT_BLOCKED = 2  # what clients take for a refusal
MESSAGE_KEY = "systemMessage"  # by which they show a person something


@click.command()
@click.argument("client", type=click.Choice(list(HOOK_DIALECTS)))
@options.state
@click.option("--strict", is_flag=True, help="Tell the client not to go on if this fails.")
def hook(client: str, state: Path | None, strict: bool) -> None:  # noqa: FBT001
    """Record a call of the tools that CLIENT has itself. Reads one event, as JSON, from standard input.

    Enter it into the client's settings as a hook before and after its shell and edit tools, and at the start and end of
    turns and sessions.
    """
    try:
        event = parse_event(client, read_event())
        if event is not None:
            record(event, state)
    except (ToolError, OSError, ValueError) as error:
        reason = format_error(error) if isinstance(error, ToolError | OSError) else str(error)
        message = f"handhold: this is not recorded: {reason}"
        if strict:
            click.echo(message, err=True)
            sys.exit(EXIT_BLOCKED)
        click.echo(json.dumps({MESSAGE_KEY: message}))
        return
    click.echo("{}")


def read_event() -> dict[str, Any]:
    given = json.loads(sys.stdin.buffer.read())
    if not isinstance(given, dict):
        raise ValueError("the event is not a JSON object")
    return given  # pyright: ignore[reportUnknownVariableType]


def record(event: HookEvent, state: Path | None) -> None:
    from handhold.toolbox import Toolbox

    root = default_root(state, Path(event.folder) if event.folder else None)
    with Toolbox.open(root, state=state, session=event.session) as box:
        snapshots, window = box.snapshots, event.window
        if window is None:
            snapshots.sweep(event.session, next_turn=event.action == "turn")
        elif event.action == "end":
            snapshots.end(event.session, window.call_id)
        elif window.paths is None:
            snapshots.begin(window)
        elif paths := find_inside(box, window.paths, event.folder):
            snapshots.begin(replace(window, paths=paths))


def find_inside(box: "Toolbox", paths: tuple[str, ...], folder: str) -> tuple[str, ...]:
    """Those of these paths that are in the workspace; others are not recorded."""
    found: list[str] = []
    for path in paths:
        with suppress(OutsideWorkspace, BadPath):
            found.append(box.files.resolve(os.path.join(folder, path)))
    return tuple(found)
