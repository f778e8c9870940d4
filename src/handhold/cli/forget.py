"""`handhold forget`: remove what is kept of files, for snapshots and for undo."""

from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import click

from handhold.cli import options
from handhold.cli.options import print_json, report_errors
from handhold.cli.state import default_root

if TYPE_CHECKING:
    from handhold.toolbox import Toolbox


class ForgottenJSON(TypedDict):
    forgotten: str  # the path of which no copies are kept any more, or the hub


JSON_OUTPUT = {"": ForgottenJSON}


@click.command()
@options.root
@options.state
@click.argument("path", required=False, type=click.Path(path_type=Path))
@click.option("--hub", is_flag=True, help="Give up the hub instead: keep nothing for it, and refuse no change for it.")
@options.as_json
@report_errors
def forget(root: tuple[Path, ...], state: Path | None, path: Path | None, hub: bool, as_json: bool) -> int:  # noqa: FBT001
    """Remove the copies that snapshots keep of the workspace, or of PATH, and the contents for undo.

    Calls that changed something there can no longer be undone. The journal itself stays.
    """
    from handhold.toolbox import Toolbox

    if hub and path:
        raise click.UsageError("--hub is for the whole workspace.")
    folder = root[0] if root else default_root(state)
    with Toolbox.open(folder, state=state) as box:
        if hub:
            return _give_up_hub(box, as_json=as_json)
        place = box.files.resolve(str(path.absolute())) if path else ""
        box.snapshots.forget(place)
    if as_json:
        print_json(ForgottenJSON(forgotten=place or str(folder)))
    else:
        click.echo(f"Removed the copies and undo contents of {place or folder}.")
    return 0


def _give_up_hub(box: "Toolbox", *, as_json: bool) -> int:
    status = box.store.give_up_hub()
    if as_json:
        print_json(ForgottenJSON(forgotten=status.hub if status else ""))
    elif status is None:
        click.echo("This workspace has no hub.")
    else:
        click.echo(f"Gave up the hub at {status.hub}, which has {status.acknowledged} of {status.head} records.")
    return 0
