"""Commands, and what a shell must know about paths."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from handhold.core.facts import (
    CommandOutput,
    ExitStatus,
    SandboxStatus,
    UndoScope,
)
from handhold.core.plans import Conflict, Effects, FileChange
from handhold.core.requests import JobInput, JobOutput, JobStop, Run
from handhold.core.text.redaction import Redaction


@dataclass(frozen=True)
class JobState:
    """A command in the background: what it printed since `offset`, and whether it still runs."""

    job: str
    running: bool
    exit_status: ExitStatus | None
    output: CommandOutput
    offset: int  # where this output begins, and
    next_offset: int  # where the next one would
    sandbox: SandboxStatus


@dataclass(frozen=True)
class CommandResult:
    """A command that came to its end. `effects` is None where it ran on the workspace itself."""

    exit_status: ExitStatus
    output: CommandOutput
    sandbox: SandboxStatus
    undo_scope: UndoScope
    effects: Effects | None
    cwd: str  # where a lasting shell stands now
    notes: tuple[str, ...] = ()  # what it was kept from
    set_aside: Callable[[FileChange], Conflict] = lambda change: Conflict(change.path, "changed")
    """Keep the command's version of a change that somebody else got ahead of, to be read."""


class PathGuard(Protocol):
    """What a shell must know about paths of the workspace, each by its resolved spelling."""

    def needs_review(self, place: str) -> bool:
        """Whether a change there must be shown by itself, and not go unseen in a folder that changes whole."""
        ...

    def is_locked(self, place: str, is_folder: bool) -> bool:  # noqa: FBT001
        """Whether a command that works on the workspace itself must not make or write what would be there."""
        ...

    def locked_paths(self) -> Sequence[str]:
        """Of what exists, all that such a command must leave as it is."""
        ...

    def masked_paths(self) -> Sequence[str]:
        """What a command may not see. SystemFailure where a file system does not answer: what is not found out there
        could not be masked, should it come back."""
        ...

    def is_masked(self, place: str) -> bool:
        """Whether what a command makes there may not be read by anybody, and is left out of its effects."""
        ...

    def redaction(self) -> "Redaction | None":
        """What is replaced in the output of a command."""
        ...


class Shell(Protocol):
    """Runs commands, contained and bounded. Nothing that it starts outlives it."""

    @property
    def sandbox(self) -> SandboxStatus: ...

    @property
    def is_busy(self) -> bool:
        """Whether a job runs, or the next command would begin elsewhere than the first one did."""
        ...

    def run(self, run: Run, *, on_output: Callable[[str], None] | None = None) -> AbstractContextManager[CommandResult]:
        """The command has ended when the context is entered; what it did lies ready until the context is left.

        `on_output` gets its output while it runs. A commit of the effects must happen inside the context.
        """
        ...

    def start(self, run: Run) -> JobState:
        """In the background, on the workspace itself."""
        ...

    def job(self, request: JobOutput | JobInput | JobStop) -> JobState: ...

    def restart(self) -> None:
        """Where a shell lasts, it begins anew: in the first root, with nothing exported."""
        ...

    def interrupt(self, thread: int | None = None) -> None:
        """End what `run` is running now, in any thread or in this one."""
        ...

    def close(self) -> None: ...
