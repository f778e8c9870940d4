"""The commands: what each is called, where it is written, and in a few words what it does.

None is imported before it is called for, so that every one starts as fast as it can by itself.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from handhold.version import VERSION


class Written(NamedTuple):
    """Where a command is (`module:name`), and its line in the help."""

    at: str
    help: str


LAZY: Mapping[str, Written] = {
    "mcp": Written("handhold.cli.mcp:mcp", "Serve the tools to one client, over standard input and output."),
    "serve": Written("handhold.cli.serve:serve", "Serve the tools over HTTP."),
    "install": Written("handhold.cli.install:install", "Enter Handhold in a client's configuration, or take it out."),
    "call": Written("handhold.cli.call:call", "Call a tool."),
    "tools": Written("handhold.cli.tools:tools", "List the tools of a dialect."),
    "log": Written("handhold.cli.log:log", "Show what was done, oldest first."),
    "diff": Written("handhold.cli.diff:diff", "Show what a call, a turn or the session changed."),
    "undo": Written("handhold.cli.undo:undo", "Take back the last change, or a call, a turn, the session."),
    "redo": Written("handhold.cli.undo:redo", "Do again what was taken back."),
    "approve": Written("handhold.cli.approve:approve", "Answer a question that waits, or list them."),
    "explain": Written("handhold.cli.explain:explain", "Say what would be decided about a path or a command."),
    "trust": Written("handhold.cli.trust:trust", "Let a project's own rules count."),
    "doctor": Written("handhold.cli.doctor:doctor", "Say what protects this machine, and what does not."),
    "completion": Written("handhold.cli.completion:completion", "Print what teaches a shell to complete commands."),
}
EXTRAS = {"mcp": "mcp", "mcp_types": "mcp", "starlette": "mcp", "uvicorn": "mcp", "anyio": "mcp"}
STATUS = """\b
Exit status:
  0  done
  1  refused, or it could not be done: the reason is printed
  2  the command line itself is wrong"""


class LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(LAZY)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in LAZY:
            return None
        module, _, name = LAZY[cmd_name].at.partition(":")
        found: click.Command = getattr(import_module(module), name)
        found.epilog = found.epilog or STATUS
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, written.help) for name, written in LAZY.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[Any]]:
        names = [CompletionItem(name, help=LAZY[name].help) for name in LAZY if name.startswith(incomplete)]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            if extra := EXTRAS.get((error.name or "").partition(".")[0]):
                raise click.ClickException(f"This needs more than the base: pip install 'handhold[{extra}]'") from None
            raise


@click.group(cls=LazyGroup, epilog=STATUS)
@click.version_option(VERSION, prog_name="handhold")
def handhold() -> None:
    """Handhold: file tools for a coding agent, that land exactly and can be taken back."""
