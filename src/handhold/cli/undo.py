"""Taking back, and doing again. At a terminal it is shown first, and asked about; elsewhere it is done."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal, Unpack

import click

from handhold.cli.diff import drawn, in_all
from handhold.cli.diffstat import in_colour, listed, signs, stats, summed
from handhold.cli.progress import watched
from handhold.cli.prompt import agreed, at_a_terminal
from handhold.cli.reply import shown
from handhold.cli.screen import looked_at, painted
from handhold.cli.state import somebody
from handhold.cli.where import REFUSED, Where, meant, on_a_toolbox, opened
from handhold.core.ports import Question
from handhold.core.results import Reply
from handhold.core.text.visible import visible

Way = Literal["undo", "redo"]
MOST_LINES = 40  # of a diff, before the question
ASKS: dict[Way, str] = {"undo": "Take this back?", "redo": "Do this again?"}


class Confirmed:
    """Answers what the person at the terminal has answered already. A preview asks nothing."""

    def __init__(self) -> None:
        self.name = somebody()

    def __call__(self, _: Question) -> bool:
        return True


def reversal(verb: Way) -> Callable[..., None]:
    """The two ways through a history differ in their direction only."""

    @click.option("--preview", is_flag=True, help="Only show what it would do.")
    @click.option("--yes", "-y", "sure", is_flag=True, help="Do not ask.")
    @click.option("--keep-times", is_flag=True, help="Files get their old times back too, which `make` may go by.")
    @meant
    @on_a_toolbox
    def run(
        one: str,
        turn: str,
        all_of_it: bool,  # noqa: FBT001
        preview: bool,  # noqa: FBT001
        sure: bool,  # noqa: FBT001
        keep_times: bool,  # noqa: FBT001
        as_json: bool,  # noqa: FBT001
        **where: Unpack[Where],
    ) -> int:
        with opened(where) as box:
            way = box.undo if verb == "undo" else box.redo
            go = partial(way, call=one, turn=turn, session=all_of_it, keep_times=keep_times)
            asks = at_a_terminal() and not (sure or as_json)
            if sure or asks:  # whoever says yes to all of it says so to what a rule or a protected name asks
                box.approver = Confirmed()
            if preview:
                return previewed(seen(go), as_json=as_json)
            return asked_about(go, verb) if asks else shown(done(go), as_json=as_json)

    return run


def seen(go: Callable[..., Reply]) -> Reply:
    with watched():
        return go(preview=True)


def done(go: Callable[..., Reply]) -> Reply:
    with watched():
        return go()


def previewed(reply: Reply, *, as_json: bool) -> int:
    status = shown(reply, as_json=as_json)
    if reply.ui_extra and not as_json:
        for line in drawn(reply.ui_extra) if looked_at() else [reply.ui_extra.removesuffix("\n")]:
            click.echo(line)
    return status


def asked_about(go: Callable[..., Reply], verb: Way) -> int:
    """Shown, asked, and done if it is still what was shown."""
    first = seen(go)
    while first.status != "error":
        for line in summary(first):
            click.echo(line, err=True)
        if not agreed(ASKS[verb]):
            click.echo("Nothing was done.", err=True)
            return REFUSED
        again = seen(go)
        if (again.text, again.ui_extra) == (first.text, first.ui_extra):
            return shown(done(go), as_json=False)
        click.echo("It is no longer what was shown; this is what it is now.", err=True)
        first = again
    return shown(first, as_json=False)


def summary(reply: Reply) -> Iterator[str]:
    """What it is, how much of which files, and the lines themselves if they are not many."""
    counted = stats(reply.ui_extra)
    yield painted(visible(reply.text), "bold")
    yield from listed(counted)
    yield f"{in_all(len(counted))}: {in_colour(signs(*summed(counted))) or 'no lines'}"
    lines = list(drawn(reply.ui_extra)) if reply.ui_extra else []
    if len(lines) <= MOST_LINES:
        yield from lines
    else:
        yield f"The {len(lines):,} lines of the diff: --preview"


undo = click.command("undo", help="Take back the last change, or a call, a turn, the session.")(reversal("undo"))
redo = click.command("redo", help="Do again what was taken back.")(reversal("redo"))
