"""Answers to questions that were put where nobody could be asked: `handhold approve`.

An answer is for exactly what is shown here: the same call, with the same changes, sent again by the same session.
At a terminal it is shown, then asked about. Elsewhere nothing is approved unless the command line says `--yes`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import click

from handhold.cli import candidates, where
from handhold.cli.prompt import agreed, at_a_terminal
from handhold.cli.screen import coloured, painted
from handhold.cli.state import somebody, stored
from handhold.core.errors import NothingAsked
from handhold.core.ports import Asked, Consent
from handhold.core.text.visible import all_lines_of, lines_of, on_one_line

FIRST_LINES = 6
ASKS: dict[Consent, str] = {
    "once": "Allow this once?",
    "session": "Allow this, and ask no more about it in its session?",
    "pattern": "Allow this, and all commands like it in its session?",
}


@click.command()
@click.argument("id", default="", shell_complete=candidates.questions)
@click.option("--show", is_flag=True, help="Only show the question, and all that it is about.")
@click.option("--session", "consent", flag_value="session", help="Yes, and ask no more about this in its session.")
@click.option("--pattern", "consent", flag_value="pattern", help="Yes, and ask no more about commands like this one.")
@click.option("--no", "consent", flag_value="no", help="No.")
@click.option("--yes", "-y", "sure", is_flag=True, help="Do not ask at the terminal. Needed where there is none.")
@click.option("--by", default="", help="Who answers. Default: the login name and the machine.")
@where.root
@where.state
@where.as_json
@where.told
def approve(
    id: str,  # noqa: A002 - it is what people will call it
    show: bool,  # noqa: FBT001
    consent: Consent | None,
    sure: bool,  # noqa: FBT001
    by: str,
    root: tuple[Path, ...],
    state: Path | None,
    as_json: bool,  # noqa: FBT001
) -> int:
    """Show the question ID, then answer it with yes, once; without ID, list what waits for an answer."""
    if not id:
        if consent or sure or show:
            raise click.UsageError("This needs the ID of a question.")
        with stored(root, state) as store:
            listed(store.waiting(), as_json=as_json)
        return 0
    if (show and (consent or sure)) or (sure and consent == "no"):
        raise click.UsageError("Give only one of --show, --no and --yes.")
    asks = not (show or sure or consent == "no")
    if asks and (as_json or not at_a_terminal()):
        raise click.UsageError("Nobody can be asked here. Look at it with --show, then answer with --yes or --no.")
    consent = consent or "once"
    with stored(root, state) as store:
        asked = store.asked(id)
        must_be_possible(asked, consent)
        if not as_json:
            for line in question(asked):
                click.echo(line, err=asks)
        if asks and not agreed(ASKS[consent]):
            click.echo("It was not answered, and still waits. To refuse it: --no", err=True)
            return where.REFUSED
        if not show:
            asked = store.answer(asked.id, consent, by=by or somebody())
    if as_json:
        where.show(asdict(asked))
    elif not show:
        click.echo(outcome(asked))
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
    """All that is known of it. Nothing is cut."""
    yield f"{on_one_line(asked.tool)} in session {on_one_line(asked.session)}: {on_one_line(asked.because)}"
    if asked.command:
        yield from (f"    {line}" for line in all_lines_of(asked.command))
    if asked.diff:
        yield from (coloured(line) for line in all_lines_of(asked.diff))
    for consent, keys in (("session", asked.allows), ("pattern", asked.patterns)):
        if keys:
            named = ("this command" if asked.command and key.endswith(f"={asked.command}") else key for key in keys)
            yield f"--{consent} would allow: {', '.join(map(on_one_line, named))}"


def outcome(answered: Asked) -> str:
    how = {
        "once": "Allowed once",
        "session": f"Allowed for the session: {', '.join(answered.allows)}",
        "pattern": f"Allowed for the session: {', '.join(answered.patterns)}",
        "no": "Refused",
    }[answered.answer or "once"]
    return on_one_line(f"{how}, by {answered.by}. It counts when the same call is sent again.")
