"""What calls changed, as a diff: in colour where a terminal looks, byte for byte where it is somebody's data."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Unpack

import click

from handhold.cli.diffstat import listed, signs, stats, summed
from handhold.cli.screen import coloured, looked_at
from handhold.cli.where import Where, meant, on_a_toolbox, opened, show
from handhold.core.text.visible import visible


@click.command()
@click.option("--stat", is_flag=True, help="Only how many lines of which files.")
@meant
@on_a_toolbox
def diff(one: str, turn: str, all_of_it: bool, stat: bool, as_json: bool, **where: Unpack[Where]) -> int:  # noqa: FBT001
    """Show what the last change did, or a call, a turn, the session."""
    with opened(where) as box:
        text = box.diff(call=one, turn=turn, session=all_of_it)
    counted = stats(text)
    added, removed = summed(counted)
    if as_json:
        show({"added": added, "removed": removed, "files": [asdict(each) for each in counted], "diff": text})
    elif stat:
        for line in (*listed(counted), f"{in_all(len(counted))}: {signs(added, removed) or 'no lines'}"):
            click.echo(line)
    elif looked_at():
        for line in drawn(text):
            click.echo(line)
    else:
        click.echo(text, nl=False)
    return 0


def drawn(text: str) -> Iterator[str]:
    return (coloured(visible(line)) for line in text.removesuffix("\n").split("\n"))


def in_all(count: int) -> str:
    return "1 file" if count == 1 else f"{count:,} files"
