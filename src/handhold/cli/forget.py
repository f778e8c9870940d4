"""`handhold forget`: remove what is kept of files, for snapshots and for undo."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import click

from handhold.cli import options
from handhold.cli.options import print_json, report_errors
from handhold.cli.prompt import confirm_loss
from handhold.cli.state import default_root
from handhold.core.text.path_escaping import format_path, unescape_ambiguous

if TYPE_CHECKING:
    from handhold.toolbox import Toolbox


class ForgottenJSON(TypedDict):
    forgotten: str  # the path of which no copies are kept any more, or the hub


MAX_NAMED = 10  # calls or files in a line
JSON_OUTPUT = {"": ForgottenJSON}


@click.command()
@options.root
@options.state
@click.argument("path", required=False, type=click.Path(path_type=Path))
@click.option("--hub", is_flag=True, help="Give up the hub instead: keep nothing for it, and refuse no change for it.")
@options.sure
@options.as_json
@report_errors
def forget(
    root: tuple[Path, ...],
    state: Path | None,
    path: Path | None,
    hub: bool,  # noqa: FBT001
    sure: bool,  # noqa: FBT001
    as_json: bool,  # noqa: FBT001
) -> int:
    """Remove the copies that snapshots keep of the workspace, or of PATH, and the contents for undo.

    Calls that changed something there can no longer be undone: asks first, and names them and the files of which these
    are the only copies. The journal itself stays.
    """
    from handhold.toolbox import Toolbox

    if hub and path:
        raise click.UsageError("--hub is for the whole workspace.")
    folder = root[0] if root else default_root(state)
    with Toolbox.open(folder, state=state) as box:
        if hub:
            return _give_up_hub(box, as_json=as_json)
        place = box.files.resolve(str(path.absolute())) if path else ""
        losses = [] if sure else list(describe_losses(box, place))
        if losses and not confirm_loss(losses, "Forget this?", as_json=as_json):
            return options.EXIT_REFUSED
        box.snapshots.forget(place)
    if as_json:
        print_json(ForgottenJSON(forgotten=place or str(folder)))
    else:
        click.echo(f"Removed the copies and undo contents of {format_path(place or str(folder))}.")
    return 0


def describe_losses(box: "Toolbox", place: str) -> Iterator[str]:
    """The calls that could no longer be undone, and the deleted files that exist nowhere else; nothing if none."""
    calls: list[str] = []
    copies: list[str] = []
    for entry in box.log(everyone=True):
        changes = box.store.changes_of(entry.seq) if entry.changed and entry.kept and not entry.takes_back else ()
        inside = [change.path for change in changes if not place or f"{change.path}/".startswith(f"{place}/")]
        calls += [str(entry.seq)] if inside else []
        deleted = (change.path for change in changes if change.after is None and change.path in inside)
        copies += [path for path in deleted if not os.path.lexists(unescape_ambiguous(path))]
    if calls:
        yield f"Could no longer be undone: {_list_some(calls, 'call')}."
    if copies:
        named = [os.path.relpath(path) for path in dict.fromkeys(copies)]
        yield f"Only copy, would be lost: {_list_some(named, 'file')}."


def _list_some(names: Sequence[str], what: str) -> str:
    more = f" and {len(names) - MAX_NAMED:,} more" if len(names) > MAX_NAMED else ""
    return f"{len(names):,} {what}{'' if len(names) == 1 else 's'} ({', '.join(names[:MAX_NAMED])}{more})"


def _give_up_hub(box: "Toolbox", *, as_json: bool) -> int:
    status = box.store.give_up_hub()
    if as_json:
        print_json(ForgottenJSON(forgotten=status.hub if status else ""))
    elif status is None:
        click.echo("This workspace has no hub.")
    else:
        click.echo(f"Gave up the hub at {status.hub}, which has {status.acknowledged} of {status.head} records.")
    return 0
