"""Questions to the person at the terminal: what would happen and why, answered with one letter.

Questions go to standard error, because the reply on standard output may be data for another program. Input that was
typed before the question appeared is discarded.
"""

import sys
import termios
from collections.abc import Iterable, Iterator

import click

from handhold.cli.state import get_user_at_host
from handhold.cli.terminal import colour_diff_line, colour_text, is_stderr_terminal, is_terminal, save_terminal_settings
from handhold.core.ports.approvals import Consent, Question
from handhold.core.text.display_text import escape_invisible, iter_first_lines, iter_visible_lines, to_single_line

MAX_DIFF_LINES = 200  # in addition to the lines that are never truncated


def is_interactive() -> bool:
    return is_terminal(sys.stdin) and is_stderr_terminal()


def read_answer(prompt: str) -> str:
    """The next line typed after the prompt appears, in lower case."""
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    click.echo(prompt, nl=False, err=True)
    return sys.stdin.buffer.readline().decode("ascii", "replace").strip().lower()


def confirm(prompt: str) -> bool:
    """True only for an explicit yes."""
    return read_answer(f"{colour_text(prompt, 'bold')} y (yes), n (no): ") in ("y", "yes")


def confirm_loss(lines: Iterable[str], prompt: str, *, as_json: bool) -> bool:
    """Show what would be lost for good, and ask. Where nobody can be asked, a usage error: `--yes` is the answer."""
    for line in lines:
        click.echo(escape_invisible(line), err=True)
    if as_json or not is_interactive():
        raise click.UsageError("This cannot be undone, and nobody can be asked here. Use --yes.")
    return confirm(prompt)


class TerminalApprover:
    """Asks at the terminal. `name` is recorded in the journal as the approver.

    The terminal is then set as it was at first: a command that used it may have turned off echo, lines or Ctrl-C.
    """

    def __init__(self) -> None:
        self.name = get_user_at_host()
        self._restore_terminal = save_terminal_settings()

    def __call__(self, question: Question, /) -> Consent:
        self._restore_terminal()
        for line in format_question(question):
            click.echo(line, err=True)
        answers = list_choices(question)
        listed = ", ".join(f"{letter} ({what})" for letter, (_, what) in answers.items())
        letter_typed = read_answer(f"{colour_text(ask(question), 'bold')} {listed}: ")
        consent, _ = answers.get(letter_typed, (Consent.NO, ""))
        return consent


def ask(question: Question) -> str:
    if question.files:
        return "Apply this change?" if len(question.files) == 1 else "Apply these changes?"
    return "Run this command?" if question.command else "Allow this?"


def format_question(question: Question) -> Iterator[str]:
    tool, count = to_single_line(question.tool), len(question.files)
    if count:
        yield f"{tool} would change {'1 path' if count == 1 else f'{count:,} paths'}. Nothing is applied yet."
    else:
        yield f"{tool} would run a command:" if question.command else tool
    if question.command:
        yield from (f"    {line}" for line in iter_visible_lines(question.command))
    # The name of a mode would only repeat the reason.
    by_rule = f" [{to_single_line(question.rule)}]" if question.rule and not question.rule.startswith("mode ") else ""
    yield f"Reason for asking: {to_single_line(question.because)}{by_rule}"
    if question.diff:
        yield from (
            colour_diff_line(line)
            for line in iter_first_lines(question.diff, max_lines=MAX_DIFF_LINES, uncut=question.uncut)
        )


def list_choices(question: Question) -> dict[str, tuple[Consent, str]]:
    """The accepted letters. Any other input, or none, means no."""
    answers: dict[str, tuple[Consent, str]] = {"y": (Consent.ONCE, "yes, once")}
    if question.session:
        answers["s"] = (Consent.SESSION, f"for this session: {to_single_line(question.session)}")
    if question.patterns:
        listed = ", ".join(to_single_line(pattern) for pattern in question.patterns)
        answers["p"] = (Consent.PATTERN, f"for this session, all commands like: {listed}")
    answers["n"] = (Consent.NO, "no")
    return answers
