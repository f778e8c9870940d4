"""A project's own allow rules count once somebody has looked at them. This shows all rules, and remembers that."""

import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from handhold.cli import where
from handhold.core.text.visible import on_one_line

if TYPE_CHECKING:
    from handhold.world.settings.reading import Said


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path), default=".")
@click.option("--forget", is_flag=True, help="From now on its allow rules do not count.")
@where.as_json
@where.told
def trust(folder: Path, forget: bool, as_json: bool) -> int:  # noqa: FBT001
    """Show the rules in FOLDER/handhold.toml, and let its allow rules count until the file changes.

    Its deny and ask rules count without this. An allow rule spares the mode's question; it cannot allow what your own
    settings forbid.
    """
    from handhold.world.settings import NAME
    from handhold.world.settings.reading import MOST_OF_PROJECT, read, said_in
    from handhold.world.state import trust as records

    root = os.path.realpath(folder)
    if forget:
        known = records.forget(root)
        if as_json:
            where.show({"folder": root, "trusted": False, "before": known})
        else:
            click.echo(f"{on_one_line(root)} {'is no longer trusted' if known else 'was not trusted'}.")
        return 0
    file = os.path.join(root, NAME)
    data = read(file, follow=False, most=MOST_OF_PROJECT)
    if data is None:
        raise FileNotFoundError(f"There is no {NAME} in {on_one_line(root)}.")
    said = said_in(data, file, of_project=True)
    records.record(root, data)
    if as_json:
        rules = [{name: value for name, value in asdict(rule).items() if value} for rule in said.rules]
        where.show({"folder": root, "trusted": True, "file": file, "mode": said.mode, "rules": rules})
        return 0
    for line in shown(said):
        click.echo(on_one_line(line))
    click.echo(f"{on_one_line(file)} counts from now on, until it changes.")
    return 0


def shown(said: "Said") -> Iterator[str]:
    if said.mode:
        yield f"mode {said.mode}, where it would be wider"
    for rule in said.rules:
        yield f"{rule.verdict} {', '.join(rule.verbs)}: {', '.join((*rule.paths, *rule.commands, *rule.hosts))}"
        if rule.but:
            yield f"    but {', '.join(rule.but)}"
        yield f"    {rule.name}, because {rule.because}"
    if not said.mode and not said.rules:
        yield "It says nothing."
