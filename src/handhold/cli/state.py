"""The state of a workspace without opening the workspace: enough to read the journal and to answer approvals."""

import os
import pwd
import socket
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import click

from handhold.core.text.display_text import escape_invisible

if TYPE_CHECKING:
    from handhold.backends.state.sqlite import SqliteStore


def default_root(state: Path | None) -> Path:
    """The workspace of the current directory. Says which it took if that is another folder."""
    here = Path.cwd()
    found = find_workspace(here, state)
    if found != here:
        _tell_workspace(str(found))
    return found


@cache
def _tell_workspace(path: str) -> None:
    click.echo(f"handhold: in the workspace {escape_invisible(path)}", err=True)


def find_workspace(folder: Path, state: Path | None) -> Path:
    """The outermost folder around this one whose changes are recorded: both have one journal. Else, as git does, the
    nearest with a call in its journal, the folder itself first. Else the folder.

    The user's home, and what contains it, is taken only where one stands in it: everything is below it.
    """
    from handhold.backends.shell.host_paths import find_homes
    from handhold.backends.state.state_folder import list_states_above, state_folder_path
    from handhold.snapshots import find_recorded_root

    above = dict(list_states_above(folder, state))
    if not above:
        return folder
    if (recorded := find_recorded_root(folder, state)) != folder:
        return recorded
    around_home = {place for home in map(Path, find_homes()) for place in (home, *home.parents)}
    candidates = [(folder, state_folder_path(state, [str(folder)])), *reversed(above.items())]
    candidates = [(place, kept) for place, kept in candidates if place == folder or place not in around_home]
    return next((place for place, kept in candidates if _has_call(kept)), folder)


def _has_call(state_folder: Path) -> bool:
    from handhold.backends.state.sqlite import SqliteStore

    if not state_folder.exists():
        return False
    with closing(SqliteStore(state_folder)) as store:
        return bool(store.entries(last=1))


@contextmanager
def open_store(roots: Sequence[Path], state: Path | None) -> Generator["SqliteStore"]:
    """Raises ToolError if the state cannot be used."""
    from handhold.backends.state.sqlite import SqliteStore
    from handhold.backends.state.state_folder import ensure_state_folder

    store = SqliteStore(ensure_state_folder(state, [os.fspath(root) for root in roots or (default_root(state),)]))
    try:
        yield store
    finally:
        store.close()


def get_user_at_host() -> str:
    """The current user according to the system; environment variables are not trusted."""
    try:
        login = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        login = str(os.getuid())
    return f"{login}@{socket.gethostname()}"
