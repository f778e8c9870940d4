"""`handhold forget`: remove the copies that snapshots keep."""

from pathlib import Path
from typing import TypedDict

import click

from handhold.cli import options
from handhold.cli.options import print_json, report_errors
from handhold.cli.state import default_root


class ForgetJSON(TypedDict):
    forgotten: str  # the path of which no copies are kept any more


JSON_OUTPUT = {"": ForgetJSON}


@click.command()
@options.root
@options.state
@click.argument("path", required=False, type=click.Path(path_type=Path))
@options.as_json
@report_errors
def forget(root: tuple[Path, ...], state: Path | None, path: Path | None, as_json: bool) -> int:  # noqa: FBT001
    """Remove the copies that snapshots keep of the workspace, or of PATH.

    What was recorded before can still be undone.
    """
    from handhold.toolbox import Toolbox

    folder = root[0] if root else default_root(state)
    with Toolbox.open(folder, state=state) as box:
        place = box.files.resolve(str(path.absolute())) if path else ""
        box.snapshots.forget(place)
    if as_json:
        print_json(ForgetJSON(forgotten=place or str(folder)))
    else:
        click.echo(f"Removed the copies of {place or folder}.")
    return 0
