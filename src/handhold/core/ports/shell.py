"""Runs commands, and what a shell must know about paths."""

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
    offset: int  # where this output starts
    next_offset: int  # where the next output starts
    sandbox: SandboxStatus
    undo_scope: UndoScope = "file tools only"
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class CommandResult:
    """A finished command. `effects` is None if it ran on the workspace itself."""

    exit_status: ExitStatus
    output: CommandOutput
    sandbox: SandboxStatus
    undo_scope: UndoScope
    effects: Effects | None
    cwd: str  # the working directory of a persistent shell
    notes: tuple[str, ...] = ()  # what it was prevented from
    refused_hosts: tuple[str, ...] = ()  # with their ports: what it could not reach, and a person could allow
    set_aside: Callable[[FileChange], Conflict] = lambda change: Conflict(change.path, "changed")
    """Keep the command's version of a file that was changed meanwhile, so that it can be read."""
    forget_state: Callable[[], None] = lambda: None
    """Let the next command of a persistent shell start where this one did."""


# Commits the effects of a background command, keeping aside what conflicts, and returns what was committed.
CommitJob = Callable[[Effects, Callable[[FileChange], Conflict]], Effects]


class PathGuard(Protocol):
    """What a shell must know about paths of the workspace. Paths are resolved."""

    def judging(self) -> AbstractContextManager[None]:
        """Within it, many paths are judged: links that lead to them are looked for once."""
        ...

    def needs_review(self, place: str) -> bool:
        """Whether a change there must be shown by itself, even if a whole folder changes."""
        ...

    def is_locked(self, place: str, is_folder: bool) -> bool:  # noqa: FBT001
        """Whether a command that runs on the workspace itself must not create or write this path."""
        ...

    def locked_paths(self) -> Sequence[str]:
        """Existing paths that such a command must not change."""
        ...

    def masked_paths(self) -> Sequence[str]:
        """The paths that a command may not read.

        SystemFailure if a file system does not answer: its secret files could not be masked.
        """
        ...

    def is_masked(self, place: str) -> bool:
        """Whether a file that a command creates there may not be read, and is left out of its effects."""
        ...

    def find_denied_changes(self) -> "Callable[[str], bool] | None":
        """Tells whether a rule denies changing a path, whatever the change; None if no rule does.

        Asked before the change, where a command works on the workspace itself and is rolled back later.
        """
        ...

    def redaction(self) -> "Redaction | None":
        """The secrets that are replaced in the output of a command."""
        ...

    def redact_tokens(self, text: str) -> str:
        """What is shown of an output, without well-known tokens. It keeps its line breaks."""
        ...


class Shell(Protocol):
    """Runs commands in a sandbox, with limits. No process outlives it."""

    @property
    def sandbox(self) -> SandboxStatus: ...

    @property
    def is_busy(self) -> bool:
        """Whether a job runs, or the working directory or the exports differ from the start."""
        ...

    def run(self, run: Run, *, on_output: Callable[[str], None] | None = None) -> AbstractContextManager[CommandResult]:
        """The command has ended when the context is entered; its effects exist until the context is left.

        `on_output` gets its output while it runs. A commit of the effects must happen inside the context.
        """
        ...

    def start(self, run: Run, commit: "CommitJob | None" = None) -> JobState:
        """Start a command in the background, on the workspace itself.

        `commit` is called when it has ended, if what it changed is known; only then can that be undone.
        """
        ...

    def job(self, request: JobOutput | JobInput | JobStop) -> JobState: ...

    def restart(self) -> None:
        """Reset a persistent shell: to the first root, with nothing exported."""
        ...

    def interrupt(self, thread: int | None = None) -> bool:
        """End the commands of `run`, in one thread or in all; whether there are any. A signal handler may call it."""
        ...

    def send_signal(self, number: int) -> bool:
        """Send a signal to a command of `run`; whether one got it. A signal handler may call it."""
        ...

    def close(self) -> None: ...
