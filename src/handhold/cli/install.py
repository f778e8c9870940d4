"""Entering Handhold in a client's configuration, and taking it out again: shown first, asked about, and nothing else
in the file is touched.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from handhold.cli import where
from handhold.cli.clients import CLIENTS, Client
from handhold.cli.prompt import agreed, at_a_terminal
from handhold.cli.screen import coloured
from handhold.core.choices import DIALECTS, MODES, Mode
from handhold.core.errors import SettingsBroken
from handhold.core.text.diff import unified_diff
from handhold.core.text.jsonc import Cut, done, undone
from handhold.core.text.visible import visible

if TYPE_CHECKING:
    from handhold.world.settings.foreign import Note


@dataclass(frozen=True)
class Wanted:
    """What is to be in which file, under which name."""

    client: Client
    file: str
    of_project: bool
    name: str
    entry: dict[str, Any]


@click.command()
@click.argument("client", type=click.Choice(list(CLIENTS)))
@click.option("--user", is_flag=True, help="For all your projects, instead of the one in this folder.")
@click.option(
    "--root",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder to work on; several may be given. Default: where the client starts us.",
)
@click.option("--dialect", type=click.Choice(DIALECTS), help="Default: the one that the client's models know best.")
@click.option("--policy", type=click.Choice(MODES), help="How much happens without a question.")
@click.option("--name", default="handhold", show_default=True, help="What the server is called there.")
@click.option("--print", "only_print", is_flag=True, help="Only print it, to be put there by hand.")
@click.option("--remove", is_flag=True, help="Take it out again.")
@click.option("--yes", "-y", "sure", is_flag=True, help="Do not ask.")
@where.as_json
@where.told
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
    """Enter Handhold in the configuration of CLIENT, for the project in this folder or with --user for all of yours.

    Shows the change and asks; without a terminal it is made. Everything else in the file stays as it is, and --remove
    takes ours out again, byte for byte.
    """
    if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
        raise click.BadParameter("letters, digits, - and _ only", param_hint="--name")
    known = CLIENTS[client]()
    of_project = bool(known.project) and not user
    file = os.path.join(Path.cwd() if of_project else Path.home(), known.project if of_project else known.user)
    entry = known.entry(program(of_project=of_project), arguments(known, of_project, root, dialect, policy))
    wanted = Wanted(known, file, of_project, name, entry)
    if only_print:
        return printed(wanted, as_json=as_json)
    return (taken_out if remove else entered)(wanted, ask=not sure and not as_json and at_a_terminal(), as_json=as_json)


def program(*, of_project: bool) -> str:
    """By its name where a file is shared; by its place where a client may not know our PATH."""
    from handhold.cli.doctor import on_path

    return "handhold" if of_project else on_path("handhold") or "handhold"


def arguments(
    client: Client,
    of_project: bool,  # noqa: FBT001
    roots: tuple[Path, ...],
    dialect: str | None,
    policy: Mode | None,
) -> list[str]:
    folders = [str(root.resolve()) for root in roots]
    if not folders and of_project and client.here:
        folders = [client.here]
    if not folders and not client.project:  # it has no projects, so it starts us anywhere
        folders = [str(Path.cwd())]
    chosen = dialect or client.dialect
    return [
        "mcp",
        *(each for folder in folders for each in ("--root", folder)),
        *(("--dialect", chosen) if chosen else ()),
        *(("--policy", policy) if policy else ()),
    ]


def printed(wanted: Wanted, *, as_json: bool) -> int:
    client = wanted.client
    text = done("", client.put("", wanted.name, wanted.entry))
    if as_json:
        where.show({"file": wanted.file, "entry": {client.key: {wanted.name: wanted.entry}}, "text": text})
        return 0
    click.echo(f"For {client.title}, in {visible(wanted.file)}:", err=True)
    click.echo(text, nl=False)
    return 0


def entered(wanted: Wanted, *, ask: bool, as_json: bool) -> int:
    from handhold.world.settings import foreign

    text = foreign.text_of(wanted.file, follow=not wanted.of_project)
    known = still_ours(wanted, text)
    base = undone(text or "", known.cuts) if known else text or ""
    cuts = edited(wanted, lambda: wanted.client.put(base, wanted.name, wanted.entry))
    after = done(base, cuts)
    if after == text:
        return told(wanted, "entered already", text, text, as_json=as_json)
    if not shown(wanted, text, after, ask=ask, what="Enter it?"):
        return where.REFUSED
    folders = foreign.replace(wanted.file, text, after)
    made = known.made if known else text is None
    note = foreign.Note(foreign.digest(after), tuple(cuts), made, known.folders if known else folders)
    foreign.note(wanted.file, wanted.name, note)
    return told(wanted, "entered", text, after, as_json=as_json)


def taken_out(wanted: Wanted, *, ask: bool, as_json: bool) -> int:
    from handhold.world.settings import foreign

    text = foreign.text_of(wanted.file, follow=not wanted.of_project)
    known = still_ours(wanted, text)
    if text is None:
        return told(wanted, "not there", None, None, as_json=as_json)
    if known:
        after = undone(text, known.cuts)
    else:  # somebody changed the file since, or it was entered elsewhere: ours goes, and nothing else
        after = done(text, edited(wanted, lambda: wanted.client.take(text, wanted.name)))
    if after == text:
        return told(wanted, "not there", text, text, as_json=as_json)
    gone = known is not None and known.made and not after
    if not shown(wanted, text, None if gone else after, ask=ask, what="Take it out?"):
        return where.REFUSED
    if known and gone:
        foreign.remove(wanted.file, text, known.folders)
    else:
        foreign.replace(wanted.file, text, after)
    foreign.note(wanted.file, wanted.name, None)
    return told(wanted, "taken out", text, None if gone else after, as_json=as_json)


def still_ours(wanted: Wanted, text: str | None) -> "Note | None":
    """What was noted of the file, if it is still what we left."""
    from handhold.world.settings import foreign

    known = foreign.noted(wanted.file, wanted.name)
    return known if known and text is not None and foreign.digest(text) == known.after else None


def edited(wanted: Wanted, edit: Callable[[], list[Cut]]) -> list[Cut]:
    try:
        return edit()
    except RecursionError:
        raise SettingsBroken(wanted.file, "it is nested too deep") from None
    except ValueError as error:
        raise SettingsBroken(wanted.file, str(error)) from None


def shown(wanted: Wanted, before: str | None, after: str | None, *, ask: bool, what: str) -> bool:
    """Whether it may be done."""
    if not ask:
        return True
    for line in unified_diff(wanted.file, before, after).removesuffix("\n").split("\n"):
        click.echo(coloured(visible(line)), err=True)
    if agreed(what):
        return True
    click.echo("Nothing was done.", err=True)
    return False


def told(wanted: Wanted, what: str, before: str | None, after: str | None, *, as_json: bool) -> int:
    if as_json:
        diff = unified_diff(wanted.file, before, after) if before != after else ""
        where.show({"file": wanted.file, "name": wanted.name, "done": what, "entry": wanted.entry, "diff": diff})
    else:
        click.echo(f"{wanted.name}: {what}, in {visible(wanted.file)}")
        if what == "entered":
            click.echo(f"Start {wanted.client.title} anew to use it. `handhold install … --remove` takes it out again.")
    return 0
