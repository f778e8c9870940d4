"""Options that several commands share: the toolbox, the calls, and JSON output."""

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypedDict

import click

from handhold.cli import candidates
from handhold.cli.progress import show_progress
from handhold.cli.state import default_root, open_store
from handhold.core.choices import CONFINEMENTS, DIALECTS, DURABILITIES, FOREIGN, MODES, Confinement, Durability, Mode
from handhold.core.errors import (
    Denied,
    NoPendingApproval,
    NotApproved,
    NothingToUndo,
    SettingsBroken,
    StateDamaged,
    ToolError,
)
from handhold.core.text.display_text import escape_invisible
from handhold.dialects.error_messages import format_plain_error, format_subject

if TYPE_CHECKING:
    from handhold.core.ports.approvals import Approver
    from handhold.core.ports.dialect import Dialect
    from handhold.toolbox import Toolbox

EXIT_REFUSED = 1
CommandFunction = Callable[..., Any]
CommandDecorator = Callable[[CommandFunction], CommandFunction]


class ToolboxOptions(TypedDict):
    """The options that select and configure a toolbox."""

    root: tuple[Path, ...]
    dialect: "str | Dialect"
    session: str
    state: Path | None
    policy: Mode | None
    shell: Confinement


class ErrorFacts(TypedDict):
    code: str
    error_source: str
    message: str
    facts: dict[str, Any]


class ErrorJSON(TypedDict):
    """What every command prints with `--json` if it fails."""

    error: ErrorFacts


POLICY_HELP = "Policy mode: what is allowed without asking. Default: the mode in your settings, else edit."
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
sure = click.option("--yes", "-y", "sure", is_flag=True, help="Do not ask for confirmation.")
root = click.option(
    "--root",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Workspace root; repeat for several. Default: the current directory.",
)
state = click.option(
    "--state",
    type=click.Path(path_type=Path),
    help="Folder for the journal, undo contents and approvals. Default: the user's state folder.",
)
dialect = click.option(
    "--dialect",
    type=click.Choice(DIALECTS),
    default="handhold",
    show_default=True,
    help="Tool names, schemas and wording to use.",
)
policy = click.option("--policy", type=click.Choice(MODES), help=POLICY_HELP)
policy_of_call = click.option(
    "--policy",
    type=click.Choice(MODES),
    help=f"{POLICY_HELP.removesuffix('edit.')}ask at a terminal and edit elsewhere.",
)
LATEST_SESSION = "-"
FIRST_LOOK = 100  # entries in which the latest call of a session is looked for; then ten times as many
session = click.option(
    "--session",
    default="default",
    show_default=True,
    help=f"Session name; {LATEST_SESSION} selects the session with the latest call.",
    shell_complete=candidates.complete_session,
)
session_of_history = click.option(
    "--session",
    default=LATEST_SESSION,
    help="Session name. Default: the session with the latest call.",
    shell_complete=candidates.complete_session,
)
shell = click.option(
    "--shell",
    type=click.Choice(CONFINEMENTS),
    default="contained",
    show_default=True,
    help="What confines commands: Handhold's sandbox, an external sandbox, or nothing.",
)
credential = click.option(
    "--credential",
    multiple=True,
    metavar="HOST",
    help="Let git log in at this host with your own credential helper; repeat for several.",
)
NETWORK_OPTIONS = (
    click.option("--network", is_flag=True, help="Allow network access for commands."),
    click.option("--host", multiple=True, help="Allow network access to this host; repeat for several."),
    credential,
)
HUB_OPTIONS = (
    click.option("--hub", metavar="URL", help="Ship the journal to this hub, with the token in HANDHOLD_HUB_TOKEN."),
    click.option(
        "--durable",
        type=click.Choice(DURABILITIES),
        default="local",
        show_default=True,
        help="Who must have a change before it is acknowledged.",
    ),
)
HUB_READING_OPTIONS = (
    click.option("--hub", metavar="URL", help="Read from this hub, with a reader's token in HANDHOLD_HUB_TOKEN."),
    click.option("--workspace", help="With --hub: a workspace of the hub. Default: all."),
)


def add_hub_reading_options(command: CommandFunction) -> CommandFunction:
    """Add the options that select a hub to read from."""
    for option in reversed(HUB_READING_OPTIONS):
        command = option(command)
    return command


def add_network_options(command: CommandFunction) -> CommandFunction:
    """Add the options that say what commands may reach, and where git may log in."""
    for option in reversed(NETWORK_OPTIONS):
        command = option(command)
    return command


