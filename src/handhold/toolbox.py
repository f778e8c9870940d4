"""The toolbox: opens a workspace, carries out calls, and undoes them."""

import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Literal, Self, cast

from handhold.config import Place, ToolboxConfig, suggest_keywords
from handhold.core.choices import RESOLUTIONS, Breakage, Confinement, Durability, Matching, Mode, Resolution, Secrets
from handhold.core.errors import ForkUnavailable, NothingToUndo, ToolError
from handhold.core.facts import FileSnapshot
from handhold.core.history import Target, resolve_target
from handhold.core.ports.approvals import Approver, Consent, PendingApproval, Question
from handhold.core.ports.dialect import Dialect, DialectOptions
from handhold.core.ports.files import Files, HiddenPaths
from handhold.core.ports.journal import JournalEntry
from handhold.core.ports.policy import CommandAnalysis, Decision, Policy, Verb
from handhold.core.ports.recording import Window
from handhold.core.ports.search import Searcher
from handhold.core.ports.shell import Shell
from handhold.core.ports.store import Store
from handhold.core.problems import Problems
from handhold.core.read_tracker import ReadTracker
from handhold.core.results import OutputChunk, Reply, ToolSpec
from handhold.pipeline.cancellation import CancelToken, run_awaited, run_streamed
from handhold.pipeline.open_calls import OpenCalls

if TYPE_CHECKING:
    from handhold.backends.forks.fork_mount import RunningProgram
    from handhold.backends.forks.root_merge import MergeReport, Take
    from handhold.backends.forks.tool_process import ToolProcess
    from handhold.backends.forks.tree_merge import Side
    from handhold.core.checkers import Checker
    from handhold.core.policy.rules import Rule
    from handhold.core.ports.conversion import Converter
    from handhold.factory import ToolboxParts
    from handhold.forks import Fork, Forks
    from handhold.pipeline.change_history import ChangeHistory
    from handhold.snapshots import Snapshots


def _describe_error(error: ToolError) -> str:
    from handhold.dialects.error_messages import format_plain_error

    return format_plain_error(error)


ToolError.describe = staticmethod(_describe_error)


