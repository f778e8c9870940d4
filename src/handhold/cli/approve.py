"""`handhold approve`: list and answer pending approvals.

An answer applies to exactly what is shown: the same call with the same changes, sent again by the same session. At a
terminal the approval is shown first, then confirmed. Without a terminal nothing is approved unless `--yes` is given.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

import click

from handhold.cli import candidates, options
from handhold.cli.prompt import confirm, is_interactive
from handhold.cli.state import get_user_at_host, open_store
from handhold.cli.terminal import colour_diff_line, colour_text
from handhold.core.errors import NoPendingApproval
from handhold.core.ports.approvals import Consent, ConsentName, PendingApproval
from handhold.core.text.display_text import iter_first_lines, iter_visible_lines, to_single_line

MAX_PREVIEW_LINES = 6
JSON_OUTPUT = {"": list[PendingApproval], "ID": PendingApproval}
PROMPTS: dict[Consent, str] = {
    Consent.ONCE: "Approve this once?",
    Consent.SESSION: "Approve this in its session, for a day?",
    Consent.PATTERN: "Approve this and similar commands in its session, for a day?",
}


@click.command()
@click.argument("id", default="", shell_complete=candidates.complete_approval_id)
@click.option("--show", is_flag=True, help="Show the pending approval without answering it.")
@click.option("--session", "consent", flag_value="session", help="Approve it in its session, for a day.")
@click.option(
    "--pattern", "consent", flag_value="pattern", help="Approve it and similar commands in its session, for a day."
)
@click.option("--no", "consent", flag_value="no", help="Refuse it.")
@click.option("--yes", "-y", "sure", is_flag=True, help="Do not ask for confirmation. Required without a terminal.")
@click.option("--by", default="", help="Name to record as the approver. Default: login name and host name.")
@options.root
@options.state
@options.as_json
@options.report_errors
def approve(
    id: str,  # noqa: A002 - the name of the argument in the help
    show: bool,  # noqa: FBT001
    consent: ConsentName | None,
    sure: bool,  # noqa: FBT001
    by: str,
    root: tuple[Path, ...],
    state: Path | None,
    as_json: bool,  # noqa: FBT001
) -> int:
    """Show a pending approval and approve its call once. Without ID, list the pending approvals.

    The answer takes effect when the same call is sent again.
    """
    if not id:
        if consent or sure or show:
            raise click.UsageError("Give the ID of a pending approval. `handhold approve` lists them.")
        with open_store(root, state) as store:
            print_pending(store.list_pending(), as_json=as_json)
        return 0
    if show and (consent or sure):
        raise click.UsageError("--show cannot be combined with an answer.")
    if sure and consent == "no":
        raise click.UsageError("--yes and --no cannot be combined.")
    should_ask = not (show or sure or consent == "no")
    if should_ask and (as_json or not is_interactive()):
        raise click.UsageError("Cannot ask for confirmation here. Review it with --show, then use --yes or --no.")
    answer = Consent(consent or "once")
    with open_store(root, state) as store:
        approval = store.get_pending(id)
        check_consent(approval, answer)
        if not as_json:
            for line in format_approval(approval):
                click.echo(line, err=should_ask)
        if should_ask and not confirm(PROMPTS[answer]):
            click.echo("Not approved; it is still pending. Use --no to refuse it.", err=True)
            return options.EXIT_REFUSED
        if not show:
            approval = store.answer(approval.id, answer, by=by or get_user_at_host())
    if as_json:
        options.print_json(approval)
    elif not show:
        click.echo(format_outcome(approval))
    return 0


def check_consent(approval: PendingApproval, consent: Consent) -> None:
    if (consent == "session" and not approval.allows) or (consent == "pattern" and not approval.patterns):
        raise NoPendingApproval(approval.id, f"it cannot be approved with --{consent}, only once")


def print_pending(pending: Sequence[PendingApproval], *, as_json: bool) -> None:
    if as_json:
        options.print_json(list(pending))
        return
    for each in pending:
        at = f"{datetime.fromtimestamp(each.at):%Y-%m-%d %H:%M:%S}"
        summary = f"{to_single_line(each.session)}  {to_single_line(each.tool)}: {to_single_line(each.because)}"
        click.echo(f"{colour_text(each.id, 'bold')}  {at}  {summary}")
        for line in iter_first_lines(each.command or each.diff, max_lines=MAX_PREVIEW_LINES):
            click.echo(f"    {line if each.command else colour_diff_line(line)}")
    if not pending:
        click.echo("No pending approvals.")


def format_approval(approval: PendingApproval) -> Iterator[str]:
    """The complete approval; nothing is truncated."""
    tool, session, because = map(to_single_line, (approval.tool, approval.session, approval.because))
    yield f"{tool} in session {session}: {because}"
    if approval.command:
        yield from (f"    {line}" for line in iter_visible_lines(approval.command))
    if approval.diff:
        yield from (colour_diff_line(line) for line in iter_visible_lines(approval.diff))
    for consent, keys in (("session", approval.allows), ("pattern", approval.patterns)):
        if keys:
            named = (
                "this command" if approval.command and key.endswith(f"={approval.command}") else key for key in keys
            )
            yield f"--{consent} also allows, in the session and for a day: {', '.join(map(to_single_line, named))}"


def format_outcome(approval: PendingApproval) -> str:
    how = {
        "once": "Approved once",
        "session": f"Approved for the session: {', '.join(approval.allows)}",
        "pattern": f"Approved for the session: {', '.join(approval.patterns)}",
        "no": "Refused",
    }[approval.answer or "once"]
    return to_single_line(f"{how}, by {approval.by}. This takes effect when the same call is sent again.")
