"""`handhold tools`: the tools of a dialect, as a model sees them."""

import click

from handhold.cli.options import as_json, dialect, print_json
from handhold.cli.terminal import format_table
from handhold.core.results import ToolSpec

JSON_OUTPUT = {"": list[ToolSpec]}


@click.command()
@dialect
@as_json
def tools(dialect: str, as_json: bool) -> None:  # noqa: FBT001
    """List the tools of a dialect. With --json, print their names, descriptions and schemas as a model gets them."""
    from handhold.factory import load_dialect

    specs = load_dialect(dialect).specs
    if as_json:
        print_json(list(specs))
        return
    for line in format_table([(spec.name, spec.title, ", ".join(spec.input_schema["properties"])) for spec in specs]):
        click.echo(line)
