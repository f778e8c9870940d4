"""The same tools, from a shell: one call, and what was done by earlier ones.

Exit status: 0 done, 1 refused (the reason is on standard output), 2 the command line itself is wrong.
"""

import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

import click

from handhold.assembly import CONFINEMENTS, DIALECTS, Confinement, Toolbox
from handhold.cli import proof
from handhold.cli.approve import approve
from handhold.cli.doctor import doctor
from handhold.cli.explain import explain
from handhold.cli.prompt import TerminalApprover, at_a_terminal
from handhold.cli.screen import visible
from handhold.cli.state import stored
from handhold.cli.trust import trust
from handhold.core.errors import ToolError
from handhold.core.history import name_of, short
from handhold.core.policy.modes import MODES, Mode
from handhold.core.ports import Approver, Entry
from handhold.core.results import Reply
from handhold.version import VERSION

REFUSED = 1


class Where(TypedDict):
    """The options that say which toolbox is meant."""

    root: tuple[Path, ...]
    dialect: str
    session: str
    state: Path | None
    policy: Mode | None
    shell: Confinement


def opened(where: Where, approver: Approver | None = None) -> Toolbox:
    """ToolError if the folder or the state cannot be used."""
    roots = where["root"] or (Path.cwd(),)
    return Toolbox.open(
        roots,
        dialect=where["dialect"],
        session=where["session"],
        state=where["state"],
        policy=where["policy"],
        approver=approver,
        shell=where["shell"],
    )


def on_a_toolbox(command: Callable[..., int]) -> Callable[..., None]:
    """The options that every command takes, and its number as exit status."""

    @click.option(
        "--root",
        multiple=True,
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="The workspace; several may be given. Default: the current folder.",
    )
    @click.option("--dialect", type=click.Choice(DIALECTS), default="handhold", show_default=True)
    @click.option("--session", default="default", show_default=True, help="The conversation this call belongs to.")
    @click.option(
        "--state", type=click.Path(path_type=Path), help="Where the journal lives, instead of the user's state folder."
    )
    @click.option("--policy", type=click.Choice(MODES), help="How much happens without a question.")
    @click.option(
        "--shell",
        type=click.Choice(CONFINEMENTS),
        default="contained",
        show_default=True,
        help="What confines commands: Handhold, whatever it runs in, or nothing.",
    )
    @wraps(command)
    def run(*args: Any, **options: Any) -> None:
        try:
            status = command(*args, **options)
        except (ToolError, OSError) as error:  # no reply could be made: the workspace or the state cannot be opened
            raise click.ClickException(str(error)) from error
        sys.exit(status)

    return run  # fmt: skip


@click.group()
@click.version_option(VERSION, prog_name="handhold")
def handhold() -> None:
    """Handhold: file tools for a coding agent, that land exactly and can be taken back."""


@handhold.command()
@click.argument("name")
@click.argument("arguments")
@click.option("--call-id", default="", help="The same id with the same arguments does nothing twice.")
@click.option("--turn", default="", help="The turn of the conversation, to take back as one.")
@click.option("--json", "as_json", is_flag=True, help="The whole reply as JSON.")
@on_a_toolbox
def call(name: str, arguments: str, call_id: str, turn: str, as_json: bool, **where: Unpack[Where]) -> int:  # noqa: FBT001
    """Call the tool NAME with ARGUMENTS, a JSON object; - reads it from standard input."""
    given = sys.stdin.read() if arguments == "-" else arguments
    try:
        parsed = json.loads(given)
    except ValueError as error:
        raise click.BadParameter(f"not JSON: {error}", param_hint="ARGUMENTS") from None
    with opened(where, TerminalApprover() if at_a_terminal() else None) as box:
        return shown(box.call(name, parsed, call_id=call_id, turn=turn), as_json=as_json)


