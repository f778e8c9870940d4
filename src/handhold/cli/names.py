"""What to say about a command that does not exist."""

from collections.abc import Iterable
from typing import NoReturn

import click


def refuse_unknown_command(ctx: click.Context, name: str, known: Iterable[str]) -> NoReturn:
    """A usage error that names the nearest command."""
    from handhold.core.text.suggestions import suggest

    raise click.UsageError(f"There is no command {name!r}. {suggest(name, known)}", ctx)
