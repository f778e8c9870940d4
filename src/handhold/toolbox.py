"""The toolbox: what an agent is given. It opens a workspace, passes calls to the executor, and looks back."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

from handhold.config import Options
from handhold.core.history import Target
from handhold.core.ports.approvals import Approver
from handhold.core.ports.dialect import Dialect, DialectOptions
from handhold.core.ports.files import Files, HiddenPaths
from handhold.core.ports.journal import JournalEntry
from handhold.core.ports.policy import CommandAnalysis, Decision, Policy, Verb
from handhold.core.ports.search import Searcher
from handhold.core.ports.shell import Shell
from handhold.core.ports.store import Store
from handhold.core.read_tracker import ReadTracker
from handhold.core.results import OutputChunk, Reply, ToolSpec
from handhold.pipeline.cancellation import CancelToken, run_awaited, run_streamed
from handhold.pipeline.open_calls import OpenCalls

if TYPE_CHECKING:
    from handhold.factory import ToolboxParts

Place = str | PathLike[str]


class Toolbox:
    """Handhold's tools, on a workspace, for one session."""

    def __init__(self, parts: "ToolboxParts") -> None:
        """Use `open`, `in_memory` or `on`."""
        self._session = parts.session
        self._parts = parts
        self._open_calls = OpenCalls(self._release)

    @classmethod
    def open(
        cls,
        root: Place | Sequence[Place],
        *,
        state: Place | None = None,
        read_only: Place | Sequence[Place] = (),
        encodings: Mapping[str, str] | None = None,
        undo_bytes: int | None = None,
        **options: Unpack[Options],
    ) -> Self:
        """Tools on one root or several; those in `read_only` are read and never written.

        `encodings` are names by pattern (`{"*.txt": "cp1251"}`), and go before every .editorconfig.
        `undo_bytes` is how much is kept for undo; without it the user's settings say, else a share of the free disk.
        Without a session name this is a conversation of its own. The state folder outlives the process.
        TypeError or ValueError if an option is unknown or has a wrong value, before anything is opened.
        """
        from handhold.factory import open_workspace

        place = {"root": root, "state": state, "read_only": read_only, "encodings": encodings, "undo_bytes": undo_bytes}
        return cls(open_workspace({**place, **options}))

    @classmethod
    def in_memory(
        cls,
        files: Mapping[str, str | bytes],
        *,
        root: str = "/ws",
        encodings: Mapping[str, str] | None = None,
        **options: Unpack[Options],
    ) -> Self:
        """The same tools on files that live in a dictionary: for tests and dry runs."""
        from handhold.factory import open_in_memory

        return cls(open_in_memory(files, root, encodings, options))

    @classmethod
    def on(cls, files: Files, store: Store, **options: Unpack[Options]) -> Self:
        """The tools on a workspace and a store that are there already. They read no settings, and run no commands."""
        from handhold.factory import assemble

        return cls(assemble(files, store, options))

    # --- what it is made of

    @property
    def files(self) -> Files:
        return self._session.files

    @property
    def store(self) -> Store:
        return self._session.store

    @property
    def policy(self) -> Policy:
        return self._session.policy

    @property
    def dialect(self) -> Dialect:
        return self._session.dialect

    @property
    def session(self) -> str:
        return self._session.name

    @property
    def shell(self) -> Shell:
        """Opened when it is first needed."""
        return self._parts.commands.shell

    @property
    def approver(self) -> Approver | None:
        return self._session.approver

    @approver.setter
    def approver(self, approver: Approver | None) -> None:
        self._session.approver = approver

    @property
    def searcher(self) -> Searcher:
        return self._parts.planner.searcher

    @searcher.setter
    def searcher(self, searcher: Searcher) -> None:
        self._parts.planner.searcher = searcher

    @property
    def tracker(self) -> ReadTracker:
        """What the session has read."""
        return self._session.tracker

    @property
    def options(self) -> DialectOptions:
        """What the dialect does besides words, and what the user wants otherwise."""
        return self._session.options

    @property
    def hidden_paths(self) -> HiddenPaths | None:
        """What file tools do not show; None where no rule denies reading."""
        return self._session.hidden_paths

    def masked_paths(self) -> Sequence[str]:
        """What a command may not see."""
        return self._parts.guard.masked_paths()

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return self.dialect.specs

    @property
    def instructions(self) -> str:
        """What teaches a model to use these tools together, for its system prompt."""
        return self.dialect.instructions

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was found in settings and does not count, such as the allow rules of a file that is not trusted."""
        return self._session.warnings

    # --- calls

    def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | str,
        *,
        call_id: str = "",
        turn: str = "",
        cancel_token: CancelToken | None = None,
    ) -> Reply:
        """Do what the model asks, or say why not. Raises ToolboxClosed after `close`, else only for a bug of ours.

        Arguments are an object, or the text that a free-form tool was given. With a `cancel_token` another thread can
        follow the call while it runs, and cancel it.
        """

        return self._execute(tool, arguments, call_id, turn, cancel_token or CancelToken())

    async def acall(self, tool: str, arguments: Mapping[str, Any] | str, *, call_id: str = "", turn: str = "") -> Reply:
        """The same from an event loop. If it is cancelled, a command ends and its changes are discarded."""
        return await run_awaited(lambda token: self._execute(tool, arguments, call_id, turn, token), self.interrupt)

    def stream(
        self, tool: str, arguments: Mapping[str, Any] | str, *, call_id: str = "", turn: str = ""
    ) -> AsyncGenerator[OutputChunk | Reply]:
        """The same, with what a command prints while it runs; the reply comes last."""
        return run_streamed(lambda token: self._execute(tool, arguments, call_id, turn, token), self.interrupt)

    def _execute(
        self, tool: str, arguments: Mapping[str, Any] | str, call_id: str, turn: str, token: CancelToken
    ) -> Reply:
        with self._open_calls.enter():
            return self._parts.executor.execute(tool, arguments, call_id, turn, token)

    def interrupt(self, thread: int | None = None) -> None:
        """End the commands that calls wait for now, in any thread or in this one; their changes are discarded."""
        if commands := self._parts.opened_commands:
            commands.interrupt(thread)

    @property
    def is_busy(self) -> bool:
        """Whether closing and opening it again would lose something: a running job, or a shell's working directory."""
        commands = self._parts.opened_commands
        return commands is not None and commands.is_busy

    # --- what would be decided

    def decide(self, verb: Verb, path: str) -> Decision:
        """What would be decided about a path, under the name of it that is judged hardest. Nothing is done."""
        with self._open_calls.enter():
            return self._parts.reviewer.decide_path(verb, path)

    def decide_command(self, command: str, *, contained: bool = False) -> tuple[CommandAnalysis, Decision]:
        """What a command is, and what would be decided before it runs, on an overlay without a network if `contained`.

        It does not run.
        """
        with self._open_calls.enter():
            analysis = self._parts.commands.analyze(command, contained=contained)
            return analysis, self.policy.decide_command(analysis)

    # --- looking back

    def log(self, *, last: int | None = None, everyone: bool = False) -> Sequence[JournalEntry]:
        """The calls of this session (or of everyone on this workspace), oldest first."""
        with self._open_calls.enter():
            return self.store.entries(session=None if everyone else self.session, last=last)

    def diff(self, target: Target | JournalEntry | None = None) -> str:
        """The changes of a target as a unified diff; without one, the last change.

        Of a JournalEntry, this works for every session's calls. Files that may not be read today are left out.
        Raises ToolError (NothingToUndo) if there is no such change.
        """
        with self._open_calls.enter():
            return self._parts.undo.diff(target)

    def undo(
        self, target: Target | JournalEntry | None = None, *, preview: bool = False, keep_times: bool = False
    ) -> Reply:
        """Undo one call, one turn or the whole session; without a target, the last change.

        target: `Target.call(id)`, `Target.turn(name)`, `Target.session()`, or an entry of `log`.
        preview: only report what would be restored.
        keep_times: give files their old modification times back. By default they get the current time, so that `make`
            rebuilds what depends on them.

        The reply refuses with UNDO_CONFLICT if a file was changed since, and with DENIED if the policy forbids it.
        """
        return self._reverse("undo", target, preview=preview, keep_times=keep_times)

    def redo(
        self, target: Target | JournalEntry | None = None, *, preview: bool = False, keep_times: bool = False
    ) -> Reply:
        """Redo what an undo reversed; without a target, the last undo. Takes the arguments of `undo`."""
        return self._reverse("redo", target, preview=preview, keep_times=keep_times)

    def _reverse(
        self,
        direction: Literal["undo", "redo"],
        target: Target | JournalEntry | None,
        *,
        preview: bool,
        keep_times: bool,
    ) -> Reply:
        with self._open_calls.enter():
            return self._parts.undo.reverse(direction, target, preview=preview, keep_times=keep_times)

    # --- the end

    def close(self, *, timeout: float = 5.0) -> None:
        """End commands and jobs, and close everything; from then on every call raises ToolboxClosed. Twice is fine.

        Calls under way in other threads are waited for, at most `timeout` seconds. One that takes longer still comes to
        its end, and the files and the journal are closed after it.
        """
        self._open_calls.close(self._close_commands, timeout)

    def _close_commands(self) -> None:
        if commands := self._parts.opened_commands:
            commands.close()

    def _release(self) -> None:
        self._close_commands()  # a call under way may have opened the shell since
        self.files.close()
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
