"""The table of commands: name, module and one line of help.

A command's module is imported only when it is needed, so that each command starts fast.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from handhold.version import VERSION


class CommandSpec(NamedTuple):
    """Where a command is defined (`module:name`), and its line in the help."""

    import_path: str
    help: str


COMMANDS: Mapping[str, CommandSpec] = {
    "mcp": CommandSpec("handhold.cli.mcp:mcp", "Run an MCP server over standard input and output."),
    "serve": CommandSpec("handhold.cli.serve:serve", "Run an MCP server over HTTP."),
    "install": CommandSpec("handhold.cli.install:install", "Add Handhold to an MCP client, or remove it."),
    "call": CommandSpec("handhold.cli.call:call", "Call a tool."),
    "tools": CommandSpec("handhold.cli.tools:tools", "List the tools of a dialect."),
    "log": CommandSpec("handhold.cli.log:log", "Show the journal of calls."),
    "diff": CommandSpec("handhold.cli.diff:diff", "Show the changes of a call, a turn or the session."),
    "undo": CommandSpec("handhold.cli.undo:undo", "Undo the last change, a call, a turn or the session."),
    "redo": CommandSpec("handhold.cli.undo:redo", "Redo what was undone."),
    "run": CommandSpec("handhold.cli.run:run", "Run a command in the sandbox, with its own output and exit status."),
    "watch": CommandSpec("handhold.cli.watch:watch", "Run any program and record what changes, for undo."),
    "fork": CommandSpec("handhold.cli.fork:fork", "Run any program in a copy of the workspace; merge or drop it."),
    "forks": CommandSpec("handhold.cli.forks:forks", "List the forks of the workspace."),
    "adopt": CommandSpec("handhold.cli.adopt:adopt", "Record what others changed at some paths."),
    "forget": CommandSpec("handhold.cli.forget:forget", "Remove what is kept of files for undo."),
    "hook": CommandSpec("handhold.cli.hook:hook", "Record the calls of an agent client's own tools."),
    "review": CommandSpec("handhold.cli.review:review", "Open the review page in a browser: answer, look, take back."),
    "approve": CommandSpec("handhold.cli.approve:approve", "List or answer pending approvals."),
    "explain": CommandSpec("handhold.cli.explain:explain", "Explain the policy decision for a path or a command."),
    "allow": CommandSpec("handhold.cli.allow:allow", "Let commands reach a host."),
    "trust": CommandSpec("handhold.cli.trust:trust", "Trust the allow rules of a project."),
    "doctor": CommandSpec("handhold.cli.doctor:doctor", "Check how commands are sandboxed on this machine."),
    "hub": CommandSpec("handhold.cli.hub:hub", "Run a hub, which keeps the journals of many sandboxes."),
    "completion": CommandSpec("handhold.cli.completion:completion", "Print a shell completion script."),
}
EXTRA_BY_MODULE = {
    **dict.fromkeys(("mcp", "mcp_types", "starlette", "uvicorn", "anyio"), "mcp"),
    **dict.fromkeys(("psycopg", "psycopg_pool", "obstore", "prometheus_client"), "hub"),
}
REVIEW_MODULES = ("jinja2", "markupsafe", "pygments", "starlette", "uvicorn", "python_multipart", "multipart")
EXIT_STATUS_HELP = """\b
Exit status:
  0  success
  1  refused or failed; the reason is printed
  2  usage error"""


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
            module = (error.name or "").partition(".")[0]
            is_review = ctx.invoked_subcommand == "review" and module in REVIEW_MODULES
            named = EXTRA_BY_MODULE.get(module)
            if extra := "review" if is_review else named and ("hub" if ctx.invoked_subcommand == "hub" else named):
                raise click.ClickException(f"This command needs an extra: pip install 'handhold[{extra}]'") from None
            raise


@click.group(cls=LazyGroup, epilog=EXIT_STATUS_HELP)
@click.version_option(VERSION, prog_name="handhold")
def handhold() -> None:
    """Handhold: file and shell tools for coding agents, with exact edits, approvals and undo."""
