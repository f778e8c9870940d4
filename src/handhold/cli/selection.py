"""Which calls a command is about: numbers as in the log, `5` or `3..7`, ids, a turn or the session.

A number belongs to the workspace: it also selects the session, unless `--session` names one.
"""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from handhold.cli import candidates
from handhold.cli.options import LATEST_SESSION, CommandFunction, ToolboxOptions, resolve_session
from handhold.cli.state import open_store
from handhold.core.errors import NothingToUndo
from handhold.core.history import Target
from handhold.core.ports.records import CallFilter
from handhold.core.text.suggestions import suggest

if TYPE_CHECKING:
    from handhold.backends.state.sqlite import SqliteStore
    from handhold.core.ports.journal import JournalEntry

NUMBER = re.compile(r"#?([0-9]{1,18})")
RANGE = re.compile(r"#?([0-9]{1,18})\.\.#?([0-9]{1,18})")
MAX_CALLS = 10_000  # that a range selects
RECENT = 500  # calls and sessions that an unknown name is compared with
PAGE = 500

SELECTION_OPTIONS = (
    click.argument("names", metavar="[CALL]...", nargs=-1, shell_complete=candidates.complete_call_id),
    click.option(
        "--call",
        "more",
        multiple=True,
        metavar="CALL",
        help="The same as the argument CALL.",
        shell_complete=candidates.complete_call_id,
    ),
    click.option("--turn", default="", help="Select all calls of a turn.", shell_complete=candidates.complete_turn),
    click.option("--all", "all_of_it", is_flag=True, help="Select all calls of the session."),
)


def add_selection(command: CommandFunction) -> CommandFunction:
    """Add the argument and the options that select calls: `names`, `more`, `turn`, `all_of_it`."""
    for option in reversed(SELECTION_OPTIONS):
        command = option(command)
    return command


def select_calls(
    given: ToolboxOptions, names: Sequence[str], turn: str, *, all_of_it: bool
) -> tuple[ToolboxOptions, Target | None]:
    """The target that a command line names, None for none, and the options with its session.

    NothingToUndo, with the nearest name, if there is no such call or session.
    """
    if all_of_it and (names or turn):
        raise click.UsageError("--all cannot be combined with a call or --turn.")
    if turn and len(names) > 1:
        raise click.UsageError("--turn can be combined with one call only.")
    with open_store(given["root"], given["state"]) as store:
        session = find_session(store, given)
        entries = [entry for name in names for entry in _find_numbered(store, name)]
        if entries and given["session"] == LATEST_SESSION:
            session = entries[0].call.session
        numbers = tuple(dict.fromkeys(entry.seq for entry in entries if entry.call.session == session))
        ids = [name for name in names if not NUMBER.fullmatch(name) and not RANGE.fullmatch(name)]
        _check_selection(store, session, ids, names, numbers)
    chosen = ToolboxOptions({**given, "session": session})
    if ids:
        return chosen, Target.call(ids[0], turn=turn)
    if numbers:
        return chosen, Target.call(numbers[0]) if len(numbers) == len(names) == 1 else Target.calls(*numbers)
    if turn:
        return chosen, Target.turn(turn)
    return chosen, Target.session() if all_of_it else None


def find_session(store: "SqliteStore", given: ToolboxOptions) -> str:
    """The session that is named, or the one with the latest call. NothingToUndo if there is none of that name."""
    session = resolve_session(given)
    if given["session"] != LATEST_SESSION and store.records.find_session(session) is None:
        known = [each.name for each in store.records.list_sessions(limit=RECENT).items]
        raise NothingToUndo(f"there is no session {session!r}" + (f". {suggest(session, known)}" if known else ""))
    return session


def find_entry(store: "SqliteStore", given: ToolboxOptions, name: str) -> "JournalEntry":
    """The call of this number, or the last of the session with this id."""
    session = find_session(store, given)
    found = list(_find_numbered(store, name))
    if found:
        return found[-1]
    _check_selection(store, session, [name], [name], ())
    entry = next(each for each in _list_recent(store, session) if each.call.call_id == name)
    return store.records.find_entry(entry.seq) or entry


def _find_numbered(store: "SqliteStore", name: str) -> "Iterator[JournalEntry]":
    if match := NUMBER.fullmatch(name):
        entry = store.records.find_entry(int(match[1]))
        if entry is None:
            last = store.entries(last=1)
            raise NothingToUndo(f"there is no call #{match[1]}" + (f"; the last is #{last[0].seq}" if last else ""))
        yield entry
    elif match := RANGE.fullmatch(name):
        first, last = sorted((int(match[1]), int(match[2])))
        found = _list_range(store, first, last)
        if not found:
            raise NothingToUndo(f"there is no call from #{first} to #{last}")
        yield from reversed(found)


def _list_range(store: "SqliteStore", first: int, last: int) -> "list[JournalEntry]":
    """Newest first."""
    found: list[JournalEntry] = []
    cursor = str(last + 1)
    while cursor:
        page = store.records.list_calls(CallFilter(), cursor=cursor, limit=PAGE)
        found += [entry for entry in page.items if first <= entry.seq]
        if len(found) > MAX_CALLS:
            raise click.UsageError(f"A range selects at most {MAX_CALLS:,} calls.")
        cursor = page.next_cursor if page.items and page.items[-1].seq > first else ""
    return found


def _check_selection(
    store: "SqliteStore", session: str, ids: Sequence[str], names: Sequence[str], numbers: Sequence[int]
) -> None:
    if ids and len(names) > 1:
        raise click.UsageError("Several calls are named by their numbers: handhold undo 3 5 8..9.")
    if names and not ids and not numbers:
        raise NothingToUndo(f"{', '.join(names)}: no call of the session {session!r}")
    for name in ids:
        known = [entry.call.call_id for entry in _list_recent(store, session) if entry.call.call_id]
        if name not in known and not store.find_changes(session, undone=None, call=name, last=1):
            hint = f". {suggest(name, known[:10])}" if known else ". Give its number, as in `handhold log`"
            raise NothingToUndo(f"there is no call {name!r} in the session {session!r}{hint}")


def _list_recent(store: "SqliteStore", session: str) -> "Sequence[JournalEntry]":
    """Newest first."""
    return store.records.list_calls(CallFilter(session=session), limit=RECENT).items
