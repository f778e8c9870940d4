"""One call of a tool, from a shell: the same pipeline, the same journal, the same reply."""

import json
import sys
from typing import Unpack

import click

from handhold.cli import candidates
from handhold.cli.options import ToolboxOptions, add_toolbox_options, open_toolbox
from handhold.cli.progress import show_progress
from handhold.cli.prompt import TerminalApprover, is_interactive
from handhold.cli.reply import print_reply


@click.command()
@click.argument("name", shell_complete=candidates.complete_tool)
@click.argument("arguments")
@click.option("--call-id", default="", help="The same id with the same arguments does nothing twice.")
@click.option("--turn", default="", help="The turn of the conversation, to take back as one.")
@add_toolbox_options
def call(name: str, arguments: str, call_id: str, turn: str, as_json: bool, **options: Unpack[ToolboxOptions]) -> int:  # noqa: FBT001
    """Call the tool NAME with ARGUMENTS, a JSON object; - reads it from standard input.

    Prints what a model would read. At a terminal you are asked about changes before they count.
    """
    given = sys.stdin.read() if arguments == "-" else arguments
    try:
        parsed = json.loads(given)
    except ValueError as error:
        raise click.BadParameter(f"not JSON: {error}", param_hint="ARGUMENTS") from None
    with open_toolbox(options, TerminalApprover() if is_interactive() else None) as box:
        with show_progress():
            reply = box.call(name, parsed, call_id=call_id, turn=turn)
        return print_reply(reply, as_json=as_json)