class Toolbox:
    """The tools of a coding agent on one workspace, for one session. Make one with `open`.

    Several threads may use one toolbox at once. Reads, searches and commands of different calls run in parallel.
    Commits are serialized, also between processes that share a state folder: `call` waits up to half a minute for its
    turn and then replies BUSY. Calls with the same turn and call id run one after the other, and the second gets the
    reply of the first. An edit planned while another call changed the file is refused with STALE. In dialects whose
    shell keeps its working directory, commands share it, so send them one at a time. `approver` may be replaced at
    any time. A toolbox must not be shared across `fork`.

    `call`, `acall` and `stream` do not raise for errors of the model, the policy or the machine: the reply has them
    (`reply.ok`, `reply.code`). They raise ToolboxClosed after `close`, and the exception that an approver passes in
    RunPaused. Any other exception is a bug in Handhold or in a custom dialect, searcher or converter. Log records are
    under `handhold` in the standard logging module.
    """

    def __init__(self, parts: "ToolboxParts") -> None:
        """Use `open`, `in_memory` or `on`."""
        self._session = parts.session
        self._parts = parts
        self._open_calls = OpenCalls(self._release)

    @classmethod
    @suggest_keywords
    def open(
        cls,
        root: Place | Sequence[Place],
        *,
        state: Place | None = None,
        read_only: Place | Sequence[Place] = (),
        encodings: Mapping[str, str] | None = None,
        undo_bytes: int | None = None,
        dialect: str | Dialect = "handhold",
        model: str = "",
        session: str = "",
        policy: Mode | Policy | None = None,
        rules: "Rule | Sequence[Rule]" = (),
        settings: bool | Place | None = None,
        approver: Approver | None = None,
        matching: Matching | None = None,
        hints: bool | None = None,
        check_syntax: bool = True,
        checkers: "Checker | Sequence[Checker]" = (),
        refuse_broken: Breakage | None = None,
        shell: Confinement = "contained",
        network: bool | str | Sequence[str] = False,
        credentials: str | Sequence[str] = (),
        secrets: Secrets | None = None,
        unredacted: str | Sequence[str] = (),
        hidden: Place | Sequence[Place] = (),
        memory: int | None = None,
        processes: int | None = None,
        tracing: bool = False,
        search_seconds: float | None = None,
        searcher: Searcher | None = None,
        converter: "Converter | None" = None,
        hub: str | None = None,
        durable: Durability = "local",
    ) -> Self:
        """Open the tools on folders of this machine.

        root: the folder that tools may read and change, or several.
        state: where the journal and the contents for undo are kept; by default a folder of the user, one per workspace.
        read_only: more folders that tools may read and never change.
        encodings: encodings by file pattern, such as {"*.txt": "cp1251"}; they override every .editorconfig.
        undo_bytes: how much to keep for undo; by default what the user's settings say, else a share of the free disk.
        dialect: tool names, schemas and wording: a name such as "claude", "auto" to choose by `model`, or a Dialect.
        model: the name of the model, for dialect="auto".
        session: a name continues that session; by default every toolbox is a new one.
        policy: "read-only", "ask", "edit", "open" or a Policy object; by default the settings' mode,
            else "ask" with an approver and "edit" without.
        rules: rules that override the mode for some paths, commands or hosts.
        settings: whether to read the settings of the user and of the roots, or a file to read instead of the user's;
            by default True, unless `policy` is an object.
        approver: a function, sync or async, that is given a Question and returns True, False, a Consent or None.
        matching: how far an edit may deviate from the quoted text: "exact", "safe" or "bold"; by default the dialect's.
        hints: whether replies add nearest lines, changes and next offsets; by default as the dialect does.
        check_syntax: whether replies tell the syntax errors that a change made; handhold[syntax] has the parsers.
        checkers: programs whose new errors are told with the first reply of the next turn; see `Checker`.
        refuse_broken: "syntax" refuses a change that makes syntax errors, and writes nothing.
        shell: "contained" runs commands in a sandbox, or has the broker hold them where there are no namespaces;
            "brokered" always has the broker hold them; "external" relies on the container around Handhold,
            "unconfined" on nothing.
        network: whether commands may use the network, or the hosts that they may reach.
        credentials: hosts at which git may log in, by the user's own credential helper; no command sees a file with it.
        secrets: "usable" lets commands read files that the built-in secret rules name, "strict" hides them.
        unredacted: rules of redaction that are turned off, such as "jwt"; see `docs/concepts/policy.md`.
        hidden: more folders and files that commands do not see.
        memory: bytes of memory for one command.
        processes: how many processes one command may have at once.
        tracing: whether a command may trace its own processes, as strace and gdb do.
        search_seconds: when a search stops and replies with what it has.
        searcher: replaces the built-in search.
        converter: replaces the built-in reader of images and PDF files.
        hub: the address of a hub that gets the journal. Its token is in the variable HANDHOLD_HUB_TOKEN, or in the file
            that HANDHOLD_HUB_TOKEN_FILE names.
        durable: "hub" acknowledges a change only when the hub has it, else HUB_UNREACHABLE; by default "local".

        Raises TypeError for an unknown keyword or a value of the wrong type and ValueError for a wrong value, both
        before anything is opened. Raises ToolError if the workspace cannot be opened: NotFound or NotDirectory for a
        root, SettingsBroken for a settings file that cannot be read, StateDamaged, Busy or SystemFailure for the state.
        """
        from handhold.factory import open_workspace

        return cls(
            open_workspace(
                ToolboxConfig(
                    root=root,
                    state=state,
                    read_only=read_only,
                    encodings=encodings,
                    undo_bytes=undo_bytes,
                    dialect=dialect,
                    model=model,
                    session=session,
                    policy=policy,
                    rules=rules,
                    settings=settings,
                    approver=approver,
                    matching=matching,
                    hints=hints,
                    check_syntax=check_syntax,
                    checkers=checkers,
                    refuse_broken=refuse_broken,
                    shell=shell,
                    network=network,
                    credentials=credentials,
                    secrets=secrets,
                    unredacted=unredacted,
                    hidden=hidden,
                    memory=memory,
                    processes=processes,
                    tracing=tracing,
                    search_seconds=search_seconds,
                    searcher=searcher,
                    converter=converter,
                    hub=hub,
                    durable=durable,
                )
            )
        )

    @classmethod
    @suggest_keywords
    def in_memory(
        cls,
        files: Mapping[str, str | bytes],
        *,
        root: str = "/ws",
        encodings: Mapping[str, str] | None = None,
        dialect: str | Dialect = "handhold",
        model: str = "",
        session: str = "",
        policy: Mode | Policy | None = None,
        rules: "Rule | Sequence[Rule]" = (),
        approver: Approver | None = None,
        matching: Matching | None = None,
        hints: bool | None = None,
        check_syntax: bool = True,
        refuse_broken: Breakage | None = None,
        search_seconds: float | None = None,
        searcher: Searcher | None = None,
        converter: "Converter | None" = None,
    ) -> Self:
        """Open the tools on files in memory, for tests and dry runs. They read no settings and run no commands.

        files: contents by path, relative to `root`; a str is encoded as UTF-8.
        root: the absolute path that the workspace appears under.
        The other keywords, and TypeError and ValueError, are those of `open`.
        """
        from handhold.factory import open_in_memory

        config = ToolboxConfig(
            encodings=encodings,
            dialect=dialect,
            model=model,
            session=session,
            policy=policy,
            rules=rules,
            approver=approver,
            matching=matching,
            hints=hints,
            check_syntax=check_syntax,
            refuse_broken=refuse_broken,
            search_seconds=search_seconds,
            searcher=searcher,
            converter=converter,
        )
        return cls(open_in_memory(files, root, config))

    @classmethod
    @suggest_keywords
    def on(
        cls,
        files: Files,
        store: Store,
        *,
        dialect: str | Dialect = "handhold",
        model: str = "",
        session: str = "",
        policy: Mode | Policy | None = None,
        rules: "Rule | Sequence[Rule]" = (),
        approver: Approver | None = None,
        matching: Matching | None = None,
        hints: bool | None = None,
        check_syntax: bool = True,
        refuse_broken: Breakage | None = None,
        search_seconds: float | None = None,
        searcher: Searcher | None = None,
        converter: "Converter | None" = None,
    ) -> Self:
        """Open the tools on a workspace and a store that are open already, such as those of another toolbox.

        They read no settings and run no commands. Closing the toolbox closes both, unless one made by `open`
        shares them. The keywords, and TypeError and ValueError, are those of `open`.
        """
        from handhold.factory import open_on

        config = ToolboxConfig(
            dialect=dialect,
            model=model,
            session=session,
            policy=policy,
            rules=rules,
            approver=approver,
            matching=matching,
            hints=hints,
            check_syntax=check_syntax,
            refuse_broken=refuse_broken,
            search_seconds=search_seconds,
            searcher=searcher,
            converter=converter,
        )
        return cls(open_on(files, store, config))

    # --- parts

    @property
    def files(self) -> Files:
        """The workspace."""
        return self._session.files

    @property
    def store(self) -> Store:
        """The journal, the contents for undo, and the approvals."""
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
        """Opened with the first command. Raises ToolError (NoShell) if commands cannot run here."""
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
        """The files that the session has read."""
        return self._session.tracker

    @property
    def options(self) -> DialectOptions:
        """How the dialect behaves, with the keywords of `open` that override it."""
        return self._session.options

    @property
    def hidden_paths(self) -> HiddenPaths | None:
        """The files that tools do not show; None if no rule denies reading."""
        return self._session.hidden_paths

    def masked_paths(self) -> Sequence[str]:
        """The paths that a command may not read."""
        return self._parts.guard.masked_paths()

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools of the dialect: names, descriptions and schemas to declare to a model."""
        return self.dialect.specs

    @property
    def instructions(self) -> str:
        """Instructions for the system prompt: how to use these tools together."""
        return self.dialect.instructions

    @property
    def warnings(self) -> tuple[str, ...]:
        """Parts of the settings that have no effect, such as allow rules of a file that is not trusted."""
        return self._session.workspace_policy.warnings

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
        """Execute a call of the model, or refuse it. For exceptions, see the class.

        tool: a name from `specs`.
        arguments: a JSON object, or the plain text of a free-form tool.
        call_id: the model's id of the call. Retrying with the same id and turn does not execute the call again.
        turn: a name for the calls of one answer, to undo them together with `Target.turn`.
        cancel_token: lets another thread receive a command's output, and cancel the call.
        """
        return self._execute(tool, arguments, call_id, turn, cancel_token or CancelToken())

    async def acall(self, tool: str, arguments: Mapping[str, Any] | str, *, call_id: str = "", turn: str = "") -> Reply:
        """`call` for an event loop. If the task is cancelled, the command is ended and its changes are discarded."""
        return await run_awaited(lambda token: self._execute(tool, arguments, call_id, turn, token), self.interrupt)

    @asynccontextmanager
    async def stream(
        self, tool: str, arguments: Mapping[str, Any] | str, *, call_id: str = "", turn: str = ""
    ) -> AsyncGenerator[AsyncIterator[OutputChunk | Reply]]:
        """`acall` with the output of a command while it runs; the last event is the Reply.

            async with box.stream("bash", {"command": "make"}) as events:
                async for event in events:
                    ...

        The call starts with the first event. Leaving the block early cancels it: the command is ended, its changes are
        discarded, and only then is the block left.
        """
        events = run_streamed(lambda token: self._execute(tool, arguments, call_id, turn, token), self.interrupt)
        try:
            yield events
        finally:
            await events.aclose()

    def _execute(
        self, tool: str, arguments: Mapping[str, Any] | str, call_id: str, turn: str, token: CancelToken
    ) -> Reply:
        with self._open_calls.enter():
            return self._parts.executor.execute(tool, arguments, call_id, turn, token)

    def interrupt(self, thread: int | None = None) -> None:
        """End the commands that calls wait for, in one thread or in all; their changes are discarded."""
        if commands := self._parts.opened_commands:
            commands.interrupt(thread)

    @property
    def is_busy(self) -> bool:
        """Whether closing it would lose something: a running job, or a shell's working directory."""
        commands = self._parts.opened_commands
        return commands is not None and commands.is_busy

    def record_truncation(self, path: str) -> None:
        """Record that the model saw only a part of what a reply showed of a file: it has not read the whole."""
        with self._open_calls.enter():
            self.tracker.record_truncation(self.files.resolve(path))

    def check(self) -> Problems:
        """Run the checkers now on what was changed since they last ran: the errors that these changes made."""
        with self._open_calls.enter():
            return self._parts.check()

    # --- decisions

    def decide(self, verb: Verb, path: str) -> Decision:
        """The policy's decision about a path, the strictest if the file has several names. Nothing is executed."""
        with self._open_calls.enter():
            return self._parts.reviewer.decide_path(verb, path)

    def decide_command(
        self, command: str, *, contained: bool = False, no_undo: str = ""
    ) -> tuple[CommandAnalysis, Decision]:
        """The analysis of a command, and the decision about it before it would run. It does not run.

        contained: decide as for a command that runs in the sandbox, with no network but the proxy.
        no_undo: decide as for a command that runs on the workspace itself, for this reason.
        """
        from handhold.pipeline.workspace_policy import severity

        with self._open_calls.enter():
            analysis = self._parts.commands.analyze(command, contained=contained and not no_undo)
            findings = self._parts.reviewer.review_command(analysis, "", directly=bool(no_undo), no_undo=no_undo)
            return analysis, max((each.decision for each in findings), key=severity)

    # --- history

    def log(self, *, last: int | None = None, everyone: bool = False) -> Sequence[JournalEntry]:
        """The calls of this session, oldest first; with `everyone`, those of all sessions on this workspace.

        last: how many of the newest calls to return; by default all.
        """
        with self._open_calls.enter():
            return self.store.entries(session=None if everyone else self.session, last=last)

    def diff(self, target: Target | JournalEntry | None = None) -> str:
        """The changes of a target as a unified diff; without one, the last change. "" if none is left.

        A JournalEntry may be of any session. Files that the policy does not allow to read now are left out.
        Raises ToolError (NothingToUndo) if a single call is named that changed nothing.
        """
        with self._open_calls.enter():
            try:
                return self._parts.undo.diff(target)
            except NothingToUndo:
                if target is None or (isinstance(target, Target) and target.is_multiple):
                    return ""
                raise

    @property
    def history(self) -> "ChangeHistory":
        """The changes of recorded calls, file by file: contents before and after, and restoring single files."""
        return self._parts.history

    def undo(
        self,
        target: Target | JournalEntry | None = None,
        *,
        preview: bool = False,
        keep_times: bool = False,
        with_foreign: bool = False,
        take: Resolution | None = None,
    ) -> Reply:
        """Undo one call, one turn or the whole session; without a target, the last change.

        target: `Target.call(id)`, `Target.turn(name)`, `Target.session()`, or an entry of `log`.
        preview: only report what would be restored.
        keep_times: restore modification times too. By default they get the current time, so that `make`
            rebuilds what depends on them.
        with_foreign: also undo changes that belong to no call, where snapshots recorded them: those made since.
        take: what to do where what came later cannot be kept by merging: "old" restores the old version, of a text in
            the lines in conflict; "mine" keeps what is there now; "save" keeps it and puts the old version beside it;
            "skip" leaves such files alone.

        Lines of texts that were changed since stay: it is a three-way merge. The reply refuses with UNDO_CONFLICT if
        the same lines, or what is not a text, changed since and nothing is taken, and with DENIED if the policy
        forbids it.
        """
        return self._reverse(
            "undo", target, preview=preview, keep_times=keep_times, with_foreign=with_foreign, take=take
        )

    def redo(
        self,
        target: Target | JournalEntry | None = None,
        *,
        preview: bool = False,
        keep_times: bool = False,
        take: Resolution | None = None,
    ) -> Reply:
        """Redo what an undo reversed; without a target, the last undo. Takes the arguments of `undo`."""
        return self._reverse("redo", target, preview=preview, keep_times=keep_times, take=take)

    def _reverse(
        self,
        direction: Literal["undo", "redo"],
        target: Target | JournalEntry | None,
        *,
        preview: bool,
        keep_times: bool,
        with_foreign: bool = False,
        take: Resolution | None = None,
    ) -> Reply:
        if take not in (None, *RESOLUTIONS):
            raise ValueError(f"take must be one of {', '.join(RESOLUTIONS)} (got {take!r})")
        with self._open_calls.enter():
            return self._parts.undo.reverse(
                direction, target, preview=preview, keep_times=keep_times, with_foreign=with_foreign, take=take
            )

    # --- what others change

    @property
    def snapshots(self) -> "Snapshots":
        """Records what others change in the workspace, so that it can be undone. NotRecorded if it cannot be."""
        return self._parts.snapshots

    @contextmanager
    def adopting(
        self, call_id: str, *, tool: str = "adopted", turn: str = "", paths: Sequence[str] | None = None
    ) -> Generator[None]:
        """Record what changes inside the `with` block as one call, whoever changes it.

        paths: those that the call names, if it can change no others, as an edit does. What else changes is recorded
            as belonging to no call.
        """
        named = None if paths is None else tuple(self.files.resolve(path) for path in paths)
        self.snapshots.begin(Window(self.session, call_id, tool, turn, paths=named))
        try:
            yield
        finally:
            self.snapshots.end(self.session, call_id)

    # --- forks

    @property
    def forks(self) -> "Forks":
        """The forks of the workspace: iterate over them, `get` one by its name, or `create` one."""
        return self._parts.forks

    def fork(self, name: str) -> "ForkToolbox":
        """The fork of this name, made if there is none. Raises ForkUnavailable if there can be none here.

        with box.fork("try-1") as fork:
            fork.call("bash", {"command": "make"})
            print(fork.diff())
            fork.merge()
        """
        return ForkToolbox(self.forks.get(name) if name in self.forks else self.forks.create(name), self)

    @property
    def origin(self) -> "Toolbox":
        """The toolbox of the workspace that this one is a fork of; itself if it is none."""
        return self

    # --- closing

    def close(self, *, timeout: float = 5.0) -> None:
        """End commands and jobs, and close everything; later calls raise ToolboxClosed. Closing twice is allowed.

        timeout: seconds to wait for calls in other threads. A call that takes longer still finishes, and the files and
            the journal are closed after it.
        """
        self._open_calls.close(self._close_commands, timeout)

    def _close_commands(self) -> None:
        if commands := self._parts.opened_commands:
            commands.close()

    def _release(self) -> None:
        self._close_commands()  # a running call may have opened the shell since
        self._parts.close_forks()
        self._parts.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close in a thread, since waiting for running calls would block the event loop."""
        import asyncio

        await asyncio.to_thread(self.close)


class ForkToolbox(Toolbox):
    """A fork of a workspace, and the tools in it: the same dialect, policy and options, and a journal of its own.

    They work in a process inside the fork, at the workspace's own path. It is started with the first call, and ends
    when nothing was called for a few seconds; `run`, `merge`, `drop` and `close` end it, too. Approvers are asked here.
    `approver` is that of the workspace's toolbox unless it is replaced.
    """

    def __init__(self, fork: "Fork", origin: Toolbox) -> None:
        """Use `Toolbox.fork`."""
        self.name = fork.name
        self._fork = fork
        self._process = fork.open_tools(lambda question: self._approve(question, CancelToken()))
        self._origin = origin
        self._own_approver: tuple[Approver | None] | None = None
        super().__init__(cast("ToolboxParts", _OtherProcess(fork.name)))

    @property
    def origin(self) -> Toolbox:
        return self._origin

    @property
    def created(self) -> float:
        """When it was made, in seconds since 1970."""
        return self._fork.created

    @property
    def is_running(self) -> bool:
        """Whether a program or its tools run in it now."""
        return self._fork.is_running

    @property
    def roots(self) -> tuple[str, ...]:
        """Where programs in the fork see the roots: at their own paths, if anything can be mounted here."""
        return self._fork.roots

    @property
    def path(self) -> str:
        """Where everything that belongs to it is kept."""
        return self._fork.path

    def run(
        self, command: Sequence[str], *, cwd: str = "", wait: "Callable[[RunningProgram], int] | None" = None
    ) -> int:
        """Run a program in the fork with the streams of this process; returns its exit status. Nothing is contained.

        cwd: where it starts; by default in the first root.
        wait: replaces waiting for the program, to pass on signals.
        """
        self._process.close()
        return self._fork.run(command, cwd=cwd, **({"wait": wait} if wait else {}))

    def run_contained(self, command: Sequence[str], *, cwd: str = "", network: bool = False) -> int:
        """`run` in the sandbox of commands: what rules hide is hidden, and nothing outside the fork can be changed.

        network: whether the program may use the network.
        """
        self._process.close()
        return self._fork.run_contained(command, cwd=cwd, network=network)

    def diff(self, target: Target | JournalEntry | None = None) -> str:
        """What the fork changed, as a diff; with a target, what this call in the fork changed."""
        if target is None:
            return self._fork.diff()
        named = target if isinstance(target, JournalEntry) else resolve_target(target)
        return self._request("diff", target=named)

    def merge(self, *, take: "Take | Side" = "", include_ignored: bool = False) -> "MergeReport":
        """Merge into the workspace, as one change set that `undo` of the workspace's toolbox takes back.

        take: which side wins where both changed a path: "fork" or "base", for all conflicts or by path, which is
            relative to the first root or absolute.
        include_ignored: also merge files that git ignores.

        Raises MergeConflict if both changed a path and no side was chosen; then nothing is written. Raises Denied or
        NotApproved if the policy does not allow a change.
        """
        self._process.close()
        return self._fork.merge(take=take, include_ignored=include_ignored)

    def drop(self) -> None:
        """Remove the fork and everything in it. Raises ForkUnavailable if a program runs in it."""
        self._process.close()
        self._fork.drop()

    # --- what is different in another process

    @property
    def session(self) -> str:
        return self._origin.session

    @property
    def dialect(self) -> Dialect:
        return self._origin.dialect

    @property
    def options(self) -> DialectOptions:
        return self._origin.options

    @property
    def warnings(self) -> tuple[str, ...]:
        return self._origin.warnings

    @property
    def files(self) -> Files:
        """Only `roots`, `resolve` and `read` can be reached in a fork."""
        outside, inside = self._origin.files.roots, self._fork.roots
        return cast("Files", ForkFiles(self._process, outside if inside[0] in outside else inside))

    @property
    def store(self) -> Store:
        """Only `list_pending`, `get_pending` and `answer` can be reached in a fork."""
        return cast("Store", ForkApprovals(self._process))

    def masked_paths(self) -> Sequence[str]:
        return self._request("masked_paths")

    def _request(self, operation: str, **arguments: Any) -> Any:
        with self._open_calls.enter():
            return self._process.request(operation, **arguments)

    def _execute(
        self, tool: str, arguments: Mapping[str, Any] | str, call_id: str, turn: str, token: CancelToken
    ) -> Reply:
        import json

        from handhold.pipeline.idempotency import canonicalize_arguments

        with self._open_calls.enter():
            token.thread = threading.get_ident()
            try:
                canonicalize_arguments(tool, arguments)
                given = json.loads(json.dumps(arguments))
                return self._process.execute(
                    "call",
                    {"tool": str(tool), "arguments": given, "call_id": call_id, "turn": turn},
                    lambda question: self._approve(question, token),
                    token.watch,
                    lambda: token.is_cancelled,
                )
            except ToolError as error:
                return self._origin._parts.refuse(tool, error)
            finally:
                token.thread = None

    def check(self) -> Problems:
        return self._request("check")

    def decide(self, verb: Verb, path: str) -> Decision:
        return self._request("decide", verb=Verb(verb), path=path)

    def decide_command(
        self, command: str, *, contained: bool = False, no_undo: str = ""
    ) -> tuple[CommandAnalysis, Decision]:
        return self._request("decide_command", command=command, contained=contained, no_undo=no_undo)

    def log(self, *, last: int | None = None, everyone: bool = False) -> Sequence[JournalEntry]:
        return self._request("log", last=last, everyone=everyone)

    def _reverse(
        self,
        direction: Literal["undo", "redo"],
        target: Target | JournalEntry | None,
        *,
        preview: bool,
        keep_times: bool,
        with_foreign: bool = False,
        take: Resolution | None = None,
    ) -> Reply:
        options = {"preview": preview, "keep_times": keep_times, "with_foreign": with_foreign, "take": take}
        return self._request("reverse", direction=direction, target=resolve_target(target), **options)

    def record_truncation(self, path: str) -> None:
        self._request("record_truncation", path=path)

    @property
    def approver(self) -> Approver | None:
        return self._own_approver[0] if self._own_approver else self._origin.approver

    @approver.setter
    def approver(self, approver: Approver | None) -> None:
        self._own_approver = (approver,)

    def _approve(self, question: Question, token: CancelToken) -> tuple[Any, str]:
        """The answer for the process; without an approver, the question is pending there."""
        from handhold.pipeline.approver import ask_approver, find_present_approver

        approver = find_present_approver(self.approver)
        try:
            return ask_approver(approver, question, token.wait_for, TypeError()) if approver else (None, "")
        except TypeError:  # there, it is invalid as well
            return "invalid", ""

    def interrupt(self, thread: int | None = None) -> None:
        self._process.cancel(thread)

    @property
    def is_busy(self) -> bool:
        return self._process.is_busy

    @property
    def forks(self) -> "Forks":
        raise ForkUnavailable(self.name, "forks have no forks")

    def _close_commands(self) -> None:
        self._process.cancel(None)

    def _release(self) -> None:
        self._process.close()


class ForkFiles:
    """What can be asked of the files of a fork: paths, and contents."""

    def __init__(self, process: "ToolProcess", roots: Sequence[str]) -> None:
        self._process = process
        self.roots = roots

    def resolve(self, path: str) -> str:
        return self._process.request("resolve", path=path)

    def read(self, path: str) -> FileSnapshot:
        return self._process.request("read", path=path)


class ForkApprovals:
    """The questions that wait in a fork."""

    def __init__(self, process: "ToolProcess") -> None:
        self._process = process

    def list_pending(self, session: str | None = None) -> Sequence[PendingApproval]:
        return self._process.request("list_pending", session=session)

    def get_pending(self, which: str) -> PendingApproval:
        return self._process.request("get_pending", which=which)

    def answer(self, which: str, answer: str, *, by: str, word: str = "") -> PendingApproval:
        return self._process.request("answer", which=which, answer=Consent(answer), by=by, word=word)


class _OtherProcess:
    """The parts of a toolbox in another process: none is here."""

    def __init__(self, fork: str) -> None:
        self._fork = fork
        self.session = self

    def __getattr__(self, name: str) -> Any:
        raise ForkUnavailable(self._fork, f"its {name} cannot be reached from another process")
