"""Builds a toolbox from its configuration. The only module that knows every part."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from importlib import import_module
from os import urandom
from os.path import abspath
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

from handhold.config import OPTION_NAMES, ToolboxConfig
from handhold.core.choices import DIALECTS, Mode
from handhold.core.errors import ForkUnavailable, NotRecorded, ToolError
from handhold.core.facts import ConvertedImage, ConvertedPdf, ExitStatus, SandboxStatus, SearchOutcome
from handhold.core.plans import Convert, Search
from handhold.core.policy.default_rules import BUILT_IN_RULES
from handhold.core.policy.hosts import HostPattern
from handhold.core.policy.modes import MODE_RULE_PREFIX, ModePolicy
from handhold.core.policy.rule_policy import RulePolicy
from handhold.core.policy.rules import RuleSet
from handhold.core.ports.checks import SyntaxChecker
from handhold.core.ports.conversion import Converter
from handhold.core.ports.dialect import Dialect, DialectOptions
from handhold.core.ports.files import Files, HiddenPaths
from handhold.core.ports.hub_link import HubLink
from handhold.core.ports.policy import Decision, Policy, Verb, Verdict
from handhold.core.ports.recording import Recording
from handhold.core.ports.search import Searcher
from handhold.core.ports.shell import PathGuard, Shell
from handhold.core.ports.store import Store
from handhold.core.problems import NO_PROBLEMS, Problems
from handhold.core.requests import Run
from handhold.core.results import Reply
from handhold.dialects.model_families import match_model
from handhold.pipeline.executor import CallExecutor
from handhold.pipeline.idempotency import ReplayLog
from handhold.pipeline.planning import Planner
from handhold.pipeline.responses import Responder
from handhold.pipeline.session import Session
from handhold.pipeline.transactions import recover, recover_exclusively
from handhold.pipeline.workspace_policy import WorkspacePolicy

if TYPE_CHECKING:
    from handhold.backends.files.workspace import Workspace
    from handhold.backends.network import NetworkAccess
    from handhold.backends.settings import ReadEarlier
    from handhold.backends.shell.sandbox_layout import Mount
    from handhold.backends.snapshots.recordings import WorkspaceRecording
    from handhold.core.checkers import Checker
    from handhold.forks import Forks
    from handhold.pipeline.authorization import Authorizer
    from handhold.pipeline.change_contents import ChangeContents
    from handhold.pipeline.change_history import ChangeHistory
    from handhold.pipeline.changes import ChangeCommitter
    from handhold.pipeline.checkers import CheckerRunner
    from handhold.pipeline.commands import CommandRunner
    from handhold.pipeline.policy_review import PolicyReviewer
    from handhold.pipeline.problems import ProblemFinder
    from handhold.pipeline.undo import UndoService
    from handhold.snapshots import Snapshots

MakeShell = Callable[[Session, PathGuard], Shell]


MakeSnapshots = Callable[[], "Snapshots"]
MakeForks = Callable[["ToolboxParts"], "Forks"]


class ToolboxParts:
    """The parts of a toolbox. Those that change files or run commands are imported with their first use."""

    def __init__(
        self,
        session: Session,
        planner: Planner,
        make_shell: MakeShell | None,
        release: Callable[[], None],
        make_snapshots: MakeSnapshots | None = None,
        make_forks: MakeForks | None = None,
        *,
        check_syntax: bool = True,
        checkers: "Sequence[Checker]" = (),
    ) -> None:
        self.session = session
        self._check_syntax = check_syntax
        self._checkers = self._make_checker_runner(checkers)
        self.planner = planner
        self.release = release  # what the toolbox was opened on
        self._make_shell = make_shell
        self._make_snapshots = make_snapshots
        self._make_forks = make_forks
        self._replays = ReplayLog(session)
        self._responder = Responder(session, self._replays)
        self._lock = Lock()
        self.opened_commands: CommandRunner | None = None  # None until the first command
        self.executor = CallExecutor(
            session,
            planner,
            lambda: self.changes,
            lambda: self.commands,
            self._responder,
            self._replays,
            self._checkers,
        )

    @cached_property
    def contents(self) -> "ChangeContents":
        from handhold.pipeline.change_contents import ChangeContents

        return ChangeContents(self.session)

    @cached_property
    def reviewer(self) -> "PolicyReviewer":
        from handhold.pipeline.policy_review import PolicyReviewer

        return PolicyReviewer(self.session, self.contents)

    @cached_property
    def authorizer(self) -> "Authorizer":
        from handhold.pipeline.approvals import ApprovalService
        from handhold.pipeline.authorization import Authorizer

        approvals = ApprovalService(self.session, self.contents, self._find_sandbox)
        return Authorizer(self.session, self.reviewer, approvals)

    def _find_sandbox(self) -> SandboxStatus | None:
        try:
            return self.commands.shell.sandbox
        except ToolError:  # then it runs no commands
            return None

    @cached_property
    def changes(self) -> "ChangeCommitter":
        from handhold.pipeline.changes import ChangeCommitter

        return ChangeCommitter(
            self.session, self.authorizer, self._responder, self._replays, self._make_problem_finder(), self._checkers
        )

    def _make_checker_runner(self, checkers: "Sequence[Checker]") -> "CheckerRunner | None":
        if not checkers:
            return None
        from handhold.pipeline.checkers import CheckerRunner

        def run(command: str, timeout_seconds: float) -> str | None:
            return self.commands.run_checker(command, timeout_seconds)

        return CheckerRunner(self.session, checkers, run)

    def check(self) -> Problems:
        return self._checkers.report(None) if self._checkers else NO_PROBLEMS

    def _make_problem_finder(self) -> "ProblemFinder | None":
        if not self._check_syntax:
            return None
        from handhold.pipeline.problems import ProblemFinder

        return ProblemFinder(self.session, self.contents, load_syntax_checker())

    @cached_property
    def guard(self) -> PathGuard:
        from handhold.pipeline.path_guard import PolicyPathGuard

        return PolicyPathGuard(self.session, self.reviewer)

    @property
    def commands(self) -> "CommandRunner":
        """One for all threads: it holds the shell."""
        with self._lock:
            if self.opened_commands is None:
                from handhold.pipeline.commands import CommandRunner

                make_shell = self._make_shell
                self.opened_commands = CommandRunner(
                    self.session,
                    self.authorizer,
                    self.reviewer,
                    self.contents,
                    self.changes,
                    self._responder,
                    (lambda: make_shell(self.session, self.guard)) if make_shell else None,
                    self._checkers,
                )
            return self.opened_commands

    @cached_property
    def snapshots(self) -> "Snapshots":
        if self._make_snapshots is None:
            raise NotRecorded(self.session.files.roots[0], "this workspace is not on disk")
        return self._make_snapshots()

    @cached_property
    def forks(self) -> "Forks":
        if self._make_forks is None:
            raise ForkUnavailable("", "this workspace is not on disk")
        return self._make_forks(self)

    def refuse(self, tool: str, error: ToolError) -> Reply:
        return self._responder.refuse(tool, error, perf_counter())

    def close_forks(self) -> None:
        if "forks" in vars(self):
            self.forks.close()

    @cached_property
    def history(self) -> "ChangeHistory":
        from handhold.pipeline.change_history import ChangeHistory

        return ChangeHistory(self.session, self.contents, self.authorizer)

    @cached_property
    def undo(self) -> "UndoService":
        from handhold.pipeline.undo import UndoService

        return UndoService(self.session, self.contents, self.authorizer, self._responder)


def open_workspace(config: ToolboxConfig, *, for_history: bool = False) -> ToolboxParts:
    """A toolbox on folders of this machine. With `for_history` it is used only to look at recorded changes and to undo
    them: a project's settings that became invalid count as they were before."""
    from handhold.backends.snapshots.recordings import WorkspaceRecording
    from handhold.shared_workspaces import workspaces

    lease = workspaces.acquire(config)
    try:
        shared = lease.workspace
        policy = config.custom_policy
        if policy is None:
            earlier = shared.read_earlier if for_history else None
            policy = load_policy(config, shared.files.roots, shared.state, earlier)
        make_shell = partial(open_shell, shared.state, shared.files, config)
        applied = shared.apply_policy(policy)
        recording = WorkspaceRecording(
            shared.files,
            shared.store,
            applied.for_commands,
            partial(recover_exclusively, shared.files, shared.store),
            shared.baseline_bytes,
        )

        def release() -> None:
            recording.close()
            lease.release()

        return assemble(
            shared.files,
            shared.store,
            config,
            applied,
            make_shell=make_shell,
            release=release,
            recording=recording,
            make_snapshots=partial(open_snapshots, shared.files, recording, shared.state, config),
            make_forks=partial(open_forks, shared.files, shared.state, config),
            checkers=(*config.checkers, *load_checkers(config)),
            hub=shared.uplink,
        )
    except BaseException:
        lease.release()
        raise


