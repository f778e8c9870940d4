"""`handhold hook`: what an agent client runs around its own tools, so that their changes can be undone.

It never allows, denies or rewrites anything. If it fails, the client goes on, and says so; with --strict it is told to
stop, where it can be.
"""

import os
import sys
from pathlib import Path

import click

from handhold.cli import options
from handhold.hooks import hook_client
from handhold.hooks.client_process import find_client_process
from handhold.hooks.events import HOOK_DIALECTS


@click.command()
@click.argument("client", type=click.Choice(list(HOOK_DIALECTS)))
@options.state
@click.option("--strict", is_flag=True, help="Tell the client not to go on if this fails.")
def hook(client: str, state: Path | None, strict: bool) -> None:  # noqa: FBT001
    """Record a call of the tools that CLIENT has itself. Reads one event, as JSON, from standard input.

    `handhold install` enters it into the client's settings, before and after its shell and edit tools, and at the start
    and end of turns and sessions. A running server does the work, if there is one.
    """
    from handhold.hooks.recording import HookRequest, answer_event

    request = HookRequest(client, hook_client.read_event(), find_client_process(), os.getcwd(), strict)
    answer = answer_event(request, state)
    click.echo(answer.output, nl=bool(answer.output))
    if answer.errors:
        click.echo(answer.errors, err=True)
    sys.exit(answer.status)
