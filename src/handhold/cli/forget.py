"""`handhold forget`: remove what is kept of files, for snapshots and for undo."""

from pathlib import Path
from typing import TypedDict

import click

from handhold.cli import options
from handhold.cli.options import print_json, report_errors
from handhold.cli.state import default_root


class ForgottenJSON(TypedDict):
    forgotten: str  # the path of which no copies are kept any more


JSON_OUTPUT = {"": ForgottenJSON}


@click.command()
@options.root
@options.state
@click.argument("path", required=False, type=click.Path(path_type=Path))
@options.as_json
@report_errors
def forget(root: tuple[Path, ...], state: Path | None, path: Path | None, as_json: bool) -> int:  # noqa: FBT001
    """Remove the copies that snapshots keep of the workspace, or of PATH, and the contents for undo.

    Calls that changed something there can no longer be undone. The journal itself stays.
    """
    from handhold.toolbox import Toolbox

    folder = root[0] if root else default_root(state)
    with Toolbox.open(folder, state=state) as box:
        place = box.files.resolve(str(path.absolute())) if path else ""
        box.snapshots.forget(place)
    if as_json:
        print_json(ForgottenJSON(forgotten=place or str(folder)))
    else:
        click.echo(f"Removed the copies and undo contents of {place or folder}.")
    return 0
