"""The options that say what a server serves, for `mcp` and `serve` alike."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import click

from handhold.core.choices import CONFINEMENTS, DIALECTS, MODES, Confinement, Mode

if TYPE_CHECKING:
    from handhold.server.server_config import ServerConfig


class ServerOptions(TypedDict):
    """By the names of the options."""

    root: tuple[str, ...]
    read_only: tuple[str, ...]
    dialect: str
    model: str
    state: str | None
    policy: Mode | None
    shell: Confinement
    network: bool
    host: tuple[str, ...]
    structured: bool
    budget: int


FOLDER_TYPE = click.Path(exists=True, file_okay=False, resolve_path=True)
SERVER_OPTIONS = (
    click.option(
        "--root", multiple=True, type=FOLDER_TYPE, help="The workspace; several may be given. Default: this folder."
    ),
    click.option("--read-only", multiple=True, type=FOLDER_TYPE, help="A folder to read only."),
    click.option("--dialect", type=click.Choice([*DIALECTS, "auto"]), default="handhold", show_default=True),
    click.option("--model", default="", help="The name of the model, for --dialect auto."),
    click.option("--state", type=click.Path(), help="Where the journal lives, instead of the user's state folder."),
    click.option("--policy", type=click.Choice(MODES), help="How much happens without a question."),
    click.option(
        "--shell",
        type=click.Choice(CONFINEMENTS),
        default="contained",
        show_default=True,
        help="What confines commands: Handhold, whatever it runs in, or nothing.",
    ),
    click.option("--network", is_flag=True, help="Commands have a network."),
    click.option("--host", multiple=True, help="A host that commands may reach; several may be given."),
    click.option("--structured", is_flag=True, help="Results also carry their facts as data."),
    click.option(
        "--budget", type=click.IntRange(min=1000), default=25_000, show_default=True, help="Tokens of a result."
    ),
)


def add_server_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(SERVER_OPTIONS):
        command = option(command)
    return command


def build_config(options: ServerOptions, **more: Any) -> "ServerConfig":
    from handhold.server.server_config import ServerConfig

    if options["dialect"] == "auto" and not options["model"]:
        raise click.UsageError("--dialect auto needs --model.")
    try:
        return ServerConfig(
            options["root"] or (str(Path.cwd()),),
            read_only=options["read_only"],
            dialect=options["dialect"],
            model=options["model"],
            policy=options["policy"],
            shell=options["shell"],
            network=options["host"] or options["network"],
            state=options["state"],
            structured=options["structured"],
            budget=options["budget"],
            **more,
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None
