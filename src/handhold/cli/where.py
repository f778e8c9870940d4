"""The options that commands share: which toolbox is meant, which calls, and JSON instead of words."""

import json
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypedDict

import click

from handhold.cli import candidates
from handhold.cli.progress import watched
from handhold.cli.state import stored
from handhold.core.choices import CONFINEMENTS, DIALECTS, MODES, Confinement, Mode
from handhold.core.errors import ToolError
from handhold.core.ports import Approver
from handhold.core.text.visible import visible
from handhold.dialects.plain import plain

if TYPE_CHECKING:
    from handhold.toolbox import Toolbox

REFUSED = 1
Command = Callable[..., Any]


class Where(TypedDict):
    """The options that say which toolbox is meant."""

    root: tuple[Path, ...]
    dialect: str
    session: str
    state: Path | None
    policy: Mode | None
    shell: Confinement


as_json = click.option("--json", "as_json", is_flag=True, help="For programs: JSON instead of words.")
root = click.option(
    "--root",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The workspace; several may be given. Default: the current folder.",
)
state = click.option(
    "--state", type=click.Path(path_type=Path), help="Where the journal lives, instead of the user's state folder."
)
dialect = click.option("--dialect", type=click.Choice(DIALECTS), default="handhold", show_default=True)
policy = click.option("--policy", type=click.Choice(MODES), help="How much happens without a question.")
session = click.option(
    "--session",
    default="default",
    show_default=True,
    help="The conversation that is meant; - is the one that called last.",
    shell_complete=candidates.sessions,
)
shell = click.option(
    "--shell",
    type=click.Choice(CONFINEMENTS),
    default="contained",
    show_default=True,
    help="What confines commands: Handhold, whatever it runs in, or nothing.",
)
CALLS = (
    click.option(
        "--call", "one", default="", help="One call, by id or as #number.", shell_complete=candidates.call_ids
    ),
    click.option("--turn", default="", help="All calls of a turn.", shell_complete=candidates.turns),
    click.option("--all", "all_of_it", is_flag=True, help="The whole session."),
)


def meant(command: Command) -> Command:
    """The options that say which calls are meant."""
    for option in reversed(CALLS):
        command = option(command)
    return command


def opened(where: Where, approver: Approver | None = None) -> "Toolbox":
    """ToolError if the folder or the state cannot be used."""
    from handhold.toolbox import Toolbox

    with watched():  # what a dead process left is taken back first
        return Toolbox.open(
            where["root"] or (Path.cwd(),),
            dialect=where["dialect"],
            session=session_of(where),
            state=where["state"],
            policy=where["policy"],
            approver=approver,
            shell=where["shell"],
        )


def session_of(where: Where) -> str:
    if where["session"] != "-":
        return where["session"]
    with stored(where["root"], where["state"]) as store:
        last = store.entries(last=1)
    return last[-1].call.session if last else "default"


def on_a_toolbox(command: Callable[..., int]) -> Callable[..., None]:
    """The options that a toolbox takes, and JSON; the command's number is its exit status."""
    run = told(command)
    for option in (as_json, shell, policy, state, session, dialect, root):
        run = option(run)
    return run


def told(command: Callable[..., int]) -> Callable[..., None]:
    """What a command cannot do, told in words or as JSON; with `as_json` among its arguments."""

    @wraps(command)
    def run(*args: Any, **options: Any) -> None:
        try:
            status = command(*args, **options)
        except BrokenPipeError:
            raise  # whoever was shown it did not look to the end
        except (ToolError, OSError) as error:
            refuse(error, as_json=options["as_json"])
        sys.exit(status)

    return run


def refuse(error: ToolError | OSError, *, as_json: bool) -> NoReturn:
    """What could not be done, and the end."""
    if not as_json:
        raise click.ClickException(in_words(error)) from error
    code, blame = (error.code, error.blame.value) if isinstance(error, ToolError) else ("OS_ERROR", "infra")
    facts = error.facts() if isinstance(error, ToolError) else {}
    show({"error": {"code": code, "blame": blame, "message": in_words(error), "facts": facts}})
    sys.exit(REFUSED)


def in_words(error: ToolError | OSError) -> str:
    said = f"{error.code}: {plain(error)}" if isinstance(error, ToolError) else str(error)
    return visible(said)


def show(value: Any) -> None:
    """JSON, for programs. A name may hold bytes that are no text: all that is not ASCII is spelled out."""
    click.echo(json.dumps(value, indent=2))
