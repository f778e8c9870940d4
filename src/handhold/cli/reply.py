"""A reply on standard output, and the exit status that goes with it."""

import sys

import click

from handhold.cli.options import EXIT_REFUSED, print_json
from handhold.core.results import Reply
from handhold.core.text.display_text import escape_invisible


def print_reply(reply: Reply, *, as_json: bool) -> int:
    """What the model would read: on a pipe as it is, on a terminal without what could speak to it."""
    if as_json:
        print_json(reply.to_dict())
    else:
        click.echo(escape_invisible(reply.text) if sys.stdout.isatty() else reply.text)
    return EXIT_REFUSED if reply.status == "error" else 0
