"""Answers to questions that were put where nobody could be asked: `handhold approve`.

An answer is for exactly what is shown here: the same call, with the same changes, sent again by the same session.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import click

from handhold.cli import candidates, where
from handhold.cli.screen import coloured, painted
from handhold.cli.state import somebody, stored
from handhold.core.errors import NothingAsked
from handhold.core.ports import Asked, Consent
from handhold.core.text.visible import lines_of, on_one_line

FIRST_LINES = 6
ALL_LINES = 10_000


@click.command()
@click.argument("id", default="", shell_complete=candidates.questions)
@click.option("--session", "consent", flag_value="session", help="Yes, and ask no more about this in its session.")
@click.option("--pattern", "consent", flag_value="pattern", help="Yes, and ask no more about commands like this one.")
@click.option("--no", "consent", flag_value="no", help="No.")
@click.option("--by", default="", help="Who answers. Default: the login name and the machine.")
@where.root
@where.state
@where.as_json
@where.told
def approve(
    id: str,  # noqa: A002 - it is what people will call it
    consent: Consent | None,
    by: str,
    root: tuple[Path, ...],
    state: Path | None,
    as_json: bool,  # noqa: FBT001
) -> int:
    """Answer the question ID with yes, once; without ID, list what waits for an answer."""
    if consent and not id:
        raise click.UsageError("An answer needs the ID of its question.")
    with stored(root, state) as store:
        if not id:
            listed(store.waiting(), as_json=as_json)
            return 0
        asked = store.asked(id)
        must_be_possible(asked, consent or "once")
        if not as_json:
            for line in question(asked):
                click.echo(line)
        answered = store.answer(asked.hash, consent or "once", by=by or somebody())
    if as_json:
        where.show(asdict(answered))
    else:
        click.echo(outcome(answered))
    return 0


def must_be_possible(asked: Asked, consent: Consent) -> None:
    if (consent == "session" and not asked.allows) or (consent == "pattern" and not asked.patterns):
        raise NothingAsked(asked.id, f"it can be answered only with yes, once, or with no, not for a {consent}")


def listed(waiting: Sequence[Asked], *, as_json: bool) -> None:
    if as_json:
        where.show([asdict(each) for each in waiting])
        return
    for each in waiting:
        at = f"{datetime.fromtimestamp(each.at):%Y-%m-%d %H:%M:%S}"
        said = f"{on_one_line(each.session)}  {on_one_line(each.tool)}: {on_one_line(each.because)}"
        click.echo(f"{painted(each.id, 'bold')}  {at}  {said}")
        for line in lines_of(each.command or each.diff, most=FIRST_LINES):
            click.echo(f"    {line if each.command else coloured(line)}")
    if not waiting:
        click.echo("Nothing waits for an answer.")


def question(asked: Asked) -> Iterator[str]:
    """All that is known of it, as it is answered."""
    yield f"{on_one_line(asked.tool)} in session {on_one_line(asked.session)}: {on_one_line(asked.because)}"
    if asked.command:
        yield from (f"    {line}" for line in lines_of(asked.command, most=ALL_LINES))
    if asked.diff:
        yield from (coloured(line) for line in lines_of(asked.diff, most=ALL_LINES))


def outcome(answered: Asked) -> str:
    how = {
        "once": "Allowed once",
        "session": f"Allowed for the session: {', '.join(answered.allows)}",
        "pattern": f"Allowed for the session: {', '.join(answered.patterns)}",
        "no": "Refused",
    }[answered.answer or "once"]
    return on_one_line(f"{how}, by {answered.by}. It counts when the same call is sent again.")