def open_in_memory(files: Mapping[str, str | bytes], root: str, config: ToolboxConfig) -> ToolboxParts:
    from handhold.backends.memory import MemoryFiles
    from handhold.backends.state.sqlite import SqliteStore

    store = SqliteStore.in_memory()
    memory = MemoryFiles(files, root=root, contents=store, encodings=config.encodings)
    return open_unshared(memory, store, config, release=store.close)


def open_on(files: Files, store: Store, config: ToolboxConfig) -> ToolboxParts:
    """Without settings and without a shell. The workspace may be one that other toolboxes share."""
    from handhold.shared_workspaces import workspaces

    def close() -> None:
        files.close()
        store.close()

    lease = workspaces.share(files)
    return open_unshared(files, store, config, release=lease.release if lease else close)


def open_unshared(files: Files, store: Store, config: ToolboxConfig, *, release: Callable[[], None]) -> ToolboxParts:
    policy = make_policy(config, files.roots) if config.custom_policy is None else config.custom_policy
    recover(files, store)
    return assemble(files, store, config, WorkspacePolicy(files, policy), release=release)


def assemble(
    files: Files,
    store: Store,
    config: ToolboxConfig,
    policy: WorkspacePolicy,
    *,
    release: Callable[[], None],
    make_shell: MakeShell | None = None,
    recording: Recording | None = None,
    make_snapshots: MakeSnapshots | None = None,
    make_forks: MakeForks | None = None,
    checkers: "Sequence[Checker]" = (),
    hub: HubLink | None = None,
) -> ToolboxParts:
    """Wire the parts of a toolbox on a workspace and a store. `release` is called when it is closed."""
    dialect = choose_dialect(config.dialect, config.model)
    name = config.session or urandom(8).hex()
    session = Session(
        name,
        files,
        store,
        dialect,
        policy,
        dialect_options(dialect, config),
        config.approver,
        recording,
        hub,
        waits_for_hub=config.durable == "hub",
        refuse_broken=config.refuse_broken is not None,
        unredacted=config.unredacted,
        load_syntax_checker=load_syntax_checker if config.check_syntax else None,
    )
    planner = Planner(session, config.searcher or LazySearcher(files), config.converter or LazyConverter())
    return ToolboxParts(
        session,
        planner,
        make_shell,
        release,
        make_snapshots,
        make_forks,
        check_syntax=config.check_syntax,
        checkers=checkers,
    )


