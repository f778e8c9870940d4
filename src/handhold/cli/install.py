"""`handhold install`: add Handhold to an MCP client's configuration, or remove it.

The change is shown and confirmed first. Nothing else in the files is touched.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import click

from handhold.cli import options
from handhold.cli.clients import CLIENTS, ConfigPlace, MCPClient
from handhold.cli.config_steps import Container, Member, Step, apply_steps
from handhold.cli.programs import find_on_path
from handhold.cli.prompt import confirm, is_interactive
from handhold.cli.recording_hooks import build_hook_steps
from handhold.cli.terminal import colour_diff_line
from handhold.core.choices import DIALECTS, MODES, Mode
from handhold.core.text.diff import unified_diff
from handhold.core.text.display_text import escape_invisible

if TYPE_CHECKING:
    from handhold.cli.config_files import ConfigChange

INSTALLED, ALREADY, REMOVED, NOT_INSTALLED = "installed", "already installed", "removed", "not installed"
OUTCOME_TEXTS = {
    INSTALLED: "Installed {} in",
    ALREADY: "{} is already installed in",
    REMOVED: "Removed {} from",
    NOT_INSTALLED: "{} is not installed in",
}


class ChangedFileJSON(TypedDict):
    file: str
    diff: str


class InstallJSON(TypedDict):
    name: str
    done: str  # a key of OUTCOME_TEXTS
    entry: dict[str, Any]
    files: list[ChangedFileJSON]
    next_step: str


class PrintedFileJSON(TypedDict):
    file: str
    text: str


class PrintedEntryJSON(TypedDict):
    entry: dict[str, Any]
    files: list[PrintedFileJSON]


JSON_OUTPUT = {"": InstallJSON, "--print": PrintedEntryJSON}


@dataclass(frozen=True)
class InstallTarget:
    """What to enter into which files. The first file has the server's entry."""

    client_name: str
    client: MCPClient
    scope: Literal["", "--user", "--local"]
    name: str
    command: list[str]  # that starts the server
    entry: dict[str, Any]
    steps: dict[str, list[Step]]  # by the file
    records: bool

    @property
    def is_project(self) -> bool:
        return self.scope != "--user"

    @property
    def record_name(self) -> str:
        """One file has the local servers of all projects."""
        return f"{self.name}\0{Path.cwd()}" if self.scope == "--local" else self.name

    def follows_links(self, file: str) -> bool:
        """A person may have settings elsewhere; a project's files must not lead out of it."""
        return self.scope == "--user" or not Path(file).is_relative_to(Path.cwd())

    def turns_off_own_tools(self, steps: Iterable[Step | Container]) -> bool:
        """Whether what --only enters is among these steps."""
        return any(step == each for each in steps for _, step in self.client.only)

    @property
    def next_step(self) -> str:
        return self.client.get_next_step(is_project=self.is_project)


DIALECT_HELP = "Tool names, schemas and wording to use. Default: the dialect of the client's models."
LOCAL_HELP = "Install for you alone in the current directory: Claude Code then does not ask to approve the server."
STRICT_HELP = "Let the client stop a call that cannot be recorded, where it can. Without this it goes on and says so."
ONLY_HELP = "Turn off the client's own file and shell tools, so that Handhold previews and confines everything."
ALLOW_HELP = "Let the client run Handhold's tools without asking. Handhold's own policy still applies."


