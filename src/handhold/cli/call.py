"""`handhold call`: one tool call from a shell, through the same pipeline and journal as an agent's calls."""

import json
import sys
from functools import partial
from typing import Unpack

import click

from handhold.cli import candidates
from handhold.cli.options import (
    HUB_OPTIONS,
    ToolboxOptions,
    add_network_options,
    add_toolbox_options,
    open_toolbox,
    policy_of_call,
    session,
)
from handhold.cli.progress import show_progress
from handhold.cli.prompt import TerminalApprover, is_interactive
from handhold.cli.reply import ReplyJSON, print_reply
from handhold.core.choices import Durability

JSON_OUTPUT = {"": ReplyJSON}


@click.command()
@click.argument("name", shell_complete=candidates.complete_tool)
@click.argument("arguments")
@click.option("--call-id", default="", help="Id of the call. Repeating it with the same arguments is idempotent.")
@click.option("--turn", default="", help="Turn that the call belongs to. `undo --turn` undoes a whole turn.")
@add_network_options
@HUB_OPTIONS[0]
@HUB_OPTIONS[1]
@partial(add_toolbox_options, policy=policy_of_call, session=session)
def call(
    name: str,
    arguments: str,
    call_id: str,
    turn: str,
    network: bool,  # noqa: FBT001
    host: tuple[str, ...],
    credential: tuple[str, ...],
    hub: str | None,
    durable: Durability,
    as_json: bool,  # noqa: FBT001
    **options: Unpack[ToolboxOptions],
) -> int:
    """Call the tool NAME with ARGUMENTS, a JSON object. Use - to read it from standard input.

    Prints the reply that a model would get. At a terminal you approve changes before they are applied.
    """
    given = sys.stdin.read() if arguments == "-" else arguments
    try:
        parsed = json.loads(given)
    except ValueError as error:
        raise click.BadParameter(f"not valid JSON: {error}", param_hint="ARGUMENTS") from None
    approver = TerminalApprover() if is_interactive() else None
    with open_toolbox(
        options, approver, network=host or network, credentials=credential, hub=hub, durable=durable
    ) as box:
        with show_progress():
            reply = box.call(name, parsed, call_id=call_id, turn=turn)
        return print_reply(reply, as_json=as_json)
