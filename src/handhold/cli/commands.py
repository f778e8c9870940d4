"""The commands: what each is called, where it is written, and in a few words what it does.

None is imported before it is called for, so that every one starts as fast as it can by itself.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from handhold.version import VERSION


class CommandSpec(NamedTuple):
    """Where a command is (`module:name`), and its line in the help."""

    import_path: str
    help: str


COMMANDS: Mapping[str, CommandSpec] = {
    "mcp": CommandSpec("handhold.cli.mcp:mcp", "Serve the tools to one client, over standard input and output."),
    "serve": CommandSpec("handhold.cli.serve:serve", "Serve the tools over HTTP."),
    "install": CommandSpec(
        "handhold.cli.install:install", "Enter Handhold in a client's configuration, or take it out."
    ),
    "call": CommandSpec("handhold.cli.call:call", "Call a tool."),
    "tools": CommandSpec("handhold.cli.tools:tools", "List the tools of a dialect."),
    "log": CommandSpec("handhold.cli.log:log", "Show what was done, oldest first."),
    "diff": CommandSpec("handhold.cli.diff:diff", "Show what a call, a turn or the session changed."),
    "undo": CommandSpec("handhold.cli.undo:undo", "Take back the last change, or a call, a turn, the session."),
    "redo": CommandSpec("handhold.cli.undo:redo", "Do again what was taken back."),
    "approve": CommandSpec("handhold.cli.approve:approve", "Answer a question that waits, or list them."),
    "explain": CommandSpec("handhold.cli.explain:explain", "Say what would be decided about a path or a command."),
    "trust": CommandSpec("handhold.cli.trust:trust", "Let a project's own rules count."),
    "doctor": CommandSpec("handhold.cli.doctor:doctor", "Say what protects this machine, and what does not."),
    "completion": CommandSpec("handhold.cli.completion:completion", "Print what teaches a shell to complete commands."),
}
EXTRA_BY_MODULE = {"mcp": "mcp", "mcp_types": "mcp", "starlette": "mcp", "uvicorn": "mcp", "anyio": "mcp"}
EXIT_STATUS_HELP = """\b
Exit status:
  0  done
  1  refused, or it could not be done: the reason is printed
  2  the command line itself is wrong"""


class LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].import_path.partition(":")
        found: click.Command = getattr(import_module(module), name)
        found.epilog = found.epilog or EXIT_STATUS_HELP
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, spec.help) for name, spec in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[Any]]:
        names = [CompletionItem(name, help=COMMANDS[name].help) for name in COMMANDS if name.startswith(incomplete)]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            if extra := EXTRA_BY_MODULE.get((error.name or "").partition(".")[0]):
                raise click.ClickException(f"This needs more than the base: pip install 'handhold[{extra}]'") from None
            raise


@click.group(cls=LazyGroup, epilog=EXIT_STATUS_HELP)
@click.version_option(VERSION, prog_name="handhold")
def handhold() -> None:
    """Handhold: file tools for a coding agent, that land exactly and can be taken back."""
