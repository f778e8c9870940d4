"""Taking back, and doing again. At a terminal it is shown first, and asked about; elsewhere it is done."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal, Unpack

import click

from handhold.cli.diff import colour_diff, format_file_count
from handhold.cli.diffstat import colour_counts, format_counts, format_stats, parse_stats, sum_stats
from handhold.cli.options import (
    EXIT_REFUSED,
    ToolboxOptions,
    add_call_options,
    add_toolbox_options,
    build_target,
    open_toolbox,
)
from handhold.cli.progress import show_progress
from handhold.cli.prompt import confirm, is_interactive
from handhold.cli.reply import print_reply
from handhold.cli.state import get_user_at_host
from handhold.cli.terminal import colour_text, is_stdout_terminal
from handhold.core.ports.approvals import Question
from handhold.core.results import Reply
from handhold.core.text.display_text import escape_invisible

Direction = Literal["undo", "redo"]
MAX_DIFF_LINES = 40  # of a diff, before the question
PROMPTS: dict[Direction, str] = {"undo": "Take this back?", "redo": "Do this again?"}


class ConfirmedApprover:
    """Answers what the person at the terminal has answered already. A preview asks nothing."""

    def __init__(self) -> None:
        self.name = get_user_at_host()

    def __call__(self, _: Question) -> bool:
        return True


def build_command(direction: Direction) -> Callable[..., None]:
    """The two ways through a history differ in their direction only."""

    @click.option("--preview", is_flag=True, help="Only show what it would do.")
    @click.option("--yes", "-y", "sure", is_flag=True, help="Do not ask.")
    @click.option("--keep-times", is_flag=True, help="Files get their old times back too, which `make` may go by.")
    @add_call_options
    @add_toolbox_options
    def run(
        one: str,
        turn: str,
        all_of_it: bool,  # noqa: FBT001
        preview: bool,  # noqa: FBT001
        sure: bool,  # noqa: FBT001
        keep_times: bool,  # noqa: FBT001
        as_json: bool,  # noqa: FBT001
        **options: Unpack[ToolboxOptions],
    ) -> int:
        with open_toolbox(options) as box:
            method = box.undo if direction == "undo" else box.redo
            reverse = partial(method, build_target(one, turn, all_of_it=all_of_it), keep_times=keep_times)
            should_ask = is_interactive() and not (sure or as_json)
            if sure or should_ask:  # whoever says yes to all of it says so to what a rule or a protected name asks
                box.approver = ConfirmedApprover()
            if preview:
                return print_preview(run_preview(reverse), as_json=as_json)
            return (
                confirm_and_run(reverse, direction)
                if should_ask
                else print_reply(run_reversal(reverse), as_json=as_json)
            )

    return run


def run_preview(reverse: Callable[..., Reply]) -> Reply:
    with show_progress():
        return reverse(preview=True)


def run_reversal(reverse: Callable[..., Reply]) -> Reply:
    with show_progress():
        return reverse()


def print_preview(reply: Reply, *, as_json: bool) -> int:
    status = print_reply(reply, as_json=as_json)
    if reply.ui_extra and not as_json:
        for line in colour_diff(reply.ui_extra) if is_stdout_terminal() else [reply.ui_extra.removesuffix("\n")]:
            click.echo(line)
    return status


def confirm_and_run(reverse: Callable[..., Reply], direction: Direction) -> int:
    """Shown, asked, and done if it is still what was shown."""
    first = run_preview(reverse)
    while first.status != "error":
        for line in format_summary(first):
            click.echo(line, err=True)
        if not confirm(PROMPTS[direction]):
            click.echo("Nothing was done.", err=True)
            return EXIT_REFUSED
        again = run_preview(reverse)
        if (again.text, again.ui_extra) == (first.text, first.ui_extra):
            return print_reply(run_reversal(reverse), as_json=False)
        click.echo("It is no longer what was shown; this is what it is now.", err=True)
        first = again
    return print_reply(first, as_json=False)


def format_summary(reply: Reply) -> Iterator[str]:
    """What it is, how much of which files, and the lines themselves if they are not many."""
    file_stats = parse_stats(reply.ui_extra)
    yield colour_text(escape_invisible(reply.text), "bold")
    yield from format_stats(file_stats)
    yield f"{format_file_count(len(file_stats))}: {colour_counts(format_counts(*sum_stats(file_stats))) or 'no lines'}"
    lines = list(colour_diff(reply.ui_extra)) if reply.ui_extra else []
    if len(lines) <= MAX_DIFF_LINES:
        yield from lines
    else:
        yield f"The {len(lines):,} lines of the diff: --preview"


undo = click.command("undo", help="Take back the last change, or a call, a turn, the session.")(build_command("undo"))
redo = click.command("redo", help="Do again what was taken back.")(build_command("redo"))
