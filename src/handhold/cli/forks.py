"""`handhold forks`: list the forks of a workspace."""

import time
from pathlib import Path

import click

from handhold.cli import options
from handhold.cli.diffstat import colour_counts, count_files, format_counts, format_file_count, parse_stats, sum_stats
from handhold.cli.fork import ForkJSON, add_workspace_options, open_box
from handhold.cli.options import print_json, report_errors
from handhold.cli.terminal import pad

JSON_OUTPUT = {"": list[ForkJSON]}
UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


@click.command()
@add_workspace_options
@options.as_json
@report_errors
def forks(root: tuple[Path, ...], state: Path | None, as_json: bool) -> int:  # noqa: FBT001
    """List the forks: what each changed, since when, and whether something runs in it."""
    found: list[ForkJSON] = []
    with open_box(root, state) as box:
        for each in box.forks:
            stats = parse_stats(each.diff())
            added, removed = sum_stats(stats)
            found.append(
                ForkJSON(
                    name=each.name,
                    created=each.created,
                    running=each.is_running,
                    files=count_files(stats),
                    added=added,
                    removed=removed,
                )
            )
    if as_json:
        print_json(found)
        return 0
    width = max((len(each["name"]) for each in found), default=0)
    for each in found:
        counts = colour_counts(format_counts(each["added"], each["removed"]))
        changed = f"{format_file_count(each['files'])} {counts}".rstrip() if each["files"] else "unchanged"
        running = "running" if each["running"] else "idle"
        click.echo(
            f"{pad(each['name'], width)}  {running:7}  {format_age(time.time() - each['created']):>6}  {changed}"
        )
    if not found:
        click.echo("There are no forks. `handhold fork NAME -- COMMAND` makes one.")
    return 0


def format_age(seconds: float) -> str:
    size, unit = next((each for each in UNITS if seconds >= each[0]), UNITS[-1])
    return f"{max(0, int(seconds // size))} {unit}"
