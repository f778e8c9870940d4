"""`handhold fork`: run any program in a copy of the workspace, then look at what it changed, merge it or drop it."""

import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import click

from handhold.cli import options
from handhold.cli.diff import DiffJSON, colour_diff
from handhold.cli.diffstat import count_files, format_counts, format_file_count, format_stats, parse_stats, sum_stats
from handhold.cli.fork_options import add_workspace_options, open_box
from handhold.cli.forks import ForkJSON, print_forks
from handhold.cli.git_files import is_git_internal
from handhold.cli.names import refuse_unknown_command
from handhold.cli.options import exit_with_error, print_json, report_errors
from handhold.cli.prompt import confirm_loss
from handhold.cli.run import SignalReceiver, resolve_folder
from handhold.cli.signals import FORWARDED, exit_like, handle_signals
from handhold.cli.terminal import is_stderr_terminal, is_stdout_terminal
from handhold.core.choices import Mode
from handhold.core.errors import MergeConflict, ToolError
from handhold.core.text.display_text import escape_invisible
from handhold.core.text.path_escaping import format_path

if TYPE_CHECKING:
    from handhold.backends.forks.fork_mount import RunningProgram
    from handhold.forks import Fork, MergeReport, Side
    from handhold.toolbox import ForkToolbox

IGNORED_SIGNALS = (signal.SIGINT, signal.SIGQUIT)  # the terminal sends them to the program, too
TAKE = "--take"
MAX_LISTED = 20  # paths in a message
EXIT_STATUS = """\b
Exit status: that of COMMAND, or death by the same signal; else
  1  refused or failed; the reason is printed
  2  usage error"""


class MergeJSON(TypedDict):
    fork: str
    paths: list[str]  # that were changed
    branches: list[str]  # git refs that the fork's branches have now
    ignored: list[str]  # files that git ignores, which were left in the fork
    notes: list[str]
    dropped: bool  # whether the fork is gone, because nothing was left in it


JSON_OUTPUT = {"list": list[ForkJSON], "diff": DiffJSON, "merge": MergeJSON}


