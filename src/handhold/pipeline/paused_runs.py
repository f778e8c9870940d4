"""Commands that ran and wait for an approval that comes with another call.

An approver that raises RunPaused ends the call to ask. The effects of the command stay in their overlay, and the same
call, made again with the answer, commits them: an approved command runs once.
"""

from contextlib import ExitStack
from dataclasses import dataclass
from threading import Lock

from handhold.core.errors import ToolError
from handhold.core.ports.files import Files
from handhold.core.ports.journal import Call
from handhold.core.ports.shell import CommandResult
from handhold.logs import log_swallowed

MAX_PAUSED_RUNS = 16  # more are dropped, oldest first; a dropped command runs again


@dataclass(frozen=True)
class PausedRun:
    finished: CommandResult
    overlay: ExitStack  # discards the effects when it is closed


class PausedRuns:
    """The paused commands of one session, by call."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._runs: dict[Call, PausedRun] = {}
        self._lock = Lock()

    def keep(self, call: Call, finished: CommandResult, overlay: ExitStack) -> None:
        if not call.call_id or finished.effects is None:
            overlay.close()
            return
        with self._lock:
            self._runs[call] = PausedRun(finished, overlay)
            dropped = [self._runs.pop(oldest) for oldest in list(self._runs)[:-MAX_PAUSED_RUNS]]
        for run in dropped:
            run.overlay.close()

    def resume(self, call: Call, stack: ExitStack) -> CommandResult | None:
        """The result of this call's command, closed by `stack`; None if it has to run (again)."""
        with self._lock:
            run = self._runs.pop(call, None)
        if run is None:
            return None
        if not self._still_applies(run.finished):
            run.overlay.close()
            return None
        stack.push(run.overlay)
        return run.finished

    def _still_applies(self, finished: CommandResult) -> bool:
        """Whether every file is still as the command found it."""
        assert finished.effects is not None
        try:
            with self._files.transaction(finished.effects.files):
                return True
        except ToolError:
            log_swallowed()
            return False

    def close(self) -> None:
        with self._lock:
            runs, self._runs = list(self._runs.values()), {}
        for run in runs:
            run.overlay.close()
