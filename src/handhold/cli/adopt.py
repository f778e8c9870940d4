"""`handhold adopt`: take changes of others into the journal."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

import click

from handhold.cli import options
from handhold.cli.options import print_json, report_errors
from handhold.cli.state import default_root
from handhold.cli.watch import describe


class AdoptJSON(TypedDict):
    paths: list[str]  # that can be undone
    not_kept: dict[str, str]  # that cannot, and why


JSON_OUTPUT = {"": AdoptJSON}


@click.command()
@options.root
@options.state
@options.session
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@options.as_json
@report_errors
def adopt(
    root: tuple[Path, ...],
    state: Path | None,
    session: str,
    paths: Sequence[Path],
    as_json: bool,  # noqa: FBT001
) -> int:
    """Record what others changed at PATHS as one call of this session.

    Only what the workspace's baseline has can be undone. `handhold watch` makes one.
    """
    from handhold.core.ports.journal import Call
    from handhold.toolbox import Toolbox

    folder = root[0] if root else default_root(state)
    with Toolbox.open(folder, state=state, session=session) as box:
        places = [box.files.resolve(str(path.absolute())) for path in paths]
        call = Call(session, "", "", "adopt", json.dumps({"paths": [str(path) for path in paths]}), "adopted")
        recorded = box.snapshots.adopt(places, call)
    if as_json:
        print_json(AdoptJSON(paths=list(recorded.paths), not_kept=recorded.not_kept))
    else:
        click.echo(describe(recorded.paths, list(recorded.not_kept)))
    return 0
