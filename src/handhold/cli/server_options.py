"""Options that `mcp` and `serve` share."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import click

from handhold.cli.options import HUB_OPTIONS, NETWORK_OPTIONS, POLICY_HELP
from handhold.core.choices import (
    BREAKAGES,
    CONFINEMENTS,
    DIALECTS,
    MODES,
    Breakage,
    Confinement,
    Durability,
    Mode,
)

if TYPE_CHECKING:
    from handhold.server.server_config import ServerConfig


class ServerOptions(TypedDict):
    """The values by option name."""

    root: tuple[str, ...]
    read_only: tuple[str, ...]
    dialect: str
    model: str
    state: str | None
    policy: Mode | None
    shell: Confinement
    network: bool
    host: tuple[str, ...]
    credential: tuple[str, ...]
    refuse_broken: Breakage | None
    structured: bool
    budget: int
    hub: str | None
    durable: Durability


FOLDER_TYPE = click.Path(exists=True, file_okay=False, resolve_path=True)
SERVER_OPTIONS = (
    click.option(
        "--root",
        multiple=True,
        type=FOLDER_TYPE,
        help="Workspace root; repeat for several. Default: the current directory.",
    ),
    click.option(
        "--read-only",
        multiple=True,
        type=FOLDER_TYPE,
        help="Additional root that is never written; repeat for several.",
    ),
    click.option(
        "--dialect",
        type=click.Choice([*DIALECTS, "auto"]),
        default="handhold",
        show_default=True,
        help="Tool names, schemas and wording to use.",
    ),
    click.option("--model", default="", help="Model name, required by --dialect auto."),
    click.option(
        "--state",
        type=click.Path(),
        help="Folder for the journal, undo contents and approvals. Default: the user's state folder.",
    ),
    click.option("--policy", type=click.Choice(MODES), help=POLICY_HELP),
    click.option(
        "--shell",
        type=click.Choice(CONFINEMENTS),
        default="contained",
        show_default=True,
        help="What confines commands: Handhold's sandbox, an external sandbox, or nothing.",
    ),
    *NETWORK_OPTIONS,
    click.option("--refuse-broken", type=click.Choice(BREAKAGES), help="Refuse changes that break the syntax."),
    click.option("--structured", is_flag=True, help="Add structured content to results, next to the text."),
    click.option(
        "--budget", type=click.IntRange(min=1000), default=25_000, show_default=True, help="Maximum tokens per result."
    ),
    *HUB_OPTIONS,
)


def add_server_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(SERVER_OPTIONS):
        command = option(command)
    return command


def build_config(options: ServerOptions, **more: Any) -> "ServerConfig":
    from handhold.server.server_config import ServerConfig

    if options["dialect"] == "auto" and not options["model"]:
        raise click.UsageError("--dialect auto requires --model.")
    try:
        return ServerConfig(
            options["root"] or (str(Path.cwd()),),
            read_only=options["read_only"],
            dialect=options["dialect"],
            model=options["model"],
            policy=options["policy"],
            shell=options["shell"],
            network=options["host"] or options["network"],
            credentials=options["credential"],
            refuse_broken=options["refuse_broken"],
            state=options["state"],
            structured=options["structured"],
            budget=options["budget"],
            hub=options["hub"],
            durable=options["durable"],
            **more,
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None
