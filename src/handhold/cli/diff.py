"""`handhold diff`: the changes of calls as a diff, in colour at a terminal and byte for byte in a pipe."""

from collections.abc import Iterator
from typing import TypedDict, Unpack

import click

from handhold.cli.diffstat import FileDiffStat, format_stats, parse_stats, sum_stats
from handhold.cli.options import (
    ToolboxOptions,
    add_call_options,
    add_hub_reading_options,
    add_toolbox_options,
    build_target,
    open_toolbox,
    print_json,
)
from handhold.cli.terminal import colour_diff_line, is_stdout_terminal
from handhold.core.text.display_text import escape_invisible


class DiffJSON(TypedDict):
    added: int
    removed: int
    files: list[FileDiffStat]
    diff: str


JSON_OUTPUT = {"": DiffJSON}


@click.command()
@click.option("--stat", is_flag=True, help="Show only the number of changed lines in each file.")
@add_hub_reading_options
@add_call_options
@add_toolbox_options
def diff(
    one: str,
    turn: str,
    all_of_it: bool,  # noqa: FBT001
    stat: bool,  # noqa: FBT001
    hub: str | None,
    workspace: str | None,
    as_json: bool,  # noqa: FBT001
    **options: Unpack[ToolboxOptions],
) -> int:
    """Show the last change as a diff, or the changes of a call, a turn or the session.

    With --hub, show those of one call of a workspace: --workspace shop --call '#7'.
    """
    if hub:
        number = one.removeprefix("#")
        if not (workspace and number.isdecimal()) or turn or all_of_it:
            raise click.UsageError("--hub needs --workspace and --call '#NUMBER'.")
        from handhold.cli.hub_reading import connect, read_diff

        with connect(hub) as client:
            text = read_diff(client, workspace, int(number))
    else:
        with open_toolbox(options) as box:
            text = box.diff(build_target(one, turn, all_of_it=all_of_it))
    file_stats = parse_stats(text)
    if as_json:
        added, removed = sum_stats(file_stats)
        print_json(DiffJSON(added=added, removed=removed, files=file_stats, diff=text))
    elif stat:
        for line in format_stats(file_stats):
            click.echo(line)
    elif is_stdout_terminal():
        for line in colour_diff(text):
            click.echo(line)
    else:
        click.echo(text, nl=False)
    return 0


def colour_diff(text: str) -> Iterator[str]:
    return (colour_diff_line(escape_invisible(line)) for line in text.removesuffix("\n").split("\n"))