@click.command()
@click.argument("client", type=click.Choice(list(CLIENTS)))
@click.option("--user", is_flag=True, help="Install for all your projects, not only the one in the current directory.")
@click.option("--local", is_flag=True, help=LOCAL_HELP)
@click.option(
    "--root",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Workspace root; repeat for several. Default: the folder in which the client starts the server.",
)
@click.option("--dialect", type=click.Choice(DIALECTS), help=DIALECT_HELP)
@click.option("--policy", type=click.Choice(MODES), help=options.POLICY_HELP)
@click.option("--no-record", is_flag=True, help="Do not record what the client's own tools change.")
@click.option("--strict", is_flag=True, help=STRICT_HELP)
@click.option("--only", is_flag=True, help=ONLY_HELP)
@click.option("--allow-tools", is_flag=True, help=ALLOW_HELP)
@click.option("--name", default="handhold", show_default=True, help="Name of the server in the configuration.")
@click.option("--print", "only_print", is_flag=True, help="Print what would be entered and change nothing.")
@click.option("--remove", is_flag=True, help="Remove Handhold from the configuration.")
@click.option("--yes", "-y", "sure", is_flag=True, help="Do not ask for confirmation.")
@options.as_json
@options.report_errors
def install(
    client: str,
    user: bool,  # noqa: FBT001
    local: bool,  # noqa: FBT001
    root: tuple[Path, ...],
    dialect: str | None,
    policy: Mode | None,
    no_record: bool,  # noqa: FBT001
    strict: bool,  # noqa: FBT001
    only: bool,  # noqa: FBT001
    allow_tools: bool,  # noqa: FBT001
    name: str,
    only_print: bool,  # noqa: FBT001
    remove: bool,  # noqa: FBT001
    sure: bool,  # noqa: FBT001
    as_json: bool,  # noqa: FBT001
) -> int:
    """Add Handhold to the configuration of an MCP client, for the project in the current directory or, with --user, for
    all your projects.

    Adds the server, and where the client has hooks or plugins, records what its own shell and edit tools change, so
    that `handhold undo` covers it too. Recording neither confines nor previews anything, and changes no call.

    Shows the change and asks for confirmation; without a terminal it does not ask. The rest of each file stays
    unchanged, and --remove restores it byte for byte.
    """
    if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
        raise click.BadParameter("use only letters, digits, - and _", param_hint="--name")
    if only_print and remove:
        raise click.UsageError("--print and --remove cannot be combined.")
    if user and local:
        raise click.UsageError("--user and --local cannot be combined.")
    mcp_client = CLIENTS[client]()
    if local:
        if mcp_client.local is None:
            raise click.UsageError(f"{mcp_client.title} has no settings for one person in one project.")
        mcp_client = mcp_client.local
    if only and not mcp_client.only:
        raise click.UsageError(f"{mcp_client.title} does not let its own tools be turned off while ours stay.")
    if strict and (no_record or mcp_client.hooks is None):
        raise click.UsageError("--strict is about recording, which is off.")
    is_project = bool(mcp_client.place.project) and not user
    program = get_program(is_shared=is_project and not local)
    arguments = build_arguments(mcp_client, is_project, root, dialect, policy)
    entry = mcp_client.build_entry(program, arguments)
    if allow_tools:
        entry |= mcp_client.allowed_fields
    entered: list[tuple[ConfigPlace, Step]] = [
        (mcp_client.place, Member((*mcp_client.servers_path, name), entry, mcp_client.is_toml))
    ]
    records = mcp_client.hooks is not None and not no_record
    if mcp_client.hooks and records:
        entered += mcp_client.list_hook_settings(is_project=is_project)
        entered += [(mcp_client.hooks, step) for step in build_hook_steps(client, program, name, is_strict=strict)]
    entered += [*(mcp_client.only if only else ()), *(mcp_client.allow(name) if allow_tools else ())]
    steps = group_by_file(entered, is_project=is_project)
    if mcp_client.hooks:  # something may have been entered there before
        steps.setdefault(locate(mcp_client.hooks, is_project=is_project), [])
    scope = "--local" if local else "" if is_project else "--user"
    target = InstallTarget(client, mcp_client, scope, name, [program, *arguments], entry, steps, records)
    if only_print:
        return print_entry(target, as_json=as_json)
    ask = not sure and not as_json and is_interactive()
    return (remove_entry if remove else install_entry)(target, ask=ask, as_json=as_json)


def get_program(*, is_shared: bool) -> str:
    """The bare name in a shared project file; the full path in a user file, as the client may have another PATH."""
    return "handhold" if is_shared else find_on_path("handhold") or "handhold"


def locate(place: ConfigPlace, *, is_project: bool) -> str:
    return os.path.join(Path.cwd() if is_project else Path.home(), place.choose(is_project=is_project))


def group_by_file(entered: Sequence[tuple[ConfigPlace, Step]], *, is_project: bool) -> dict[str, list[Step]]:
    steps: dict[str, list[Step]] = {}
    for place, step in entered:
        steps.setdefault(locate(place, is_project=is_project), []).append(step)
    return steps


def build_arguments(
    client: MCPClient,
    is_project: bool,  # noqa: FBT001
    roots: tuple[Path, ...],
    dialect: str | None,
    policy: Mode | None,
) -> list[str]:
    folders = [str(root.resolve()) for root in roots]
    if not folders and is_project and client.workspace_variable:
        folders = [client.workspace_variable]
    if not folders and not client.place.project:  # a client without projects starts the server in any folder
        folders = [str(Path.cwd())]
    chosen = dialect or client.dialect
    return [
        "mcp",
        *(each for folder in folders for each in ("--root", folder)),
        *(("--dialect", chosen) if chosen else ()),
        *(("--policy", policy) if policy else ()),
    ]


def print_entry(target: InstallTarget, *, as_json: bool) -> int:
    texts = {file: apply_steps("", steps)[0] for file, steps in target.steps.items() if steps}
    if as_json:
        entry = target.entry
        for key in reversed((*target.client.servers_path, target.name)):
            entry = {key: entry}
        options.print_json(
            PrintedEntryJSON(entry=entry, files=[PrintedFileJSON(file=file, text=text) for file, text in texts.items()])
        )
        return 0
    for file, text in texts.items():
        click.echo(f"Add this to {escape_invisible(file)} for {target.client.title}:", err=True)
        click.echo(text, nl=False)
    return 0


