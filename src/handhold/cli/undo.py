"""`handhold undo` and `handhold redo`. At a terminal the change is shown and confirmed first."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Unpack

import click

from handhold.cli.diff import colour_diff
from handhold.cli.diffstat import format_stats, parse_stats
from handhold.cli.git_files import is_git_internal
from handhold.cli.options import (
    EXIT_REFUSED,
    ToolboxOptions,
    add_history_options,
    open_toolbox,
)
from handhold.cli.progress import show_progress
from handhold.cli.prompt import confirm, is_interactive
from handhold.cli.reply import ReplyJSON, print_reply
from handhold.cli.reversal import format_reversal
from handhold.cli.selection import add_selection, select_calls
from handhold.cli.state import get_user_at_host
from handhold.cli.terminal import colour_text, is_stdout_terminal
from handhold.core.change_diff import shorten_path
from handhold.core.choices import Resolution
from handhold.core.errors import NothingToUndo, UndoConflict
from handhold.core.ports.approvals import Question
from handhold.core.results import Reply
from handhold.core.text.display_text import to_single_line
from handhold.pipeline.reversal_notes import list_conflict_lines

Direction = Literal["undo", "redo"]
MAX_DIFF_LINES = 40  # a longer diff is not shown before the question
JSON_OUTPUT = {"": ReplyJSON}
WAYS_ON = (
    "Repeat it with --take old (restore the old version), --take mine (keep what is there now), --save (keep it, and"
    " put the old version beside it) or --skip (leave these files alone)."
)
PROMPTS: dict[Direction, str] = {"undo": "Undo this?", "redo": "Redo this?"}


class ConfirmedApprover:
    """Approves what the person at the terminal has already confirmed. A preview asks nothing."""

    def __init__(self) -> None:
        self.name = get_user_at_host()

    def __call__(self, _: Question) -> bool:
        return True


def build_command(direction: Direction) -> Callable[..., None]:
    """Undo and redo differ only in their direction."""

    @click.option("--preview", is_flag=True, help="Show what would change and exit.")
    @click.option("--yes", "-y", "sure", is_flag=True, help="Do not ask for confirmation.")
    @click.option(
        "--keep-times",
        is_flag=True,
        help="Restore modification times too. By default they are set to now, so that `make` rebuilds.",
    )
    @click.option(
        "--with-foreign",
        is_flag=True,
        hidden=direction == "redo",
        help="Also undo what others changed since, outside every recorded call.",
    )
    @click.option(
        "--take",
        type=click.Choice(["old", "mine"]),
        help="Where the same lines changed since: restore the old version, or keep what is there now.",
    )
    @click.option("--save", "take", flag_value="save", help="Keep such files, and put the old version beside them.")
    @click.option("--skip", "take", flag_value="skip", help="Leave such files alone.")
    @add_selection
    @add_history_options
    def run(
        names: tuple[str, ...],
        more: tuple[str, ...],
        turn: str,
        all_of_it: bool,  # noqa: FBT001
        preview: bool,  # noqa: FBT001
        sure: bool,  # noqa: FBT001
        keep_times: bool,  # noqa: FBT001
        with_foreign: bool,  # noqa: FBT001
        take: Resolution | None,
        as_json: bool,  # noqa: FBT001
        **options: Unpack[ToolboxOptions],
    ) -> int:
        chosen, target = select_calls(options, (*names, *more), turn, all_of_it=all_of_it)
        with open_toolbox(chosen, for_history=True) as box:
            method = partial(box.undo, with_foreign=with_foreign) if direction == "undo" else box.redo

            def reverse(*, preview: bool = False) -> Reply:
                reply = method(target, preview=preview, keep_times=keep_times, take=take)
                return clarify(reply, direction, box.files.roots)

            should_ask = is_interactive() and not (sure or as_json)
            if sure or should_ask:  # the confirmation also answers what a rule or a protected name asks
                box.approver = ConfirmedApprover()
            if preview:
                return print_preview(run_preview(reverse), box.files.roots, as_json=as_json)
            return (
                confirm_and_run(reverse, direction, box.files.roots)
                if should_ask
                else print_outcome(run_reversal(reverse), box.files.roots, as_json=as_json)
            )

    return run


def run_preview(reverse: Callable[..., Reply]) -> Reply:
    with show_progress():
        return reverse(preview=True)


def run_reversal(reverse: Callable[..., Reply]) -> Reply:
    with show_progress():
        return reverse()


def print_outcome(reply: Reply, roots: Sequence[str], *, as_json: bool) -> int:
    """One line that says what was done, or the error."""
    if as_json or reply.status == "error":
        return print_reply(reply, as_json=as_json)
    click.echo(format_reversal(reply.data, parse_stats(reply.ui_extra), roots))
    return 0


def clarify(reply: Reply, direction: Direction, roots: Sequence[str]) -> Reply:
    """The reply, with a text for a person if there is nothing to undo or redo, or something came later."""
    if reply.code == UndoConflict.code:
        return replace(reply, text=describe_conflict(reply.data, direction, roots))
    if reply.code != NothingToUndo.code:
        return reply
    text = f"There is nothing to {direction}: {reply.data['wanted']}. `handhold log` lists the calls."
    return replace(reply, text=text)


def describe_conflict(facts: Mapping[str, Any], direction: Direction, roots: Sequence[str]) -> str:
    """What changed since, with both sides of lines that touch, and the ways on."""
    paths: Sequence[str] = facts["paths"]
    reasons: Sequence[str] = facts.get("reasons") or [""] * len(paths)
    texts: Sequence[str] = facts.get("texts") or [""] * len(paths)
    lines = [f"UNDO_CONFLICT: Nothing was {direction}ne, because later changes would be lost:"]
    for path, reason, text in zip(paths, reasons, texts, strict=True):
        lines.append(to_single_line(f"  {shorten_path(path, roots)}: {reason or 'git is at work there'}"))
        lines += [f"    {to_single_line(line)}" for line in list_conflict_lines(text)[:MAX_DIFF_LINES]]
    if any(reasons):
        lines.append(WAYS_ON)
    return "\n".join(lines)


def print_preview(reply: Reply, roots: Sequence[str], *, as_json: bool) -> int:
    status = print_outcome(reply, roots, as_json=as_json)
    if reply.ui_extra and not as_json:
        for line in colour_diff(reply.ui_extra) if is_stdout_terminal() else [reply.ui_extra.removesuffix("\n")]:
            click.echo(line)
    return status


def confirm_and_run(reverse: Callable[..., Reply], direction: Direction, roots: Sequence[str]) -> int:
    """Show the change, ask, and apply it if it is still the change that was shown."""
    first = run_preview(reverse)
    while first.status != "error":
        for line in format_summary(first, roots):
            click.echo(line, err=True)
        if not confirm(PROMPTS[direction]):
            click.echo("Nothing changed.", err=True)
            return EXIT_REFUSED
        again = run_preview(reverse)
        if (again.text, again.ui_extra) == (first.text, first.ui_extra):
            return print_outcome(run_reversal(reverse), roots, as_json=False)
        click.echo("Something changed in the meantime. This is what would happen now:", err=True)
        first = again
    return print_reply(first, as_json=False)


def format_summary(reply: Reply, roots: Sequence[str]) -> Iterator[str]:
    """What would be done, the changed lines of each file, and the diff if it is short and readable."""
    file_stats = parse_stats(reply.ui_extra)
    yield colour_text(format_reversal(reply.data, file_stats, roots), "bold")
    yield from format_stats(file_stats)
    lines = list(colour_diff(reply.ui_extra)) if reply.ui_extra else []
    if len(lines) <= MAX_DIFF_LINES and not any(is_git_internal(each.path) for each in file_stats):
        yield from lines
    else:
        yield f"The diff has {len(lines):,} lines. Use --preview to see it."


WHICH = "Select calls by their numbers in the log, `5` or `3..7`, or one by its id."
undo = click.command("undo", help=f"Undo the last change, or what CALL changed. {WHICH}")(build_command("undo"))
redo = click.command("redo", help=f"Redo the last undo, or the undone changes of CALL. {WHICH}")(build_command("redo"))
