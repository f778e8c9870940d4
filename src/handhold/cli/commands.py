"""The table of commands: name, group, module and one line of help.

A command's module is imported only when it is needed, so that each command starts fast.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from handhold.cli.names import refuse_unknown_command
from handhold.version import VERSION


class CommandSpec(NamedTuple):
    """Where a command is defined (`module:name`), and its line in the help."""

    group: str  # its heading in the help
    import_path: str
    help: str


WORK, SET_UP, PARALLEL, SERVE, ADVANCED = "Work", "Set up", "Parallel", "Serve", "Advanced"
HIDDEN = ""  # for names that installed settings and older scripts call
COMMANDS: Mapping[str, CommandSpec] = {
    "run": CommandSpec(WORK, "handhold.cli.run:run", "Run a command in the sandbox, so that it can be undone."),
    "call": CommandSpec(WORK, "handhold.cli.call:call", "Call a tool as an agent would."),
    "log": CommandSpec(WORK, "handhold.cli.log:log", "List the calls: what was run or edited, and how it ended."),
    "show": CommandSpec(WORK, "handhold.cli.show:show", "Show one call: its arguments, reply and changes."),
    "diff": CommandSpec(WORK, "handhold.cli.diff:diff", "Show what the session, or a call, changed."),
    "undo": CommandSpec(WORK, "handhold.cli.undo:undo", "Undo the last change, calls, a turn or the session."),
    "redo": CommandSpec(WORK, "handhold.cli.undo:redo", "Redo what was undone."),
    "review": CommandSpec(WORK, "handhold.cli.review:review", "Open the review page: approve, inspect, undo."),
    "install": CommandSpec(SET_UP, "handhold.cli.install:install", "Add Handhold to an MCP client, or remove it."),
    "doctor": CommandSpec(SET_UP, "handhold.cli.doctor:doctor", "Check how commands are sandboxed on this machine."),
    "explain": CommandSpec(SET_UP, "handhold.cli.explain:explain", "Explain the decision about a path or a command."),
    "trust": CommandSpec(SET_UP, "handhold.cli.trust:trust", "Trust the allow rules of a project."),
    "allow": CommandSpec(SET_UP, "handhold.cli.allow:allow", "Let commands reach a host."),
    "fork": CommandSpec(PARALLEL, "handhold.cli.fork:fork", "Work in copies of the workspace; merge or drop them."),
    "mcp": CommandSpec(SERVE, "handhold.cli.mcp:mcp", "Run an MCP server over standard input and output."),
    "serve": CommandSpec(SERVE, "handhold.cli.serve:serve", "Run an MCP server over HTTP."),
    "hub": CommandSpec(SERVE, "handhold.cli.hub:hub", "Run a hub, which keeps the journals of many sandboxes."),
    "approve": CommandSpec(ADVANCED, "handhold.cli.approve:approve", "List or answer pending approvals."),
    "watch": CommandSpec(ADVANCED, "handhold.cli.watch:watch", "Run any program and record what it changes, for undo."),
    "adopt": CommandSpec(ADVANCED, "handhold.cli.adopt:adopt", "Record what others changed at some paths."),
    "forget": CommandSpec(ADVANCED, "handhold.cli.forget:forget", "Remove what is kept of files for undo."),
    "tools": CommandSpec(ADVANCED, "handhold.cli.tools:tools", "List the tools of a dialect."),
    "completion": CommandSpec(ADVANCED, "handhold.cli.completion:completion", "Print a shell completion script."),
    "forks": CommandSpec(HIDDEN, "handhold.cli.forks:forks", "The same as `fork list`."),
    "hook": CommandSpec(HIDDEN, "handhold.cli.hook:hook", "Record the calls of an agent client's own tools."),
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
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            refuse_unknown_command(ctx, args[0], (name for name, spec in COMMANDS.items() if spec.group))
        return super().resolve_command(ctx, args)

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
        for group in (WORK, SET_UP, PARALLEL, SERVE, ADVANCED):
            with formatter.section(group):
                formatter.write_dl([(name, spec.help) for name, spec in COMMANDS.items() if spec.group == group])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[Any]]:
        names = [
            CompletionItem(name, help=spec.help)
            for name, spec in COMMANDS.items()
            if spec.group and name.startswith(incomplete)
        ]
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
