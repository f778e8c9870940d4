"""Dynamic shell completion: sessions, calls, turns, approvals and tools.

Completion creates and repairs nothing. Names that cannot be looked up are not offered.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from handhold.core.errors import ToolError
from handhold.logs import log_swallowed

if TYPE_CHECKING:
    from handhold.core.ports.approvals import PendingApproval
    from handhold.core.ports.journal import JournalEntry

MAX_RECENT_CALLS = 500  # how far back completion searches
Candidates = list[str]


def make_completer(find_names: Callable[[click.Context], Iterable[str]]) -> Callable[..., Candidates]:
    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> Candidates:
        try:
            names = dict.fromkeys(find_names(ctx))
        except (ToolError, OSError, ValueError):
            log_swallowed()
            return []
        return [name for name in names if name.startswith(incomplete) and name.isprintable() and " " not in name]

    return complete


@make_completer
def complete_session(ctx: click.Context) -> Iterator[str]:
    return (entry.call.session for entry in read_recent_entries(ctx))


@make_completer
def complete_call_id(ctx: click.Context) -> Iterator[str]:
    from handhold.core.history import format_call_id

    return (format_call_id(entry) for entry in read_recent_entries(ctx) if is_of_session(ctx, entry) and entry.changed)


@make_completer
def complete_turn(ctx: click.Context) -> Iterator[str]:
    return (entry.call.turn for entry in read_recent_entries(ctx) if is_of_session(ctx, entry) and entry.call.turn)


@make_completer
def complete_approval_id(ctx: click.Context) -> Iterator[str]:
    return (approval.id for approval in read_pending_approvals(ctx))


@make_completer
def complete_tool(ctx: click.Context) -> Iterator[str]:
    from handhold.factory import load_dialect

    return (spec.name for spec in load_dialect(ctx.params.get("dialect") or "handhold").specs)


def is_of_session(ctx: click.Context, entry: "JournalEntry") -> bool:
    return entry.call.session == (ctx.params.get("session") or "default")


def read_recent_entries(ctx: click.Context) -> "list[JournalEntry]":
    """The last calls, newest first. Empty if there is no journal; it is not created."""
    from handhold.cli.state import open_store

    roots, state = get_roots_and_state(ctx)
    if not has_state(roots, state):
        return []
    with open_store(roots, state) as store:
        return list(reversed(store.entries(last=MAX_RECENT_CALLS)))


def read_pending_approvals(ctx: click.Context) -> "list[PendingApproval]":
    from handhold.cli.state import open_store

    roots, state = get_roots_and_state(ctx)
    if not has_state(roots, state):
        return []
    with open_store(roots, state) as store:
        return list(store.list_pending())


def get_roots_and_state(ctx: click.Context) -> tuple[tuple[Path, ...], Path | None]:
    return ctx.params.get("root") or (Path.cwd(),), ctx.params.get("state")


def has_state(roots: tuple[Path, ...], state: Path | None) -> bool:
    from handhold.backends.state.state_folder import state_folder_path

    return state_folder_path(state, [str(root) for root in roots]).is_dir()
