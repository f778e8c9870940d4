"""How far a hub has the journal of a workspace, for `handhold doctor`."""

import os
from collections.abc import Iterator
from pathlib import Path

from handhold.cli.state import open_store
from handhold.cli.terminal import colour_text
from handhold.core.ports.hub_link import HubStatus
from handhold.core.text.display_text import escape_invisible


def find_hub_status(root: Path, state: Path | None) -> HubStatus | None:
    """How far a hub has the journal of this workspace; None if it is shipped to none."""
    from handhold.backends.state.state_folder import state_folder_path

    if not state_folder_path(state, [os.fspath(root.resolve())]).is_dir():
        return None
    with open_store([root.resolve()], state) as store:
        return store.hub_status()


def format_hub(status: HubStatus | None) -> Iterator[str]:
    if status:
        yield ""
        yield colour_text("Hub", "bold")
        yield f"  {escape_invisible(status.describe())}"
