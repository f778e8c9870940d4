"""A background command that the broker holds: when it has ended, what it changed becomes a change set.

While it runs, its changes stay, whatever else happens in the workspace. Afterwards the workspace is rolled back and its
changes are committed, as for any brokered command.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from handhold.backends.files.roots import Root
from handhold.backends.files.staging_area import StagingArea
from handhold.backends.shell.brokered_run import BrokeredRun
from handhold.backends.shell.jobs import JobOutcome
from handhold.backends.shell.overlay import OverlayUnavailable
from handhold.core.errors import NoShell, ToolError
from handhold.core.ports.shell import CommitJob, PathGuard
from handhold.core.text.path_escaping import escape_path
from handhold.logs import warn_once

MAX_LISTED_PATHS = 5


def start_brokered_job(
    roots: Sequence[Root],
    get_staging_area: Callable[[Root], StagingArea | None],
    scratch: Path,
    is_alone: Callable[[], bool],
    stack: ExitStack,
    guard: PathGuard,
    commit: CommitJob | None,
    outcome: JobOutcome | None,
) -> BrokeredRun:
    """`stack` is closed when the command has ended. Without `commit` its changes just stay."""
    try:
        run = BrokeredRun.create(roots, get_staging_area, scratch=scratch, is_alone=is_alone, keeps_changes=True)
    except OverlayUnavailable as error:
        raise NoShell(f"commands cannot be brokered: {error.reason}") from None
    stack.callback(run.release)
    if commit and outcome:
        stack.callback(conclude_job, run, guard, commit, outcome)
    return run


def conclude_job(run: BrokeredRun, guard: PathGuard, commit: CommitJob, outcome: JobOutcome) -> None:
    """Record what it changed. Never raises: the command has ended, and its output must stay readable."""
    became = "stay, but cannot be undone"
    try:
        run.recall()
        became = "were rolled back"
        with guard.judging():
            effects = run.collect_effects(guard.needs_review)
        effects = commit(effects, run.set_aside)
    except ToolError as error:
        reason = f"its changes {became}, because they could not be recorded: {error}"
        warn_once("shell", f"A background command ended, but {reason}")
        outcome.notes.append(reason)
        return
    outcome.undo_scope = "all"
    outcome.notes += effects.notes
    if conflicts := [escape_path(conflict.path) for conflict in effects.conflicts]:
        more = f" and {len(conflicts) - MAX_LISTED_PATHS} more" if len(conflicts) > MAX_LISTED_PATHS else ""
        listed = ", ".join(conflicts[:MAX_LISTED_PATHS])
        outcome.notes.append(f"{listed}{more}: changed by others meanwhile, so undo does not include it")
