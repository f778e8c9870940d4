"""Builds a toolbox from its options. The only module that knows every part."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property, partial
from importlib import import_module
from os import fspath, urandom
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

from handhold.config import Options, Place, check_options
from handhold.core.choices import DIALECTS, Mode
from handhold.core.facts import ConvertedImage, ConvertedPdf, SearchOutcome
from handhold.core.plans import Convert, Search
from handhold.core.policy.default_rules import BUILT_IN_RULES
from handhold.core.policy.hosts import HostPattern
from handhold.core.policy.modes import ModePolicy
from handhold.core.policy.rule_policy import RulePolicy
from handhold.core.policy.rules import Rule, RuleSet
from handhold.core.ports.conversion import Converter
from handhold.core.ports.dialect import Dialect, DialectOptions
from handhold.core.ports.files import Files, HiddenPaths
from handhold.core.ports.policy import Policy, Verb, Verdict
from handhold.core.ports.search import Searcher
from handhold.core.ports.shell import PathGuard, Shell
from handhold.core.ports.store import Store
from handhold.dialects.model_families import match_model
from handhold.pipeline.executor import CallExecutor
from handhold.pipeline.idempotency import ReplayLog
from handhold.pipeline.planning import Planner
from handhold.pipeline.responses import Responder
from handhold.pipeline.session import Session
from handhold.pipeline.transactions import recover

if TYPE_CHECKING:
    from handhold.backends.files.workspace import Workspace
    from handhold.backends.network import NetworkAccess
    from handhold.backends.state.disk_share import DiskShare
    from handhold.pipeline.authorization import Authorizer
    from handhold.pipeline.change_contents import ChangeContents
    from handhold.pipeline.changes import ChangeCommitter
    from handhold.pipeline.commands import CommandRunner
    from handhold.pipeline.policy_review import PolicyReviewer
    from handhold.pipeline.undo import UndoService

MakeShell = Callable[[Session, PathGuard], Shell]


class ToolboxParts:
    """The parts of a toolbox, wired. What changes and runs is imported when it is first needed: many only read."""

    def __init__(self, session: Session, planner: Planner, make_shell: MakeShell | None) -> None:
        self.session = session
        self.planner = planner
        self._make_shell = make_shell
        self._replays = ReplayLog(session)
        self._responder = Responder(session, self._replays)
        self._lock = Lock()
        self.opened_commands: CommandRunner | None = None  # once a command was called for
        self.executor = CallExecutor(
            session, planner, lambda: self.changes, lambda: self.commands, self._responder, self._replays
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

        return Authorizer(self.session, self.reviewer, ApprovalService(self.session, self.contents))

    @cached_property
    def changes(self) -> "ChangeCommitter":
        from handhold.pipeline.changes import ChangeCommitter

        return ChangeCommitter(self.session, self.authorizer, self._responder, self._replays)

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
                )
            return self.opened_commands

    @cached_property
    def undo(self) -> "UndoService":
        from handhold.pipeline.undo import UndoService

        return UndoService(self.session, self.contents, self.authorizer, self._responder)


def open_workspace(given: Mapping[str, Any]) -> ToolboxParts:
    """On folders of this machine. `given` are the arguments of `Toolbox.open`."""
    from handhold.backends.files.workspace import Workspace
    from handhold.backends.state.sqlite import SqliteStore
    from handhold.backends.state.state_folder import ensure_state_folder

    checked = check_options(given)
    place = {name: checked.pop(name) for name in ("root", "state", "read_only", "encodings", "undo_bytes")}
    options = cast(Options, checked)
    roots: tuple[Place, ...] = place["root"]
    state = ensure_state_folder(
        Path(place["state"]) if place["state"] is not None else None, [fspath(root) for root in roots]
    )
    with ExitStack() as opened:  # what was opened is closed again if the rest cannot be
        store = SqliteStore(state, bound=place["undo_bytes"] or undo_limit(options, state, roots))
        opened.callback(store.close)
        files = Workspace(roots, store, read_only=place["read_only"], state=state, encodings=place["encodings"])
        opened.callback(files.close)
        options = resolve_options(options, files.roots, state)
        parts = assemble(files, store, options, make_shell=partial(open_shell, state, files, options))
        opened.pop_all()
    return parts


def open_in_memory(
    files: Mapping[str, str | bytes], root: str, encodings: Mapping[str, str] | None, options: Options
) -> ToolboxParts:
    from handhold.backends.memory import MemoryFiles
    from handhold.backends.state.sqlite import SqliteStore

    check_options({"encodings": encodings})
    store = SqliteStore.in_memory()
    return assemble(MemoryFiles(files, root=root, contents=store, encodings=encodings), store, options)


def assemble(files: Files, store: Store, given: Options, *, make_shell: MakeShell | None = None) -> ToolboxParts:
    """The parts of a toolbox on a workspace and a store, each made with those it uses."""
    options = cast(Options, check_options(given))
    if options.get("settings"):
        raise ValueError("settings are read by Toolbox.open only; give rules, or a policy")
    dialect = choose_dialect(options)
    session = Session(
        options.get("session") or urandom(8).hex(),
        files,
        store,
        dialect,
        make_policy(options, files.roots),
        dialect_options(dialect, options),
        options.get("approver"),
    )
    planner = Planner(
        session, options.get("searcher") or LazySearcher(files), options.get("converter") or LazyConverter()
    )
    recover(files, store)
    return ToolboxParts(session, planner, make_shell)


def open_shell(state: Path, files: "Workspace", options: Options, session: Session, guard: PathGuard) -> Shell:
    """The shell, with the first command; nothing of it is imported before."""
    from handhold.backends.shell import SandboxedShell
    from handhold.backends.shell.limits import ResourceLimits

    return SandboxedShell(
        files.open_roots,
        files.get_staging_area,
        guard,
        state=state,
        session=session.name,
        mode=options.get("shell", "contained"),
        network=resolve_network(cast("bool | Sequence[str]", options.get("network", False)), session.policy),
        persistence=session.options.shell_persists,
        hidden_paths=cast("Sequence[str]", options.get("hidden", ())),
        limits=ResourceLimits(options.get("memory"), options.get("processes")),
        tracing=options.get("tracing", False),
    )


def resolve_network(network: bool | Sequence[str], policy: Policy) -> "bool | NetworkAccess":  # noqa: FBT001
    """Shut, open, or open for hosts by name: those that are given here, and those that a rule allows."""
    from handhold.backends.network import NetworkAccess

    if isinstance(network, bool) and (network or not policy.allows_hosts):
        return network
    named: Sequence[str] = () if isinstance(network, bool) else network
    patterns = [HostPattern.parse(each) for each in named]

    def objection(host: str, port: int) -> str:
        decision = policy.decide(Verb.CONNECT, f"{host}:{port}")
        if decision.verdict is Verdict.ALLOW:
            return ""
        denied = decision.verdict is Verdict.DENY and not decision.rule.startswith("mode ")
        if not denied and any(each.matches(host, port) for each in patterns):
            return ""
        return decision.because

    return NetworkAccess(objection)


def load_dialect(name: str) -> Dialect:
    if name not in DIALECTS:
        raise ValueError(f"no dialect is called {name!r}; there are {', '.join(DIALECTS)}")
    module: Any = import_module(f"handhold.dialects.{name}")
    return module.dialect


def make_policy(options: Options, roots: Sequence[str]) -> Policy:
    """The mode, with the rules of the code and those that are built in; or the policy that was given."""
    wanted = requested_policy(options)
    if wanted is not None and not isinstance(wanted, str):
        return wanted
    rules = RuleSet("code", "code", tuple(cast("Sequence[Rule]", options.get("rules", ()))))
    mode = ModePolicy(wanted or default_mode(options))
    return RulePolicy(mode, (rules, BUILT_IN_RULES), tuple(roots), secrets=options.get("secrets") or "usable")


def undo_limit(options: Options, state: Path, roots: Sequence[Place]) -> "int | DiskShare":
    """What the user's settings say, else a share of the disks on which it lies: of the state and of the roots."""
    from handhold.backends.settings import read_user_undo_bytes
    from handhold.backends.state.disk_share import DiskShare

    policy = requested_policy(options)
    reads_settings = policy is None or isinstance(policy, str)
    wanted = read_user_undo_bytes(options.get("settings", True)) if reads_settings else None
    return wanted or DiskShare(state, roots)


