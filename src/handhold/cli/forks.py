"""`handhold forks`: list the forks of a workspace."""

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import click

from handhold.cli import options
from handhold.cli.diffstat import colour_counts, count_files, format_counts, format_file_count, parse_stats, sum_stats
from handhold.cli.fork_options import add_workspace_options, open_box
from handhold.cli.options import format_error, print_json, report_errors
from handhold.cli.terminal import pad
from handhold.core.errors import ForkUnavailable, ToolError
from handhold.core.text.display_text import escape_invisible
from handhold.logs import log_swallowed

if TYPE_CHECKING:
    from handhold.forks import Fork


class ForkJSON(TypedDict):
    name: str
    created: float  # seconds since 1970
    running: bool
    files: int  # that it changed
    added: int  # lines
    removed: int
    last_run: "LastRunJSON | None"  # the last command that ended in it


class LastRunJSON(TypedDict):
    command: list[str]
    status: int  # a negative number is a signal's
    ended: float  # seconds since 1970
    seconds: float


JSON_OUTPUT = {"": list[ForkJSON]}
MAX_COMMAND_CHARS = 60
UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


@click.command()
@add_workspace_options
@options.as_json
@report_errors
def forks(root: tuple[Path, ...], state: Path | None, as_json: bool) -> int:  # noqa: FBT001
    """The same as `handhold fork list`."""
    return print_forks(root, state, as_json=as_json)


def print_forks(root: tuple[Path, ...], state: Path | None, *, as_json: bool) -> int:
    found: list[ForkJSON] = []
    with open_box(root, state) as box:
        for each in box.forks:
            try:
                found.append(describe(each))
            except ForkUnavailable:  # dropped just now
                log_swallowed()
            except (ToolError, OSError) as error:  # the others can be listed all the same
                click.echo(f"{each.name}: {format_error(error)}", err=True)
    if as_json:
        print_json(found)
        return 0
    width = max((len(each["name"]) for each in found), default=0)
    for each in found:
        counts = colour_counts(format_counts(each["added"], each["removed"]))
        changed = f"{format_file_count(each['files'])} {counts}".rstrip() if each["files"] else "unchanged"
        running = "running" if each["running"] else "idle"
        now = time.time()
        ran = f"  {describe_last_run(each['last_run'], now)}" if each["last_run"] else ""
        click.echo(f"{pad(each['name'], width)}  {running:7}  {format_age(now - each['created']):>6}  {changed}{ran}")
    if not found:
        click.echo("There are no forks. `handhold fork new NAME` makes one.")
    return 0


def describe(fork: "Fork") -> ForkJSON:
    stats = parse_stats(fork.diff())
    added, removed = sum_stats(stats)
    return ForkJSON(
        name=fork.name,
        created=fork.created,
        running=fork.is_running,
        files=count_files(stats),
        added=added,
        removed=removed,
        last_run=format_last_run(fork),
    )


def format_last_run(fork: "Fork") -> LastRunJSON | None:
    last = fork.last_run
    return last and LastRunJSON(command=[*last.command], status=last.status, ended=last.ended, seconds=last.seconds)


def describe_last_run(run: LastRunJSON, now: float) -> str:
    ended = f"signal {-run['status']}" if run["status"] < 0 else f"exit {run['status']}"
    command = escape_invisible(shlex.join(run["command"]))
    shown = command if len(command) <= MAX_COMMAND_CHARS else f"{command[:MAX_COMMAND_CHARS]}…"
    return f"{shown}: {ended}, {format_age(now - run['ended'])} ago"


def format_age(seconds: float) -> str:
    size, unit = next((each for each in UNITS if seconds >= each[0]), UNITS[-1])
    return f"{max(0, int(seconds // size))} {unit}"
