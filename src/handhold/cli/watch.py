"""`handhold watch`: run any program as it is, and record what changes while it runs."""

import json
import os
import shlex
import signal
from collections.abc import Sequence
from pathlib import Path
from secrets import token_hex
from types import FrameType

import click

from handhold.backends.programs import start_for_user
from handhold.cli import options
from handhold.cli.options import exit_with_error
from handhold.cli.signals import FORWARDED, exit_like, handle_signals
from handhold.cli.state import default_root
from handhold.cli.terminal import is_stderr_terminal
from handhold.core.errors import ToolError
from handhold.core.ports.recording import Window

NOT_FOUND, NOT_EXECUTABLE = 127, 126  # as a shell exits
MAX_SHOWN = 5  # paths named in a line for people
IGNORED = (signal.SIGINT, signal.SIGQUIT)  # the terminal sends them to the program, too


@click.command(context_settings={"ignore_unknown_options": True})
@options.root
@options.state
@options.session
@click.option("--turn", default="", help="Turn that the command belongs to. `undo --turn` undoes a whole turn.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def watch(root: tuple[Path, ...], state: Path | None, session: str, turn: str, command: Sequence[str]) -> None:
    """Run COMMAND, and record what changes in the workspace while it runs, so that `handhold undo` can undo it.

    The command runs as it would without Handhold: same output, same exit status, same rights. It is not confined, and
    nothing is previewed. Put -- before it.
    """
    from handhold.toolbox import Toolbox

    folder = root[0] if root else default_root(state)
    try:
        with Toolbox.open(folder, state=state, session=session) as box:
            call_id = token_hex(4)
            name = os.path.basename(command[0])
            given = json.dumps({"command": shlex.join(command)})
            box.snapshots.begin(Window(session, call_id, name, turn, given, process=os.getpid()))
            try:
                status = run(command)
            finally:
                recorded = box.snapshots.end(session, call_id)
            if is_stderr_terminal():
                click.echo(describe(recorded.paths, list(recorded.not_kept)), err=True)
    except (ToolError, OSError) as error:
        exit_with_error(error, as_json=False)
    exit_like(status)


def run(command: Sequence[str]) -> int:
    """The exit status; negative: the signal that ended it."""
    try:
        child = start_for_user(command)
    except FileNotFoundError:
        click.echo(f"handhold watch: {command[0]}: command not found", err=True)
        return NOT_FOUND
    except PermissionError as error:
        click.echo(f"handhold watch: {command[0]}: {error.strerror}", err=True)
        return NOT_EXECUTABLE

    def forward(number: int, _: FrameType | None) -> None:
        child.send_signal(number)

    with handle_signals({number: forward for number in FORWARDED} | {number: signal.SIG_IGN for number in IGNORED}):
        return child.wait()


def describe(paths: Sequence[str], not_kept: Sequence[str]) -> str:
    """What changed, in one line, and what of it cannot be undone."""
    changed = f"handhold: changed {_list(paths)}; `handhold undo` undoes it." if paths else "handhold: nothing changed."
    lost = f" Undo leaves {_list(not_kept)}: the old content was not kept." if not_kept else ""
    return changed + lost if paths or not not_kept else "handhold:" + lost


def _list(paths: Sequence[str]) -> str:
    shown = ", ".join(os.path.relpath(path) for path in paths[:MAX_SHOWN])
    return shown + (f" and {len(paths) - MAX_SHOWN} more" if len(paths) > MAX_SHOWN else "")
