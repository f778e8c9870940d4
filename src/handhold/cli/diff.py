"""`handhold diff`: the changes of calls as a diff, in colour at a terminal and byte for byte in a pipe."""

from collections.abc import Iterator
from typing import TypedDict, Unpack

import click

from handhold.cli.diffstat import FileDiffStat, format_stats, parse_stats, sum_stats
from handhold.cli.options import (
    ToolboxOptions,
    add_history_options,
    add_hub_reading_options,
    open_toolbox,
    print_json,
)
from handhold.cli.selection import add_selection, select_calls
from handhold.cli.terminal import colour_diff_line, is_stdout_terminal, print_lines
from handhold.core.errors import NothingToUndo
from handhold.core.history import Target
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
@add_selection
@add_history_options
def diff(
    names: tuple[str, ...],
    more: tuple[str, ...],
    turn: str,
    all_of_it: bool,  # noqa: FBT001
    stat: bool,  # noqa: FBT001
    hub: str | None,
    workspace: str | None,
    as_json: bool,  # noqa: FBT001
    **options: Unpack[ToolboxOptions],
) -> int:
    """Show what the session changed, each file once and without what is undone; or what CALL changed: numbers as in the
    log, `5` or `3..7`, or an id.

    With --hub, show what one call of a workspace changed: --workspace shop 7.
    """
    names = (*names, *more)
    if hub:
        number = names[0].removeprefix("#") if len(names) == 1 else ""
        if not (workspace and number.isdecimal()) or turn or all_of_it:
            raise click.UsageError("--hub needs --workspace and the number of a call.")
        from handhold.cli.hub_reading import connect, read_diff

        with connect(hub) as client:
            text = read_diff(client, workspace, int(number))
    else:
        chosen, target = select_calls(options, names, turn, all_of_it=all_of_it)
        with open_toolbox(chosen, for_history=True) as box:
            text = box.diff(target := target or Target.session())
        if not text:
            raise NothingToUndo(f"no change of {target} is left")
    file_stats = parse_stats(text)
    if as_json:
        added, removed = sum_stats(file_stats)
        print_json(DiffJSON(added=added, removed=removed, files=file_stats, diff=text))
    elif stat:
        for line in format_stats(file_stats):
            click.echo(line)
    elif is_stdout_terminal():
        print_lines(colour_diff(text))
    else:
        click.echo(text, nl=False)
    return 0


def colour_diff(text: str) -> Iterator[str]:
    return (colour_diff_line(escape_invisible(line)) for line in text.removesuffix("\n").split("\n"))
