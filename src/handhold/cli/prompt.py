"""Asking the person at the terminal: what would happen and why, then one letter.

The question goes to standard error, since the reply on standard output may be somebody's data. What was typed before
the question was there is no answer to it.
"""

import sys
import termios
from collections.abc import Iterator

import click

from handhold.cli.state import get_user_at_host
from handhold.cli.terminal import colour_diff_line, colour_text
from handhold.core.ports.approvals import Consent, Question
from handhold.core.text.display_text import iter_first_lines, iter_visible_lines, to_single_line

MAX_DIFF_LINES = 200  # of a diff, besides those that are never cut


def is_interactive() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def read_answer(prompt: str) -> str:
    """What was typed after the question was there, in small letters."""
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    click.echo(prompt, nl=False, err=True)
    return sys.stdin.buffer.readline().decode("ascii", "replace").strip().lower()


def confirm(prompt: str) -> bool:
    """Everything but a plain yes is a no."""
    return read_answer(f"{colour_text(prompt, 'bold')} y (yes), n (no): ") in ("y", "yes")


class TerminalApprover:
    """`name` is whom the journal names."""

    def __init__(self) -> None:
        self.name = get_user_at_host()

    def __call__(self, question: Question, /) -> Consent:
        for line in format_question(question):
            click.echo(line, err=True)
        answers = list_choices(question)
        letter_typed = read_answer(f"{', '.join(f'{letter} ({what})' for letter, (_, what) in answers.items())}: ")
        consent, _ = answers.get(letter_typed, (Consent.NO, ""))
        return consent


def format_question(question: Question) -> Iterator[str]:
    by_rule = f" [{to_single_line(question.rule)}]" if question.rule else ""
    yield f"{to_single_line(question.tool)}: {to_single_line(question.because)}{by_rule}"
    if question.command:
        yield "It would run:" if not question.files else "It ran on a shadow of the workspace:"
        yield from (f"    {line}" for line in iter_visible_lines(question.command))
    if question.files:
        yield f"It would change {len(question.files)} {'place' if len(question.files) == 1 else 'places'}:"
    if question.diff:
        yield from (
            colour_diff_line(line)
            for line in iter_first_lines(question.diff, max_lines=MAX_DIFF_LINES, uncut=question.uncut)
        )


def list_choices(question: Question) -> dict[str, tuple[Consent, str]]:
    """The letters that are an answer. Everything else, and silence, is a no."""
    answers: dict[str, tuple[Consent, str]] = {"y": (Consent.ONCE, "yes, once")}
    if question.session:
        answers["s"] = (Consent.SESSION, f"for this session: {to_single_line(question.session)}")
    if question.patterns:
        listed = ", ".join(to_single_line(pattern) for pattern in question.patterns)
        answers["p"] = (Consent.PATTERN, f"for this session, all like: {listed}")
    answers["n"] = (Consent.NO, "no")
    return answers
