"""The state of a workspace without opening the workspace: enough to read the journal and to answer approvals."""

import os
import pwd
import socket
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from handhold.backends.state.sqlite import SqliteStore


def default_root(state: Path | None, folder: Path | None = None) -> Path:
    """The current directory, or the folder around it whose changes are recorded: both have one journal."""
    from handhold.backends.state.state_folder import list_states_above

    folder = folder or Path.cwd()
    if not any(list_states_above(folder, state)):
        return folder
    from handhold.snapshots import find_recorded_root

    return find_recorded_root(folder, state)


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
