"""What calls changed, as a diff: in colour where a terminal looks, byte for byte where it is somebody's data."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Unpack

import click

from handhold.cli.diffstat import format_counts, format_stats, parse_stats, sum_stats
from handhold.cli.options import (
    ToolboxOptions,
    add_call_options,
    add_toolbox_options,
    build_target,
    open_toolbox,
    print_json,
)
from handhold.cli.terminal import colour_diff_line, is_stdout_terminal
from handhold.core.text.display_text import escape_invisible


@click.command()
@click.option("--stat", is_flag=True, help="Only how many lines of which files.")
@add_call_options
@add_toolbox_options
def diff(one: str, turn: str, all_of_it: bool, stat: bool, as_json: bool, **options: Unpack[ToolboxOptions]) -> int:  # noqa: FBT001
    """Show what the last change did, or a call, a turn, the session."""
    with open_toolbox(options) as box:
        text = box.diff(build_target(one, turn, all_of_it=all_of_it))
    file_stats = parse_stats(text)
    added, removed = sum_stats(file_stats)
    if as_json:
        print_json({"added": added, "removed": removed, "files": [asdict(each) for each in file_stats], "diff": text})
    elif stat:
        for line in (
            *format_stats(file_stats),
            f"{format_file_count(len(file_stats))}: {format_counts(added, removed) or 'no lines'}",
        ):
            click.echo(line)
    elif is_stdout_terminal():
        for line in colour_diff(text):
            click.echo(line)
    else:
        click.echo(text, nl=False)
    return 0


def colour_diff(text: str) -> Iterator[str]:
    return (colour_diff_line(escape_invisible(line)) for line in text.removesuffix("\n").split("\n"))


def format_file_count(count: int) -> str:
    return "1 file" if count == 1 else f"{count:,} files"
