"""Print a reply on standard output and return the matching exit status."""

import sys
from typing import Any, TypedDict

import click

from handhold.cli.options import EXIT_REFUSED, print_json
from handhold.core.results import Block, Reply, Status
from handhold.core.text.display_text import escape_invisible


class ReplyJSON(TypedDict):
    """`Reply.to_dict()`."""

    status: Status
    text: str
    data: dict[str, Any]
    code: str | None
    error_source: str | None
    ui_extra: str
    images: list[Block]
    replayed: bool


def print_reply(reply: Reply, *, as_json: bool) -> int:
    """Print the text that the model would get. On a terminal, control characters are escaped."""
    if as_json:
        print_json(reply.to_dict())
    else:
        click.echo(escape_invisible(reply.text) if sys.stdout.isatty() else reply.text)
    return EXIT_REFUSED if reply.status == "error" else 0
