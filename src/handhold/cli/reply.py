"""Print a reply on standard output and return the matching exit status."""

import sys

import click

from handhold.cli.options import EXIT_REFUSED, print_json
from handhold.core.results import Reply
from handhold.core.text.display_text import escape_invisible


def print_reply(reply: Reply, *, as_json: bool) -> int:
    """Print the text that the model would get. On a terminal, control characters are escaped."""
    if as_json:
        print_json(reply.to_dict())
    else:
        click.echo(escape_invisible(reply.text) if sys.stdout.isatty() else reply.text)
    return EXIT_REFUSED if reply.status == "error" else 0