def resolve_options(options: Options, roots: Sequence[str], state: Path) -> Options:
    """The same, with the policy that the settings make of it. SettingsBroken if they cannot be taken as they are."""
    wanted = requested_policy(options)
    if wanted is not None and not isinstance(wanted, str):
        return options
    from handhold.backends.settings import CodeSettings, load_policy, log_warning

    rules = tuple(cast("Sequence[Rule]", options.get("rules", ())))
    said = CodeSettings(wanted, default_mode(options), rules, options.get("secrets"))
    policy = load_policy(roots, said, settings=options.get("settings", True), state=state)
    for warning in policy.warnings:
        log_warning(warning)
    return {**options, "policy": policy, "rules": (), "settings": False, "secrets": None}


def requested_policy(options: Options) -> Mode | Policy | None:
    policy = options.get("policy")
    more = options.get("rules") or options.get("settings") or options.get("secrets")
    if policy is not None and not isinstance(policy, str) and more:
        raise ValueError("a policy that is given whole takes neither rules nor settings nor secrets")
    return policy


def default_mode(options: Options) -> Mode:
    """Where somebody can be asked, changes ask; where nobody can, they are allowed, since each can be taken back."""
    return "ask" if options.get("approver") else "edit"


def dialect_options(dialect: Dialect, options: Options) -> DialectOptions:
    """The dialect's own, but for what the user wants otherwise."""
    wanted = {name: options.get(name) for name in ("matching", "hints", "search_seconds")}
    return replace(dialect.options, **{name: value for name, value in wanted.items() if value is not None})


def choose_dialect(options: Options) -> Dialect:
    wanted = options.get("dialect", "handhold")
    if not isinstance(wanted, str):
        return wanted
    if wanted != "auto":
        return load_dialect(wanted)
    if not options.get("model"):
        raise ValueError('dialect="auto" needs model="…", the name of the model')
    return load_dialect(match_model(options.get("model", "")).dialect)


class LazySearcher:
    """The searcher of a workspace, made at the first search: what it imports, most sessions start without."""

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
        raise TypeError(f"nothing is known that searches a {type(self._files).__name__}; give a searcher")


class LazyConverter:
    """The converter, imported at the first image or PDF."""

    def convert(self, convert: Convert) -> ConvertedImage | ConvertedPdf:
        return self._converter.convert(convert)

    @cached_property
    def _converter(self) -> Converter:
        from handhold.backends.convert.converter import ConfinedConverter

        return ConfinedConverter()
