"""Recording what others change: the calls of an agent's own tools, of an editor, of any program.

It records and undoes; it neither confines nor previews. See `docs/snapshots.md`.
"""

import os
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from pathlib import Path

from handhold.backends.files.os_errors import translate_os_errors
from handhold.backends.files.roots import Root
from handhold.backends.files.workspace import Workspace
from handhold.backends.programs import DEVNULL, build_python_argv, build_user_environment, start_program
from handhold.backends.snapshots.recorder import WAIT_SECONDS, Recorded, Recorder
from handhold.backends.snapshots.recordings import WorkspaceRecording
from handhold.backends.state.lock import hold_lock
from handhold.backends.state.sqlite import SqliteStore
from handhold.backends.state.state_folder import list_states_above
from handhold.core.errors import Busy, NotRecorded
from handhold.core.ports.journal import Call
from handhold.core.ports.recording import Window
from handhold.logs import log_swallowed

__all__ = ["Recorded", "Snapshots", "Window", "find_recorded_root"]

INLINE_SECONDS = 0.5  # for the baseline, before another process takes over
POLL_SECONDS = 0.02
LOCK_FILE = "baseline.lock"  # in the state folder; held by the process that copies


class Snapshots:
    """Records what others change in the first root of a workspace."""

    def __init__(
        self, files: Workspace, recording: WorkspaceRecording, state: Path, start_copier: Callable[[], None] | None
    ) -> None:
        """`start_copier` starts a process that goes on copying; without it, nobody does."""
        self._root: Root = files.open_roots[0]
        self._recording = recording
        self._state = state
        self._start_copier = start_copier

    @property
    def recorder(self) -> Recorder:
        return self._recording.recorder(self._root)

    def begin(self, window: Window) -> Recorded:
        """Before a call that somebody else makes. Waits for the baseline, at most two seconds; if the call's paths are
        known, only for copies of these."""
        recorder = self.recorder
        if window.paths is None:
            if objection := self._find_objection():
                raise NotRecorded(self._root.real, objection)
            if not self._is_complete(recorder):
                self._wait_for_baseline(recorder)
        with translate_os_errors(self._root.real):
            recorded = recorder.begin(window)
        self.resume()
        return recorded

    def end(self, session: str, call_id: str, *, copies: bool = True) -> Recorded:
        """After the call. What it changed is copied for the next one; without `copies`, call `copy` soon."""
        with translate_os_errors(self._root.real):
            recorded = self.recorder.end(session, call_id, copies=copies)
            return self._finish(recorded) if copies else recorded

    def list_open(self, session: str) -> list[str]:
        """The ids of the session's calls that have begun and not ended."""
        return self.recorder.list_open(session)

    def copy(self) -> None:
        """Copy what was changed, for the next call."""
        with translate_os_errors(self._root.real):
            self.recorder.copy_some()
            self._finish(Recorded())

    def list_open_clients(self) -> dict[str, str]:
        """The sessions of clients that have calls under way, each with its process as `note_client` got it."""
        return self.recorder.list_open_clients()

    def sweep(
        self,
        session: str | None = None,
        *,
        agent: str | None = None,
        next_turn: bool = False,
        ended: Collection[str] = (),
    ) -> Recorded:
        """Between calls. Closes the windows of a session that never ended, and of other sessions that have `ended`;
        without a session, all of them. With `agent`, of the session only those of this sub-agent; "" is the agent.

        With `next_turn`, later windows of the session that name no turn belong to a new one.
        """
        with translate_os_errors(self._root.real):
            return self._finish(self.recorder.sweep(session, agent=agent, next_turn=next_turn, ended=ended))

    def note_client(self, session: str, process: str, prompt: str, *, is_active: bool | None) -> bool:
        """Take note of a client's session, and whether a turn of it is under way; returns whether it is a new one."""
        return self.recorder.note_client(session, process, prompt, is_active=is_active)

    def adopt(self, paths: Sequence[str], call: Call) -> Recorded:
        """Record what was changed at these paths since the last scan as one call."""
        if not self.recorder.baseline.exists:
            raise NotRecorded(self._root.real, "there is no baseline, so nobody knows what these files were before")
        with translate_os_errors(self._root.real):
            return self._finish(self.recorder.adopt(paths, call))

    def forget(self, path: str = "") -> None:
        """Remove the baseline and the contents for undo, or what they have of a path."""
        with translate_os_errors(self._root.real):
            self.recorder.forget(path)

    def complete(self) -> bool:
        """List and copy everything; False if another process does that already, or if only edits whose paths are named
        are recorded here. May take long."""
        if self._find_objection():
            return False
        recorder = self.recorder
        try:
            with hold_lock(self._state / LOCK_FILE, wait=False):
                recorder.ingest(until=float("inf"))
                recorder.remove_unknown_copies()
                recorder.copy(until=float("inf"))
        except Busy:
            return False
        return True

    def start(self) -> None:
        """Let another process make the baseline, before the first call. Does nothing where only named edits are
        recorded."""
        if self._start_copier and not self._find_objection() and not self._is_complete(self.recorder):
            self._start_copier()

    def resume(self) -> None:
        """Let another process go on with a baseline that is not complete. Without a baseline, nothing happens."""
        if self._recording.is_on and self._start_copier and not self._find_objection():
            recorder = self.recorder
            if recorder.baseline.exists and not self._is_complete(recorder):
                self._start_copier()

    # --- the baseline

    def _wait_for_baseline(self, recorder: Recorder) -> None:
        until = time.monotonic() + WAIT_SECONDS
        inline = time.monotonic() + INLINE_SECONDS
        if recorder.ingest(inline) and recorder.copy(inline):
            return
        if self._start_copier is None:
            return
        self._start_copier()
        while time.monotonic() < until and not self._is_complete(recorder):
            time.sleep(POLL_SECONDS)

    def _finish(self, recorded: Recorded) -> Recorded:
        """What is not copied yet is copied by another process."""
        recorder = self.recorder
        if self._start_copier and recorder.baseline.is_scanned and recorder.baseline.due(1):
            self._start_copier()
        return recorded

    def _is_complete(self, recorder: Recorder) -> bool:
        return recorder.baseline.is_scanned and not recorder.baseline.due(1)

    def _find_objection(self) -> str:
        """Why only edits whose paths are named are recorded in this root; empty if everything is."""
        root = self._root.real
        if root == "/":
            return "it is the whole file system"
        if root == os.path.realpath(os.path.expanduser("~")):
            return "it is your home folder"
        if os.path.realpath(self._state).startswith(self._root.prefix):
            return "it contains the state of Handhold"
        return ""


def start_copier(root: str, state: Path | None) -> None:
    """Start a process that completes the baseline of a root. It ends by itself, at once if another one is at it."""
    command = build_python_argv("handhold.cli.copy_baseline", root, *([os.path.abspath(state)] if state else []))
    try:
        start_program(command, env=build_user_environment(), stdout=DEVNULL, stderr=DEVNULL, new_session=True)
    except OSError:
        log_swallowed()  # the next call tries again


def find_recorded_root(folder: Path, state: Path | None) -> Path:
    """The outermost recorded folder that contains this one; else the folder itself."""
    for above, place in list_states_above(folder, state):
        with closing(SqliteStore(place)) as store:
            if store.baseline(str(above)).exists:
                return above
    return folder