def open_snapshots(
    files: "Workspace", recording: "WorkspaceRecording", state: Path, config: ToolboxConfig
) -> "Snapshots":
    from handhold.snapshots import Snapshots, start_copier

    base = None if config.state is None else Path(config.state)
    return Snapshots(files, recording, state, partial(start_copier, files.roots[0], base))


def open_forks(files: "Workspace", state: Path, config: ToolboxConfig, parts: ToolboxParts) -> "Forks":
    from handhold.forks import Forks
    from handhold.pipeline.merge import MergeCommitter

    committer = MergeCommitter(parts.session, parts.authorizer, parts.reviewer)
    options = {name: getattr(config, name) for name in OPTION_NAMES if name != "approver"}
    options |= {
        "session": parts.session.name,
        "asks": config.approver is not None,
        "dialect": find_dialect_name(config.dialect),
        "root": tuple(abspath(place) for place in config.root),
        "read_only": tuple(abspath(place) for place in config.read_only),
        "state": None if config.state is None else abspath(config.state),
        "settings": config.settings if isinstance(config.settings, bool) else abspath(config.settings),
    }

    def run_on_layers(run: Run, mounts: "Sequence[Mount]", pass_fds: Sequence[int]) -> "ExitStatus":
        from handhold.backends.shell import SandboxedShell

        shell = parts.commands.shell
        assert isinstance(shell, SandboxedShell)  # as for every workspace on disk
        return shell.run_on_layers(run, mounts, pass_fds)

    return Forks(files, state, parts.guard, parts.contents, committer, run_on_layers, options)


def open_shell(state: Path, files: "Workspace", config: ToolboxConfig, session: Session, guard: PathGuard) -> Shell:
    """The shell, with the first command; none of its modules is imported before."""
    from handhold.backends.shell import SandboxedShell
    from handhold.backends.shell.limits import ResourceLimits

    return SandboxedShell(
        files.open_roots,
        files.get_staging_area,
        guard,
        state=state,
        session=session.name,
        mode=config.shell,
        network=resolve_network(config.network, session),
        persistence=session.options.shell_persists,
        hidden_paths=(*config.hidden, *find_token_files(config)),
        limits=ResourceLimits(config.memory, config.processes),
        tracing=config.tracing,
        credentials=config.credentials,
        learn_password=session.redaction.add_password,
    )


def find_token_files(config: ToolboxConfig) -> tuple[str, ...]:
    """The file with the hub's token, which commands have no use for."""
    if not config.hub:
        return ()
    from handhold.backends.uplink.hub_token import HubToken

    return HubToken().files


