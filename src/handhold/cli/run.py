"""`handhold run`: run a command in the sandbox, with the streams, the exit status and the signals of a plain one."""

import os
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from math import inf
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from handhold.cli import options
from handhold.cli.diff import colour_diff
from handhold.cli.options import exit_with_error, format_tool_error, open_toolbox
from handhold.cli.progress import show_progress
from handhold.cli.prompt import TerminalApprover, is_interactive
from handhold.cli.signals import FORWARDED, exit_like, handle_signals
from handhold.cli.terminal import is_in_background, is_stderr_terminal, save_terminal_settings
from handhold.core.choices import Confinement, Mode
from handhold.core.errors import Cancelled, OutsideWorkspace, ToolError
from handhold.core.facts import ExitStatus
from handhold.core.requests import Request, Run
from handhold.core.results import Reply, Result, RunResult
from handhold.core.text.display_text import escape_invisible
from handhold.dialects import handhold as handhold_dialect
from handhold.dialects.commands import format_output, format_warnings
from handhold.pipeline.cancellation import CancelToken

if TYPE_CHECKING:
    from handhold.core.ports.shell import Shell
    from handhold.toolbox import Toolbox


EXIT_STATUS = """\b
Exit status: that of COMMAND, or death by the same signal; else
  1  refused or failed; the reason is printed, and nothing was changed
  2  usage error"""


@click.command(context_settings={"allow_interspersed_args": False}, epilog=EXIT_STATUS)
@click.option("--preview", is_flag=True, help="Run it, show what it would change, and change nothing.")
@click.option(
    "--cwd",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder to run it in. Default: the current directory if it is in the workspace, else the root.",
)
@options.root
@options.session
@options.state
@options.policy_of_call
@options.shell
@options.add_network_options
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(
    preview: bool,  # noqa: FBT001
    cwd: Path | None,
    root: tuple[Path, ...],
    session: str,
    state: Path | None,
    policy: Mode | None,
    shell: Confinement,
    network: bool,  # noqa: FBT001
    host: tuple[str, ...],
    credential: tuple[str, ...],
    command: Sequence[str],
) -> None:
    """Run COMMAND in the sandbox, on an overlay of the workspace, and apply what it changed.

    Its input, its output and its exit status are its own, as without Handhold. `handhold undo` undoes what it changed.
    Ctrl-C ends it and discards its changes. Put -- before it.
    """
    dialect, signals, restore_terminal = CommandDialect(), SignalReceiver(), save_terminal_settings()
    given = options.ToolboxOptions(root=root, dialect=dialect, session=session, state=state, policy=policy, shell=shell)
    approver = TerminalApprover() if is_interactive() else None
    try:
        with (
            signals.handle(),
            open_toolbox(given, approver, network=host or network, credentials=credential) as box,
        ):
            dialect.folder = resolve_folder(box, cwd)
            signals.shell = box.shell
            arguments = {"command": " ".join(map(quote, command)), "preview": preview}
            with show_progress():
                reply = box.call("bash", arguments, cancel_token=signals.token)
        if reply.code == Cancelled.code:
            raise Cancelled()
    except Cancelled:
        if not is_in_background():
            restore_terminal()  # a command that is killed cannot do it
        exit_like(-signals.cancelled_by)
    except (ToolError, OSError) as error:
        exit_with_error(error, as_json=False)
    print_report(reply)
    exit_like(to_status(reply))


class CommandDialect(handhold_dialect.Handhold):
    """The dialect `handhold` for a person: the command has our own streams, and replies contain only what to report."""

    def __init__(self) -> None:
        super().__init__(handhold_dialect.__file__)
        self.folder = ""

    def build_request(self, tool: str, a: Mapping[str, Any]) -> Request:
        request = super().build_request(tool, a)
        assert isinstance(request, Run)
        return replace(request, timeout_seconds=inf, folder=self.folder, streams=get_streams())

    def format_result(self, request: Request, result: Result) -> str:
        assert isinstance(result, RunResult)
        at_terminal = is_stderr_terminal()
        if not at_terminal:  # a script need not be told each time what is hidden
            result = replace(result, sandbox_known=result.undo_scope == "all")
        return "\n".join([*format_output(result.output), *format_warnings(result, with_changes=at_terminal)])

    def format_error(self, tool: str, error: ToolError, *, hints: bool) -> str:
        return format_tool_error(error)


class SignalReceiver:
    """Passes signals on to the command. SIGINT, and any signal while no command runs, cancels the call."""

    def __init__(self, shell: "Shell | None" = None) -> None:
        self.token = CancelToken()
        self.shell = shell
        self.cancelled_by = 0  # the number of the signal

    def handle(self) -> AbstractContextManager[None]:
        handlers = dict.fromkeys((signal.SIGINT, *FORWARDED), self._receive)
        return handle_signals(handlers | {signal.SIGTSTP: self._ignore})

    def _receive(self, number: int, _: FrameType | None) -> None:
        shell = self.shell
        if self.cancelled_by or (number in FORWARDED and shell and shell.send_signal(number)):
            return
        self.cancelled_by = number
        self.token.cancel()
        if not shell or not shell.interrupt():
            raise Cancelled()

    def _ignore(self, number: int, _: FrameType | None) -> None:
        """If Ctrl-Z stopped us, the command would run on, and read what is typed for another program."""


def get_streams() -> tuple[int, int, int]:
    """Our standard streams; for one that is closed, one that cannot be used either: its number may be another file's.

    A command in the background gets no terminal to read either. It has its own session, so nothing would stop it from
    reading what is typed for another program.
    """
    given = None if is_in_background() else sys.__stdin__, sys.__stdout__, sys.__stderr__
    stdin, stdout, stderr = (
        number if stream else os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC) for number, stream in enumerate(given)
    )
    return stdin, stdout, stderr


def resolve_folder(box: "Toolbox", cwd: Path | None) -> str:
    roots, folder = [Path(root).resolve() for root in box.files.roots], (cwd or Path.cwd()).resolve()
    if any(folder.is_relative_to(root) for root in roots):
        return str(folder)
    if cwd:
        raise OutsideWorkspace(str(cwd), roots=box.files.roots)
    return str(roots[0])


def quote(word: str) -> str:
    """The word for bash. The argument of a tool is text, so bytes that are not text are escaped."""
    data = os.fsencode(word)
    try:
        data.decode()
        return shlex.quote(word)
    except UnicodeDecodeError:
        return "$'" + "".join(f"\\x{byte:02x}" for byte in data) + "'"


def print_report(reply: Reply) -> None:
    """What there is to say, on standard error; of a preview also the diff."""
    if not reply.ok:
        raise click.ClickException(escape_invisible(f"{reply.code}: {reply.text}"))
    if reply.text:
        click.echo(escape_invisible(reply.text), err=True)
    if reply.data["preview"] and reply.ui_extra:
        for line in colour_diff(reply.ui_extra) if is_stderr_terminal() else [reply.ui_extra.removesuffix("\n")]:
            click.echo(line, err=True)


def to_status(reply: Reply) -> int:
    assert isinstance(reply.result, RunResult)
    match reply.result.exit_status:
        case ExitStatus(signal=name) if name:
            return -signal.Signals[name]
        case ExitStatus(code=code):
            return code or 0