def install_entry(target: InstallTarget, *, ask: bool, as_json: bool) -> int:
    from handhold.cli.config_files import list_entered_steps, plan_installation
    from handhold.cli.server_check import count_tools

    changes = [
        plan_installation(file, target.record_name, steps, follow_links=target.follows_links(file))
        for file, steps in target.steps.items()
    ]
    if not any(change.changes for change in changes):
        return print_outcome(target, ALREADY, changes, as_json=as_json)
    tools = count_tools(target.command)
    if not confirm_changes(changes, ask=ask):
        return options.EXIT_REFUSED
    was_only = target.turns_off_own_tools(
        step for file in target.steps for step in list_entered_steps(file, target.record_name)
    )
    for change in changes:
        change.carry_out(target.record_name)
    if target.records and target.is_project:
        start_baseline()
    return print_outcome(target, INSTALLED, changes, as_json=as_json, tools=tools, was_only=was_only)


def remove_entry(target: InstallTarget, *, ask: bool, as_json: bool) -> int:
    from handhold.cli.config_files import plan_removal

    changes = [
        plan_removal(file, target.record_name, steps, follow_links=target.follows_links(file))
        for file, steps in target.steps.items()
    ]
    if not any(change.changes for change in changes):
        return print_outcome(target, NOT_INSTALLED, changes, as_json=as_json)
    if not confirm_changes(changes, ask=ask):
        return options.EXIT_REFUSED
    for change in reversed(changes):  # folders were created for the first
        change.carry_out(target.record_name)
    return print_outcome(target, REMOVED, changes, as_json=as_json)


def start_baseline() -> None:
    """The first command of the client then finds the files copied."""
    from handhold.snapshots import start_copier

    start_copier(str(Path.cwd()), None)


def confirm_changes(changes: "Sequence[ConfigChange]", *, ask: bool) -> bool:
    """Show the changes and ask; True if they are confirmed or `ask` is False."""
    if not ask:
        return True
    for change in changes:
        if change.changes:
            for line in unified_diff(change.file, change.before, change.after).removesuffix("\n").split("\n"):
                click.echo(colour_diff_line(escape_invisible(line)), err=True)
    if confirm("Make this change?" if sum(change.changes for change in changes) == 1 else "Make these changes?"):
        return True
    click.echo("Nothing changed.", err=True)
    return False


def print_outcome(
    target: InstallTarget,
    outcome: str,
    changes: "Sequence[ConfigChange]",
    *,
    as_json: bool,
    tools: int = 0,
    was_only: bool = False,
) -> int:
    changed = [change for change in changes if change.changes]
    if as_json:
        files = [
            ChangedFileJSON(file=each.file, diff=unified_diff(each.file, each.before, each.after)) for each in changed
        ]
        step = target.next_step if outcome == INSTALLED else ""
        options.print_json(InstallJSON(name=target.name, done=outcome, entry=target.entry, files=files, next_step=step))
        return 0
    named = [escape_invisible(each.file) for each in changed or changes[:1]]
    click.echo(f"{OUTCOME_TEXTS[outcome].format(target.name)} {' and '.join(named)}.")
    if outcome == INSTALLED:
        for line in describe_installation(target, tools, was_only=was_only):
            click.echo(line)
    return 0


def describe_installation(target: InstallTarget, tools: int, *, was_only: bool) -> list[str]:
    title = target.client.title
    lines = [f"The server starts and offers {tools} tools."]
    is_only = target.turns_off_own_tools(step for steps in target.steps.values() for step in steps)
    if is_only:
        lines.append(target.client.only_rest or f"{title}'s own file and shell tools are off: it uses Handhold's.")
    elif target.records:
        lines.append(f"What {title}'s own tools change is recorded: `handhold undo` covers it. It is not confined.")
    elif target.client.hooks is None:
        lines.append(f"What {title}'s own tools change is not recorded: it has no hooks for that.")
    if was_only and not is_only:
        lines.append(f"{title}'s own file and shell tools, which were off, are on again: --only was not given.")
    if not os.path.isabs(target.command[0]) and not find_on_path(target.command[0], only_path=True):
        found = os.path.dirname(find_on_path(target.command[0]))
        lines.append(f"handhold is not on your PATH: add {found} to it, or {title} does not find it.")
    lines.append(f"Next: {target.next_step or f'restart {title}.'}")
    lines.append(
        f"To remove it: {' '.join(['handhold install', target.client_name, *target.scope.split(), '--remove'])}"
    )
    return lines