def resolve_network(network: bool | Sequence[str], session: Session) -> "Literal[True] | NetworkAccess":  # noqa: FBT001
    """All of the network, or hosts by name: those given here, those that a rule allows, and those that a person does
    when a command was refused one."""
    from handhold.backends.network import NetworkAccess

    if network is True:
        return True
    policy = session.policy
    named: Sequence[str] = () if isinstance(network, bool) else network
    patterns = [HostPattern.parse(each) for each in named]

    def objection(host: str, port: int) -> str:
        decision = policy.decide(Verb.CONNECT, f"{host}:{port}")
        if decision.verdict is Verdict.ALLOW:
            return ""
        is_open = any(each.matches(host, port) for each in patterns) or f"{host}:{port}" in session.allowed_hosts
        return "" if is_open and not is_denied(decision) else decision.because

    def is_denied(decision: Decision) -> bool:
        """By a rule; the mode only closes what nobody opened."""
        return decision.verdict is Verdict.DENY and not decision.rule.startswith(MODE_RULE_PREFIX)

    def may_ask(host: str, port: int) -> bool:
        return policy.name != "read-only" and not is_denied(policy.decide(Verb.CONNECT, f"{host}:{port}"))

    def is_closed() -> bool:
        return not (named or policy.allows_hosts or session.allowed_hosts)

    return NetworkAccess(objection, may_ask=may_ask, is_closed=is_closed)


def load_dialect(name: str) -> Dialect:
    if name not in DIALECTS:
        raise ValueError(f"no dialect is called {name!r}; there are {', '.join(DIALECTS)}")
    module: Any = import_module(f"handhold.dialects.{name}")
    return module.dialect


def make_policy(config: ToolboxConfig, roots: Sequence[str]) -> Policy:
    """The mode with the rules that the code gives and the built-in ones."""
    rules = RuleSet("code", "code", config.rules)
    mode = ModePolicy(config.mode or default_mode(config))
    return RulePolicy(mode, (rules, BUILT_IN_RULES), tuple(roots), secrets=config.secrets or "usable")


def load_policy(
    config: ToolboxConfig, roots: Sequence[str], state: Path, read_earlier: "ReadEarlier | None" = None
) -> Policy:
    """The same with the rules of the settings files. SettingsBroken if one of them cannot be read."""
    from handhold.backends import settings

    code = settings.CodeSettings(config.mode, default_mode(config), config.rules, config.secrets)
    policy = settings.load_policy(roots, code, settings=config.settings, state=state, read_earlier=read_earlier)
    for warning in policy.warnings:
        settings.log_warning(warning)
    return policy


def load_checkers(config: ToolboxConfig) -> "Sequence[Checker]":
    """Those in the user's own settings."""
    from handhold.backends import settings

    return settings.read_user_limits(config.settings).checkers if config.settings is not False else ()


def default_mode(config: ToolboxConfig) -> Mode:
    """With an approver, changes are asked about; without one they are allowed, since each can be undone."""
    return "ask" if config.approver else "edit"


def dialect_options(dialect: Dialect, config: ToolboxConfig) -> DialectOptions:
    """The options of the dialect, except those that the configuration overrides."""
    given = {name: getattr(config, name) for name in ("matching", "hints", "search_seconds")}
    return replace(dialect.options, **{name: value for name, value in given.items() if value is not None})


def load_syntax_checker() -> SyntaxChecker:
    """Imported with the first use: many sessions change nothing."""
    from handhold.backends.checks.syntax import LanguageSyntax

    return LanguageSyntax()


def choose_dialect(dialect: str | Dialect, model: str) -> Dialect:
    if not isinstance(dialect, str):
        return dialect
    if dialect != "auto":
        return load_dialect(dialect)
    if not model:
        raise ValueError('dialect="auto" needs model="…", the name of the model')
    return load_dialect(match_model(model).dialect)


def find_dialect_name(dialect: str | Dialect) -> "str | Dialect":
    """The name of a dialect of ours; itself if it is another."""
    if isinstance(dialect, str):
        return dialect
    return dialect.name if dialect.name in DIALECTS and load_dialect(dialect.name) is dialect else dialect


class LazySearcher:
    """The searcher of a workspace, made and imported with the first search."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def search(
        self, search: Search, *, visible: Callable[[str], bool], hidden: HiddenPaths | None = None
    ) -> SearchOutcome:
        return self._searcher.search(search, visible=visible, hidden=hidden)

    @cached_property
    def _searcher(self) -> Searcher:
        from handhold.backends.memory import MemoryFiles

        if isinstance(self._files, MemoryFiles):
            from handhold.backends.search.memory import MemorySearch

            return MemorySearch(self._files)
        from handhold.backends.files.workspace import Workspace

        if isinstance(self._files, Workspace):
            from handhold.backends.search import DiskSearch

            return DiskSearch(self._files)
        raise TypeError(f"no searcher is known for {type(self._files).__name__}; pass searcher=")


class LazyConverter:
    """The converter, imported at the first image or PDF."""

    def convert(self, convert: Convert) -> ConvertedImage | ConvertedPdf:
        return self._converter.convert(convert)

    @cached_property
    def _converter(self) -> Converter:
        from handhold.backends.convert.converter import ConfinedConverter

        return ConfinedConverter()
