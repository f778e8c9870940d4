"""What a shell offers at the key Tab, besides the words of the command line itself: sessions, calls, turns, tools.

Nothing is made or mended for it, and what cannot be looked up is not offered.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from handhold.core.errors import ToolError

if TYPE_CHECKING:
    from handhold.core.ports import Asked, Entry

RECENT = 500  # calls that are looked at
Offered = list[str]


def offering(found: Callable[[click.Context], Iterable[str]]) -> Callable[..., Offered]:
    def offered(ctx: click.Context, _: click.Parameter, incomplete: str) -> Offered:
        try:
            names = dict.fromkeys(found(ctx))
        except (ToolError, OSError, ValueError):
            return []
        return [name for name in names if name.startswith(incomplete) and name.isprintable() and " " not in name]

    return offered


@offering
def sessions(ctx: click.Context) -> Iterator[str]:
    return (entry.call.session for entry in recent(ctx))


@offering
def call_ids(ctx: click.Context) -> Iterator[str]:
    from handhold.core.history import name_of

    return (name_of(entry) for entry in recent(ctx) if of_session(ctx, entry) and entry.changed)


@offering
def turns(ctx: click.Context) -> Iterator[str]:
    return (entry.call.turn for entry in recent(ctx) if of_session(ctx, entry) and entry.call.turn)


@offering
def questions(ctx: click.Context) -> Iterator[str]:
    return (asked.id for asked in asked_in(ctx))


@offering
def tools(ctx: click.Context) -> Iterator[str]:
    from handhold.factory import load_dialect

    return (spec.name for spec in load_dialect(ctx.params.get("dialect") or "handhold").specs)


def of_session(ctx: click.Context, entry: "Entry") -> bool:
    return entry.call.session == (ctx.params.get("session") or "default")


def recent(ctx: click.Context) -> "list[Entry]":
    """The last calls, newest first; none where there is no journal, which is then not made."""
    from handhold.cli.state import stored

    roots, state = where(ctx)
    if not kept(roots, state):
        return []
    with stored(roots, state) as store:
        return list(reversed(store.entries(last=RECENT)))


def asked_in(ctx: click.Context) -> "list[Asked]":
    from handhold.cli.state import stored

    roots, state = where(ctx)
    if not kept(roots, state):
        return []
    with stored(roots, state) as store:
        return list(store.waiting())


def where(ctx: click.Context) -> tuple[tuple[Path, ...], Path | None]:
    return ctx.params.get("root") or (Path.cwd(),), ctx.params.get("state")


def kept(roots: tuple[Path, ...], state: Path | None) -> bool:
    from handhold.world.state.folder import place_of

    return place_of(state, [str(root) for root in roots]).is_dir()