class ForkGroup(click.Group):
    """A group in which `fork NAME -- COMMAND` is short for `fork new NAME -- COMMAND`, for a new fork or an old one.

    Without the dashes, a name that is no command is a mistake: no fork is made of it.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            if "--" not in args:
                refuse_unknown_command(ctx, args[0], (name for name, each in self.commands.items() if not each.hidden))
            args = ["start", *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(cls=ForkGroup)
def fork() -> None:
    """Run any program in a fork: a copy of the workspace that takes milliseconds, at the workspace's own path.

    `handhold fork new NAME` makes a fork; `handhold fork NAME -- COMMAND` also makes it if there is none, and runs
    COMMAND in it. What that changes in the workspace stays in the fork until you merge or drop it. Nothing else is
    contained: COMMAND has your home, your network and your rights, unless you give --contained.
    """


class RunOptions(TypedDict):
    root: tuple[Path, ...]
    state: Path | None
    contained: bool
    network: bool
    credential: tuple[str, ...]


def add_run_options(command: Any) -> Any:
    for option in (
        options.credential,
        click.option("--network", is_flag=True, help="With --contained: allow network access."),
        click.option("--contained", is_flag=True, help="Run COMMAND in the sandbox of commands, without a network."),
    ):
        command = option(command)
    return add_workspace_options(command)


@fork.command(context_settings={"ignore_unknown_options": True}, epilog=EXIT_STATUS)
@add_run_options
@click.argument("name")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def new(name: str, command: Sequence[str], **given: Unpack[RunOptions]) -> None:
    """Make the fork NAME, and run COMMAND in it, if there is one. Put -- before COMMAND."""
    try:
        with open_box(given["root"], given["state"]) as box:
            box.forks.create(name)
    except (ToolError, OSError) as error:
        exit_with_error(error, as_json=False)
    if command:
        run_in_fork(name, command, given, make=False)
    else:
        click.echo(f"Made the fork {name}. `handhold fork run {name}` opens your shell in it.", err=True)


@fork.command(context_settings={"ignore_unknown_options": True}, epilog=EXIT_STATUS, hidden=True)
@add_run_options
@click.argument("name")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def start(name: str, command: Sequence[str], **given: Unpack[RunOptions]) -> None:
    """Run COMMAND in the fork NAME, which is made if there is none. Default: your shell. Put -- before COMMAND."""
    run_in_fork(name, command or get_shell(), given, make=True)


@fork.command(context_settings={"ignore_unknown_options": True}, epilog=EXIT_STATUS)
@add_run_options
@click.argument("name")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def run(name: str, command: Sequence[str], **given: Unpack[RunOptions]) -> None:
    """Run COMMAND in the existing fork NAME. Default: your shell. Put -- before COMMAND."""
    run_in_fork(name, command or get_shell(), given, make=False)


def get_shell() -> tuple[str]:
    return (os.environ.get("SHELL", "/bin/sh"),)


@fork.command("list")
@add_workspace_options
@options.as_json
@report_errors
def list_forks(root: tuple[Path, ...], state: Path | None, as_json: bool) -> int:  # noqa: FBT001
    """List the forks: what each changed, since when, whether something runs in it, and how its last command ended."""
    return print_forks(root, state, as_json=as_json)


def run_in_fork(name: str, command: Sequence[str], given: RunOptions, *, make: bool) -> None:
    if given["network"] and not given["contained"]:
        raise click.UsageError("--network requires --contained: otherwise there is always a network.")
    if given["credential"] and not given["contained"]:
        raise click.UsageError("--credential requires --contained: otherwise git asks your helper anyway.")
    try:
        with open_box(given["root"], given["state"], credentials=given["credential"]) as box:
            chosen, cwd = box.fork(name) if make else box.forks.get(name), resolve_folder(box, None)
            if given["contained"]:
                signals = SignalReceiver(box.shell)
                with signals.handle():
                    status = chosen.run_contained(command, cwd=cwd, network=given["network"])
                status = -signals.cancelled_by or status
            else:
                status = chosen.run(command, cwd=cwd, wait=wait_for_program)
            if is_stderr_terminal():
                click.echo(describe_fork(chosen), err=True)
    except (ToolError, OSError) as error:
        exit_with_error(error, as_json=False)
    exit_like(status)


def wait_for_program(program: "RunningProgram") -> int:
    def forward(number: int, _: FrameType | None) -> None:
        program.send_signal(number)

    ignored = dict.fromkeys(IGNORED_SIGNALS, signal.SIG_IGN)
    with handle_signals({number: forward for number in FORWARDED} | ignored):
        return program.wait()


def describe_fork(chosen: "Fork | ForkToolbox") -> str:
    stats = parse_stats(chosen.diff())
    counts = format_counts(*sum_stats(stats)) or "no lines"
    changed = f"{format_file_count(count_files(stats))} changed ({counts})" if stats else "nothing changed"
    return f"handhold: fork {chosen.name}: {changed}; see `handhold fork diff {chosen.name}`."


@fork.command()
@add_workspace_options
@click.argument("name")
@click.option("--stat", is_flag=True, help="Show only the number of changed lines in each file.")
@options.as_json
@report_errors
def diff(root: tuple[Path, ...], state: Path | None, name: str, stat: bool, as_json: bool) -> int:  # noqa: FBT001
    """Show what the fork NAME changed, without files that git ignores."""
    with open_box(root, state) as box:
        text = box.forks.get(name).diff()
    stats = parse_stats(text)
    if as_json:
        added, removed = sum_stats(stats)
        print_json(DiffJSON(added=added, removed=removed, files=stats, diff=text))
    elif stat:
        for line in format_stats(stats):
            click.echo(line)
    elif is_stdout_terminal():
        for line in colour_diff(text) if text else ():
            click.echo(line)
    else:
        click.echo(text, nl=False)
    return 0


@fork.command()
@add_workspace_options
@options.session
@options.policy_of_call
@click.argument("name")
@click.option(
    TAKE,
    multiple=True,
    metavar="fork|base[:PATH]",
    help="Where both changed the same, take the fork's version or the workspace's: for all conflicts, or those in PATH."
    " Of a text, only the lines that conflict are taken.",
)
@click.option("--all", "include_ignored", is_flag=True, help="Also merge files that git ignores.")
@options.as_json
@report_errors
def merge(
    root: tuple[Path, ...],
    state: Path | None,
    session: str,
    policy: Mode | None,
    name: str,
    take: Sequence[str],
    include_ignored: bool,  # noqa: FBT001
    as_json: bool,  # noqa: FBT001
) -> int:
    """Merge the fork NAME into the workspace as one change set: `handhold undo` undoes it.

    If the workspace changed meanwhile, texts are merged line by line. If both changed the same lines, the conflict is
    shown and nothing is written. The fork is dropped if nothing is left in it.
    """
    sides = parse_sides(take)
    with open_box(root, state, session, policy) as box:
        try:
            report = box.forks.get(name).merge(take=sides, include_ignored=include_ignored)
        except MergeConflict as conflict:
            if not as_json:
                print_conflict(conflict)
            raise
    if as_json:
        print_json(MergeJSON(**vars(report)))
    else:
        print_report(report)
    return 0


def parse_sides(given: Sequence[str]) -> "dict[str, Side]":
    """The sides by absolute path; by "" for all other paths."""
    sides: dict[str, Side] = {}
    for each in given:
        side, colon, path = each.partition(":")
        if side not in ("fork", "base") or bool(colon) != bool(path):
            raise click.BadParameter(f"{each!r} is neither fork nor base, nor one of them with a path", param_hint=TAKE)
        if sides.setdefault(os.path.abspath(path) if path else "", side) != side:
            raise click.BadParameter(f"both sides are taken for {path or 'all paths'}", param_hint=TAKE)
    return sides


def print_conflict(conflict: MergeConflict) -> None:
    for path, reason, text in zip(conflict.paths, conflict.reasons, conflict.texts, strict=False):
        click.echo(f"{format_path(os.path.relpath(path))}: {reason}", err=True)
        if text:
            click.echo("".join(f"    {escape_invisible(line)}\n" for line in text.splitlines()), err=True, nl=False)
    path = format_path(os.path.relpath(conflict.paths[0]))
    click.echo(f"To decide: `{TAKE} fork` or `{TAKE} base` for all, `{TAKE} fork:{path}` for one path.", err=True)


def print_report(report: "MergeReport") -> None:
    def format_list(paths: Sequence[str]) -> str:
        listed = ", ".join(format_path(os.path.relpath(path)) for path in paths[:MAX_LISTED])
        return listed + (f" and {len(paths) - MAX_LISTED} more" if len(paths) > MAX_LISTED else "")

    shown = [path for path in report.paths if not is_git_internal(path)]
    if report.paths:
        click.echo(f"Merged {format_list(shown) or 'the commits'}; `handhold undo` undoes it.")
    else:
        click.echo("There was nothing to merge.")
    if report.branches:
        click.echo(f"The fork's branches are {', '.join(map(escape_invisible, report.branches))}.")
    for note in report.notes:
        click.echo(f"Note: {escape_invisible(note)}.")
    if report.ignored:
        click.echo(f"Not merged, because git ignores it: {format_list(report.ignored)}. `--all` merges it, too.")
    if not report.dropped:
        click.echo(f"The fork {report.fork} was kept; `handhold fork drop {report.fork}` removes it.")


@fork.command()
@add_workspace_options
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@options.sure
@options.as_json
@report_errors
def drop(root: tuple[Path, ...], state: Path | None, names: Sequence[str], sure: bool, as_json: bool) -> int:  # noqa: FBT001
    """Remove forks and everything that was changed in them. This cannot be undone: asks first if anything was."""
    with open_box(root, state) as box:
        chosen = [box.forks.get(name) for name in names]
        unmerged = [line for each in chosen for line in describe_unmerged(each)] if not sure else []
        if unmerged and not confirm_loss(unmerged, "Drop what was not merged?", as_json=as_json):
            return options.EXIT_REFUSED
        for each in chosen:
            each.drop()
    if as_json:
        print_json({"dropped": list(names)})
    return 0


def describe_unmerged(chosen: "Fork") -> Iterator[str]:
    """What would be lost with a fork; nothing if nothing was changed in it."""
    if stats := parse_stats(chosen.diff()):
        yield f"Would be lost with the fork {chosen.name}:"
        yield from format_stats(stats)
