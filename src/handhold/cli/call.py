"""One call of a tool, from a shell: the same road, the same journal, the same reply."""

import json
import sys
from typing import Unpack

import click

from handhold.cli import candidates
from handhold.cli.progress import watched
from handhold.cli.prompt import TerminalApprover, at_a_terminal
from handhold.cli.reply import shown
from handhold.cli.where import Where, on_a_toolbox, opened


@click.command()
@click.argument("name", shell_complete=candidates.tools)
@click.argument("arguments")
@click.option("--call-id", default="", help="The same id with the same arguments does nothing twice.")
@click.option("--turn", default="", help="The turn of the conversation, to take back as one.")
@on_a_toolbox
def call(name: str, arguments: str, call_id: str, turn: str, as_json: bool, **where: Unpack[Where]) -> int:  # noqa: FBT001
    """Call the tool NAME with ARGUMENTS, a JSON object; - reads it from standard input.

    Prints what a model would read. At a terminal you are asked about changes before they count.
    """
    given = sys.stdin.read() if arguments == "-" else arguments
    try:
        parsed = json.loads(given)
    except ValueError as error:
        raise click.BadParameter(f"not JSON: {error}", param_hint="ARGUMENTS") from None
    with opened(where, TerminalApprover() if at_a_terminal() else None) as box:
        with watched():
            reply = box.call(name, parsed, call_id=call_id, turn=turn)
        return shown(reply, as_json=as_json)
