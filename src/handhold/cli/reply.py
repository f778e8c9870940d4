"""A reply on standard output, and the exit status that goes with it."""

import sys
from dataclasses import asdict

import click

from handhold.cli.where import REFUSED, show
from handhold.core.results import Reply
from handhold.core.text.visible import visible


def shown(reply: Reply, *, as_json: bool) -> int:
    """What the model would read: on a pipe as it is, on a terminal without what could speak to it."""
    if as_json:
        show(asdict(reply))
    else:
        click.echo(visible(reply.text) if sys.stdout.isatty() else reply.text)
    return REFUSED if reply.status == "error" else 0