def open_toolbox(
    options: ToolboxOptions,
    approver: "Approver | None" = None,
    *,
    network: "bool | Sequence[str]" = False,
    credentials: Sequence[str] = (),
    hub: str | None = None,
    durable: Durability = "local",
    for_history: bool = False,
) -> "Toolbox":
    """`for_history` is for commands that only look at recorded changes and undo them.

    Raises ToolError if a root or the state folder cannot be used, UsageError for an option that is not valid.
    """
    from handhold.config import ToolboxConfig
    from handhold.factory import open_workspace
    from handhold.toolbox import Toolbox

    try:
        with show_progress():  # opening first rolls back what a killed process left unfinished
            config = ToolboxConfig(
                root=options["root"] or (default_root(options["state"]),),
                dialect=options["dialect"],
                session=resolve_session(options),
                state=options["state"],
                policy=options["policy"],
                approver=approver,
                shell=options["shell"],
                network=network,
                credentials=credentials,
                hub=hub,
                durable=durable,
            )
            return Toolbox(open_workspace(config, for_history=for_history))
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def resolve_session(options: ToolboxOptions) -> str:
    if options["session"] != LATEST_SESSION:
        return options["session"]
    with open_store(options["root"], options["state"]) as store:
        last, entries = FIRST_LOOK, store.salvage_entries(session=None, last=FIRST_LOOK)[0]
        while not (sessions := [each.call.session for each in entries if each.call.tool != FOREIGN]):
            if len(entries) < last:
                return "default"
            last *= 10
            entries = store.salvage_entries(session=None, last=last)[0]
    return sessions[-1]


def add_toolbox_options(
    command: Callable[..., int],
    policy: CommandDecorator = policy,
    session: CommandDecorator = session_of_history,
) -> Callable[..., None]:
    """Add the toolbox options and `--json`. The command returns its exit status."""
    run = report_errors(command)
    for option in (as_json, shell, policy, state, session, dialect, root):
        run = option(run)
    return run


def add_history_options(command: Callable[..., int]) -> Callable[..., None]:
    """Add the options of a command that reads or undoes what was recorded, and `--json`. It returns its exit status."""

    @wraps(command)
    def run(*args: Any, root: tuple[Path, ...], state: Path | None, session: str, **more: Any) -> int:
        given = ToolboxOptions(
            root=root, state=state, session=session, dialect="handhold", policy=None, shell="contained"
        )
        return command(*args, **more, **given)

    found = report_errors(run)
    for option in (as_json, state, session_of_history, root):
        found = option(found)
    return found


def report_errors(command: Callable[..., int]) -> Callable[..., None]:
    """Report errors as text or JSON and exit. The command must have an `as_json` argument."""

    @wraps(command)
    def run(*args: Any, **options: Any) -> None:
        try:
            status = command(*args, **options)
        except BrokenPipeError:
            raise  # the reader closed the pipe, as `head` does
        except (ToolError, OSError) as error:
            exit_with_error(error, as_json=options["as_json"])
        sys.exit(status)

    return run


def exit_with_error(error: ToolError | OSError, *, as_json: bool) -> NoReturn:
    """Print the error and exit."""
    if not as_json:
        raise click.ClickException(format_error(error)) from error
    code, error_source = (
        (error.code, error.error_source.value) if isinstance(error, ToolError) else ("OS_ERROR", "infra")
    )
    facts = error.facts() if isinstance(error, ToolError) else {}
    found = ErrorFacts(code=code, error_source=error_source, message=format_error(error), facts=facts)
    print_json(ErrorJSON(error=found))
    sys.exit(EXIT_REFUSED)


def format_error(error: ToolError | OSError) -> str:
    if isinstance(error, ToolError):
        text = f"{error.code}: {format_tool_error(error)}"
    elif error.filename and error.strerror:
        text = f"{os.fsdecode(error.filename)}: {error.strerror}"
    else:
        text = str(error)
    return escape_invisible(text)


def format_tool_error(error: ToolError) -> str:
    """The error for a person, who can do more about some of them than a model."""
    match error:
        case SettingsBroken(path=path, because=because):
            return f"The settings in {path} are invalid: {because}. Correct or remove the file."
        case NoPendingApproval(wanted=wanted, because=because):
            return f"Cannot answer {wanted}: {because}. `handhold approve` lists the pending approvals."
        case NotApproved(because=because, asked=True):
            return f"{format_subject(error)} was not approved. Reason for asking: {because.rstrip('.')}."
        case NotApproved(because=because, approval=approval) if approval:
            how = f"Allow it with `handhold approve {approval}`, then repeat the command."
            return f"{format_subject(error)} needs approval: {because.rstrip('.')}. {how}"
        case Denied(because=because, of_command=True) | Denied(because=because, rule="mode read-only"):
            return f"{because[:1].upper()}{because[1:].rstrip('.')}."
        case StateDamaged(path=path, because=because):
            return f"The stored state at {path} is damaged: {because}. `handhold log --verify` checks the journal."
        case NothingToUndo(wanted=reason):
            sentence = reason[:1].upper() + reason[1:]
            return f"{sentence}{'' if sentence.endswith(('.', '?')) else '.'} `handhold log` lists the calls."
        case _:
            return format_plain_error(error)


def print_json(value: Any) -> None:
    """Print ASCII-only JSON, because a file name may contain bytes that are not valid text.

    A command's `JSON_OUTPUT` declares what it prints, by the option that selects it. The reference lists these fields.
    """
    click.echo(json.dumps(value, indent=2, default=asdict))