@handhold.command()
@click.option("--dialect", type=click.Choice(DIALECTS), default="handhold", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Names, descriptions and schemas, as a model is given them.")
def tools(dialect: str, as_json: bool) -> None:  # noqa: FBT001
    """List the tools of a dialect."""
    from handhold.assembly import dialect_named

    specs = dialect_named(dialect).specs
    if as_json:
        click.echo(json.dumps([asdict(spec) for spec in specs], indent=2, ensure_ascii=False))
        return
    for spec in specs:
        click.echo(f"{spec.name:16} {spec.title:24} {', '.join(spec.input_schema['properties'])}")


@handhold.command()
@click.option("--last", type=int, default=20, show_default=True, help="How many calls.")
@click.option("--everyone", is_flag=True, help="The calls of all sessions on this workspace.")
@click.option("--verify", is_flag=True, help="Prove that the journal is as it was written, and print its head.")
@click.option("--head", "noted", default="", help="With --verify: whether this head, noted before, is in the chain.")
@click.option("--json", "as_json", is_flag=True)
@on_a_toolbox
def log(last: int, everyone: bool, verify: bool, noted: str, as_json: bool, **where: Unpack[Where]) -> int:  # noqa: FBT001
    """Show what was done, oldest first."""
    if noted and not re.fullmatch("[0-9a-fA-F]{64}", noted):
        raise click.BadParameter("a head has 64 letters and digits", param_hint="--head")
    if verify or noted:
        with stored(where["root"], where["state"]) as store:
            told = store.verify(noted.lower())
        return 0 if proof.show(told, noted, as_json=as_json) else REFUSED
    with opened(where) as box:
        entries, roots = box.log(last=last, everyone=everyone), box.files.roots
    if as_json:
        click.echo(json.dumps([asdict(entry) for entry in entries], indent=2))
        return 0
    for line in timeline(entries, roots):
        click.echo(visible(line))
    return 0


def meant(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say which calls are meant."""
    for option in (
        click.option("--call", "one", default="", help="One call, by id or as #number."),
        click.option("--turn", default="", help="All calls of a turn."),
        click.option("--all", "all_of_it", is_flag=True, help="The whole session."),
    ):
        command = option(command)
    return command


@handhold.command()
@meant
@on_a_toolbox
def diff(one: str, turn: str, all_of_it: bool, **where: Unpack[Where]) -> int:  # noqa: FBT001
    """Show what the last change did, or a call, a turn, the session."""
    with opened(where) as box:
        click.echo(box.diff(call=one, turn=turn, session=all_of_it), nl=False)
    return 0


def reversal(verb: Literal["undo", "redo"]) -> Callable[..., None]:
    """The two ways through a history differ in their direction only."""

    @meant
    @click.option("--preview", is_flag=True, help="Only show what it would do.")
    @click.option("--json", "as_json", is_flag=True)
    @on_a_toolbox
    def run(one: str, turn: str, all_of_it: bool, preview: bool, as_json: bool, **where: Unpack[Where]) -> int:  # noqa: FBT001
        with opened(where) as box:
            go = box.undo if verb == "undo" else box.redo
            return shown(go(call=one, turn=turn, session=all_of_it, preview=preview), as_json=as_json, diff=preview)

    return run


handhold.command("undo", help="Take back the last change, or a call, a turn, the session.")(reversal("undo"))
handhold.command("redo", help="Do again what was taken back.")(reversal("redo"))
handhold.add_command(doctor)
handhold.add_command(explain)
handhold.add_command(trust)
handhold.add_command(approve)


def shown(reply: Reply, *, as_json: bool, diff: bool = False) -> int:
    if as_json:
        click.echo(json.dumps(asdict(reply), ensure_ascii=False, indent=2))
    else:
        click.echo(reply.text)
        if diff and reply.ui_extra:
            click.echo(reply.ui_extra, nl=False)
    return REFUSED if reply.status == "error" else 0


def timeline(entries: Sequence[Entry], roots: Sequence[str]) -> list[str]:
    """One line a call: when, which, how it ended, what it changed, and why it was let."""
    return [
        f"{datetime.fromtimestamp(entry.at):%Y-%m-%d %H:%M:%S}  {name_of(entry):12}  {entry.call.tool:12}  "
        f"{ending(entry):14}  {targets(entry, roots)}  {decided(entry)}".rstrip().replace("\n", " ")
        for entry in entries
    ]


def decided(entry: Entry) -> str:
    by, rule = f" by {entry.approver}" if entry.approver else "", f": {entry.rule}" if entry.rule else ""
    return f"({entry.decision}{by}{rule})" if entry.decision else ""


def ending(entry: Entry) -> str:
    if entry.outcome is None:
        return "unfinished"
    if entry.undone:
        return "taken back"
    if entry.changed and not entry.kept:
        return f"{entry.outcome.status} (no undo)"
    return entry.outcome.code or entry.outcome.status


def targets(entry: Entry, roots: Sequence[str]) -> str:
    more = entry.changed - len(entry.paths)
    return ", ".join(short(path, roots) for path in entry.paths) + (f" and {more} more" if more > 0 else "")
