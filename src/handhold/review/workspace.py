"""The workspace that the page shows: its journal, and toolboxes to look into calls and to take them back."""

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from handhold.backends.state.sqlite import SqliteStore
from handhold.backends.state.state_folder import ensure_state_folder
from handhold.core.errors import ToolError
from handhold.core.ports.approvals import Approver
from handhold.logs import log_swallowed
from handhold.review.recorded_workspace import RecordedWorkspace
from handhold.toolbox import Toolbox


class ReviewedWorkspace(RecordedWorkspace):
    """Opens a workspace on this machine for people. `close` it."""

    can_act = True

    def __init__(self, roots: Sequence[str], state: Path | None = None) -> None:
        real = [os.path.realpath(root) for root in roots]
        self._state = state
        self.folder = ensure_state_folder(state, real)
        self.store = SqliteStore(self.folder)
        self._box = Toolbox.open(real, state=state, session="review")
        super().__init__(os.path.basename(real[0]) or real[0], real, self.store.records, self._box.history)

    def close(self) -> None:
        self._box.close()
        self.store.close()

    @property
    def forks(self) -> Toolbox:
        return self._box

    @contextmanager
    def open_session(self, session: str, approver: Approver | None = None) -> Generator[Toolbox]:
        """A toolbox that acts for a session."""
        with Toolbox.open(self.roots, state=self._state, session=session, approver=approver) as box:
            yield box

    def commands_reach_page(self) -> bool:
        """Whether something that an agent started may run outside of a sandbox here: in a fork, or recorded.

        Also if that cannot be found out.
        """
        if self.store.has_baseline():
            return True
        try:
            return any(fork.is_running for fork in self._box.forks)
        except ToolError:
            log_swallowed()
            return True
