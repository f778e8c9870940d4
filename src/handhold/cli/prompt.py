"""Asking the person at the terminal: what would happen and why, then one letter.

The question goes to standard error, since the reply on standard output may be somebody's data. What was typed before
the question was there is no answer to it.
"""

import sys
import termios
from collections.abc import Iterator

import click

from handhold.cli.screen import coloured, painted
from handhold.cli.state import somebody
from handhold.core.ports import Consent, Question
from handhold.core.text.visible import all_lines_of, lines_of, on_one_line

MOST_LINES = 200  # of a diff, besides those that are never cut


def at_a_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def answer(asked: str) -> str:
    """What was typed after the question was there, in small letters."""
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    click.echo(asked, nl=False, err=True)
    return sys.stdin.buffer.readline().decode("ascii", "replace").strip().lower()


def agreed(asked: str) -> bool:
    """Everything but a plain yes is a no."""
    return answer(f"{painted(asked, 'bold')} y (yes), n (no): ") in ("y", "yes")


class TerminalApprover:
    """`name` is whom the journal names."""

    def __init__(self) -> None:
        self.name = somebody()

    def __call__(self, question: Question, /) -> Consent:
        for line in shown(question):
            click.echo(line, err=True)
        answers = choices(question)
        said = answer(f"{', '.join(f'{letter} ({what})' for letter, (_, what) in answers.items())}: ")
        consent, _ = answers.get(said, ("no", ""))
        return consent


def shown(question: Question) -> Iterator[str]:
    by_rule = f" [{on_one_line(question.rule)}]" if question.rule else ""
    yield f"{on_one_line(question.tool)}: {on_one_line(question.because)}{by_rule}"
    if question.command:
        yield "It would run:" if not question.files else "It ran on a shadow of the workspace:"
        yield from (f"    {line}" for line in all_lines_of(question.command))
    if question.files:
        yield f"It would change {len(question.files)} {'place' if len(question.files) == 1 else 'places'}:"
    if question.diff:
        yield from (coloured(line) for line in lines_of(question.diff, most=MOST_LINES, uncut=question.uncut))


def choices(question: Question) -> dict[str, tuple[Consent, str]]:
    """The letters that are an answer. Everything else, and silence, is a no."""
    answers: dict[str, tuple[Consent, str]] = {"y": ("once", "yes, once")}
    if question.session:
        answers["s"] = ("session", f"for this session: {on_one_line(question.session)}")
    if question.patterns:
        listed = ", ".join(on_one_line(pattern) for pattern in question.patterns)
        answers["p"] = ("pattern", f"for this session, all like: {listed}")
    answers["n"] = ("no", "no")
    return answers
