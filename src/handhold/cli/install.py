"""`handhold install`: add Handhold to an MCP client's configuration, or remove it.

The change is shown and confirmed first. Nothing else in the file is touched.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import click

from handhold.cli import options
from handhold.cli.clients import CLIENTS, MCPClient
from handhold.cli.prompt import confirm, is_interactive
from handhold.cli.terminal import colour_diff_line
from handhold.core.choices import DIALECTS, MODES, Mode
from handhold.core.errors import SettingsBroken
from handhold.core.text.diff import unified_diff
from handhold.core.text.display_text import escape_invisible
from handhold.core.text.jsonc import TextEdit, apply_text_edits, revert_text_edits

if TYPE_CHECKING:
    from handhold.backends.settings.client_config import InstallRecord


OUTCOME_TEXTS = {
    "installed": "Installed {} in",
    "already installed": "{} is already installed in",
    "removed": "Removed {} from",
    "not installed": "{} is not installed in",
}


class InstallJSON(TypedDict):
    file: str
    name: str
    done: str  # a key of OUTCOME_TEXTS
    entry: dict[str, Any]
    diff: str


class PrintedEntryJSON(TypedDict):
    file: str
    entry: dict[str, Any]
    text: str


JSON_OUTPUT = {"": InstallJSON, "--print": PrintedEntryJSON}


@dataclass(frozen=True)
class InstallTarget:
    """The entry to write, its name, and the file it goes into."""

    client_name: str
    client: MCPClient
    file: str
    is_project: bool
    name: str
    entry: dict[str, Any]


DIALECT_HELP = "Tool names, schemas and wording to use. Default: the dialect of the client's models."


@click.command()
@click.argument("client", type=click.Choice(list(CLIENTS)))
@click.option("--user", is_flag=True, help="Install for all your projects, not only the one in the current directory.")
@click.option(
    "--root",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Workspace root; repeat for several. Default: the folder in which the client starts the server.",
)
@click.option("--dialect", type=click.Choice(DIALECTS), help=DIALECT_HELP)
@click.option("--policy", type=click.Choice(MODES), help=options.POLICY_HELP)
@click.option("--name", default="handhold", show_default=True, help="Name of the server in the configuration.")
@click.option("--print", "only_print", is_flag=True, help="Print the configuration entry and change nothing.")
@click.option("--remove", is_flag=True, help="Remove Handhold from the configuration.")
@click.option("--yes", "-y", "sure", is_flag=True, help="Do not ask for confirmation.")
@options.as_json
@options.report_errors
def install(
    client: str,
    user: bool,  # noqa: FBT001
    root: tuple[Path, ...],
    dialect: str | None,
    policy: Mode | None,
    name: str,
    only_print: bool,  # noqa: FBT001
    remove: bool,  # noqa: FBT001
    sure: bool,  # noqa: FBT001
    as_json: bool,  # noqa: FBT001
) -> int:
    """Add Handhold to the configuration of an MCP client, for the project in the current directory or, with --user, for
    all your projects.

    Shows the change and asks for confirmation; without a terminal it does not ask. The rest of the file stays
    unchanged, and --remove restores it byte for byte.
    """
    if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
        raise click.BadParameter("use only letters, digits, - and _", param_hint="--name")
    if only_print and remove:
        raise click.UsageError("--print and --remove cannot be combined.")
    mcp_client = CLIENTS[client]()
    is_project = bool(mcp_client.project_file) and not user
    file = os.path.join(
        Path.cwd() if is_project else Path.home(), mcp_client.project_file if is_project else mcp_client.user_file
    )
    entry = mcp_client.build_entry(
        get_program(is_project=is_project), build_arguments(mcp_client, is_project, root, dialect, policy)
    )
    target = InstallTarget(client, mcp_client, file, is_project, name, entry)
    if only_print:
        return print_entry(target, as_json=as_json)
    return (remove_entry if remove else install_entry)(
        target, ask=not sure and not as_json and is_interactive(), as_json=as_json
    )


def get_program(*, is_project: bool) -> str:
    """The bare name in a shared project file; the full path in a user file, as the client may have another PATH."""
    from handhold.cli.doctor import find_on_path

    return "handhold" if is_project else find_on_path("handhold") or "handhold"


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
    if not folders and not client.project_file:  # a client without projects starts the server in any folder
        folders = [str(Path.cwd())]
    chosen = dialect or client.dialect
    return [
        "mcp",
        *(each for folder in folders for each in ("--root", folder)),
        *(("--dialect", chosen) if chosen else ()),
        *(("--policy", policy) if policy else ()),
    ]


def print_entry(target: InstallTarget, *, as_json: bool) -> int:
    client = target.client
    text = apply_text_edits("", client.put_entry("", target.name, target.entry))
    if as_json:
        options.print_json(
            PrintedEntryJSON(file=target.file, entry={client.servers_key: {target.name: target.entry}}, text=text)
        )
        return 0
    click.echo(f"Add this to {escape_invisible(target.file)} for {client.title}:", err=True)
    click.echo(text, nl=False)
    return 0


def install_entry(target: InstallTarget, *, ask: bool, as_json: bool) -> int:
    from handhold.backends.settings import client_config

    text = client_config.read_text(target.file, follow_links=not target.is_project)
    previous = find_current_record(target, text)
    base = revert_text_edits(text or "", previous.cuts) if previous else text or ""
    edits = compute_edits(target, lambda: target.client.put_entry(base, target.name, target.entry))
    after = apply_text_edits(base, edits)
    if after == text:
        return print_outcome(target, "already installed", text, text, as_json=as_json)
    if not confirm_change(target, text, after, ask=ask, prompt="Make this change?"):
        return options.EXIT_REFUSED
    folders = client_config.replace_file(target.file, text, after)
    was_created = previous.made if previous else text is None
    record = client_config.InstallRecord(
        client_config.digest(after), tuple(edits), was_created, previous.folders if previous else folders
    )
    client_config.save_record(target.file, target.name, record)
    return print_outcome(target, "installed", text, after, as_json=as_json)


def remove_entry(target: InstallTarget, *, ask: bool, as_json: bool) -> int:
    from handhold.backends.settings import client_config

    text = client_config.read_text(target.file, follow_links=not target.is_project)
    previous = find_current_record(target, text)
    if text is None:
        return print_outcome(target, "not installed", None, None, as_json=as_json)
    if previous:
        after = revert_text_edits(text, previous.cuts)
    else:  # the file changed since, or another copy of Handhold wrote it: remove only our entry
        after = apply_text_edits(text, compute_edits(target, lambda: target.client.remove_entry(text, target.name)))
    if after == text:
        return print_outcome(target, "not installed", text, text, as_json=as_json)
    removes_file = previous is not None and previous.made and not after
    if not confirm_change(target, text, None if removes_file else after, ask=ask, prompt="Make this change?"):
        return options.EXIT_REFUSED
    if previous and removes_file:
        client_config.remove_file(target.file, text, previous.folders)
    else:
        client_config.replace_file(target.file, text, after)
    client_config.save_record(target.file, target.name, None)
    return print_outcome(target, "removed", text, None if removes_file else after, as_json=as_json)


def find_current_record(target: InstallTarget, text: str | None) -> "InstallRecord | None":
    """The record of the last install, if the file is still as that install left it."""
    from handhold.backends.settings import client_config

    record = client_config.load_record(target.file, target.name)
    return record if record and text is not None and client_config.digest(text) == record.after else None


def compute_edits(target: InstallTarget, edit: Callable[[], list[TextEdit]]) -> list[TextEdit]:
    try:
        return edit()
    except RecursionError:
        raise SettingsBroken(target.file, "it is nested too deeply") from None
    except ValueError as error:
        raise SettingsBroken(target.file, str(error)) from None


def confirm_change(target: InstallTarget, before: str | None, after: str | None, *, ask: bool, prompt: str) -> bool:
    """Show the change and ask; True if it is confirmed or `ask` is False."""
    if not ask:
        return True
    for line in unified_diff(target.file, before, after).removesuffix("\n").split("\n"):
        click.echo(colour_diff_line(escape_invisible(line)), err=True)
    if confirm(prompt):
        return True
    click.echo("Nothing changed.", err=True)
    return False


def print_outcome(target: InstallTarget, outcome: str, before: str | None, after: str | None, *, as_json: bool) -> int:
    if as_json:
        diff = unified_diff(target.file, before, after) if before != after else ""
        options.print_json(InstallJSON(file=target.file, name=target.name, done=outcome, entry=target.entry, diff=diff))
    else:
        click.echo(f"{OUTCOME_TEXTS[outcome].format(target.name)} {escape_invisible(target.file)}.")
        if outcome == "installed":
            removal = f"handhold install {target.client_name}{'' if target.is_project else ' --user'} --remove"
            click.echo(f"Restart {target.client.title} to use it. To remove it: {removal}")
    return 0
