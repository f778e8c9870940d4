"""Puts the parts together. The only file that knows every one of them."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from os import PathLike, fspath, urandom
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack, cast

from handhold.config import check_options
from handhold.core.choices import DIALECTS, Confinement, Matching, Mode, Secrets
from handhold.core.facts import ConvertedImage, ConvertedPdf, Scan
from handhold.core.plans import Convert, Search
from handhold.core.policy.hosts import HostPattern
from handhold.core.policy.modes import ModePolicy
from handhold.core.policy.rules import Book, Rule, RulePolicy
from handhold.core.ports import (
    Approver,
    Converter,
    Dialect,
    Files,
    Hiding,
    Policy,
    Searcher,
    Shell,
    Store,
    Traits,
    Verb,
    Verdict,
)
from handhold.dialects.families import chosen
from handhold.toolbox import Road

if TYPE_CHECKING:
    from pathlib import Path

    from handhold.world.files.workspace import Workspace
    from handhold.world.network import Opening
    from handhold.world.state.bound import DiskShare

Place = str | PathLike[str]


class Options(TypedDict, total=False):
    """What a user may say about a toolbox besides where it works."""

    dialect: str | Dialect  # by name, "auto" for the one that `model` knows best, or one of your own
    model: str
    session: str
    policy: Mode | Policy | None
    rules: "Rule | Sequence[Rule]"
    settings: bool | Place  # whether to read the user's file and the roots' own, or which file instead of the user's
    approver: Approver | None
    matching: Matching | None
    hints: bool | None
    shell: Confinement
    network: bool | str | Sequence[str]  # whether commands have one, or the hosts that they may reach
    secrets: Secrets | None  # whether commands may use files that the built-in secret rules name
    hidden: Place | Sequence[Place]  # folders besides the usual ones that commands do not see
    memory: int | None  # bytes that a command may take
    processes: int | None  # that a command may have at once
    tracing: bool  # whether a command may trace its own processes: strace, gdb
    search_seconds: float | None
    searcher: Searcher | None
    converter: Converter | None


class Toolbox(Road):
    """Handhold's tools, on a workspace, for one session."""

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
        from pathlib import Path

        from handhold.world.files.workspace import Workspace
        from handhold.world.state.folder import state_folder
        from handhold.world.state.sqlite import SqliteStore

        place = {"root": root, "state": state, "read_only": read_only, "encodings": encodings, "undo_bytes": undo_bytes}
        given = check_options({**place, **options})
        roots: tuple[Place, ...] = given["root"]
        further: tuple[Place, ...] = given["read_only"]
        options = cast(Options, {name: value for name, value in given.items() if name not in place})
        folder = state_folder(Path(state) if state is not None else None, [fspath(place) for place in roots])
        with ExitStack() as opened:  # what was opened is closed again if the rest cannot be
            store = SqliteStore(folder, bound=undo_bytes or undo_bound(options, folder, roots))
            opened.callback(store.close)
            files = Workspace(roots, store, read_only=further, state=folder, encodings=encodings)
            opened.callback(files.close)
            options = settled(options, files.roots, folder)
            box = cls.on(files, store, run_by=shell_in(folder, files, options), **options)
            opened.pop_all()
        return box

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
        from handhold.world.memory import MemoryFiles
        from handhold.world.state.sqlite import SqliteStore

        check_options({"encodings": encodings})
        store = SqliteStore.in_memory()
        return cls.on(MemoryFiles(files, root=root, contents=store, encodings=encodings), store, **options)

    @classmethod
    def on(
        cls,
        files: Files,
        store: Store,
        *,
        run_by: Callable[[Road], Shell] | None = None,
        **options: Unpack[Options],
    ) -> Self:
        """The tools on a workspace and a store that are there already. They read no settings."""
        options = cast(Options, check_options(options))
        if options.get("settings"):
            raise ValueError("settings are read by Toolbox.open only; give rules, or a policy")
        dialect = dialect_for(options)
        approver = options.get("approver")
        return cls(
            files,
            store,
            dialect,
            policy_for(options, files.roots),
            options.get("searcher") or WhenNeeded(files),
            options.get("converter") or WhenAsked(),
            session=options.get("session") or urandom(8).hex(),
            traits=traits_for(dialect, options),
            approver=approver,
            shell=run_by,
        )


def shell_in(state: "Path", files: "Workspace", options: Options) -> Callable[[Road], Shell]:
    """What makes the shell when the first command comes; nothing of it is imported before."""
    mode = options.get("shell", "contained")

    def made(road: Road) -> Shell:
        from handhold.world.shell import BoxedShell
        from handhold.world.shell.limits import Limits

        return BoxedShell(
            files.roots_open,
            files.shelf_of,
            state=state,
            session=road.session,
            mode=mode,
            network=opening(cast("bool | Sequence[str]", options.get("network", False)), road.policy),
            lasting=road.traits.shell_lasts,
            protected=road.is_guarded,
            holds=road.is_held,
            held_places=road.to_keep,
            denied=road.to_hide,
            withheld=road.is_withheld,
            redaction=road.redaction,
            hidden=cast("Sequence[str]", options.get("hidden", ())),
            limits=Limits(options.get("memory"), options.get("processes")),
            tracing=options.get("tracing", False),
        )

    return made


def opening(network: bool | Sequence[str], policy: Policy) -> "bool | Opening":  # noqa: FBT001
    """Shut, open, or open for hosts by name: those that are given here, and those that a rule allows."""
    from handhold.world.network import Opening

    if isinstance(network, bool) and (network or not policy.connects):
        return network
    named: Sequence[str] = () if isinstance(network, bool) else network
    patterns = [HostPattern.parse(each) for each in named]

    def objection(host: str, port: int) -> str:
        judgement = policy.may(Verb.CONNECT, f"{host}:{port}")
        if judgement.verdict is Verdict.ALLOW:
            return ""
        denied = judgement.verdict is Verdict.DENY and not judgement.rule.startswith("mode ")
        if not denied and any(each.matches(host, port) for each in patterns):
            return ""
        return judgement.because

    return Opening(objection)


def dialect_named(name: str) -> Dialect:
    if name not in DIALECTS:
        raise ValueError(f"no dialect is called {name!r}; there are {', '.join(DIALECTS)}")
    module: Any = import_module(f"handhold.dialects.{name}")
    return module.dialect


def policy_for(options: Options, roots: Sequence[str]) -> Policy:
    """The mode, with the rules of the code and those that are built in; or the policy that was given."""
    wanted = wanted_policy(options)
    if wanted is not None and not isinstance(wanted, str):
        return wanted
    from handhold.core.policy.defaults import BUILT_IN

    rules = Book("code", "code", tuple(cast("Sequence[Rule]", options.get("rules", ()))))
    mode = ModePolicy(wanted or otherwise(options))
    return RulePolicy(mode, (rules, BUILT_IN), tuple(roots), secrets=options.get("secrets") or "usable")


def undo_bound(options: Options, state: "Path", roots: Sequence[Place]) -> "int | DiskShare":
    """What the user's settings say, else a share of the disks on which it lies: of the state and of the roots."""
    from handhold.world.settings import users_undo_bytes
    from handhold.world.state.bound import DiskShare

    policy = wanted_policy(options)
    reads_settings = policy is None or isinstance(policy, str)
    wanted = users_undo_bytes(options.get("settings", True)) if reads_settings else None
    return wanted or DiskShare(state, roots)


def settled(options: Options, roots: Sequence[str], state: "Path") -> Options:
    """The same, with the policy that the settings make of it. SettingsBroken if they cannot be taken as they are."""
    wanted = wanted_policy(options)
    if wanted is not None and not isinstance(wanted, str):
        return options
    from handhold.world.settings import Wanted, load, log_warning

    rules = tuple(cast("Sequence[Rule]", options.get("rules", ())))
    said = Wanted(wanted, otherwise(options), rules, options.get("secrets"))
    policy = load(roots, said, settings=options.get("settings", True), state=state)
    for warning in policy.remarks:
        log_warning(warning)
    return {**options, "policy": policy, "rules": (), "settings": False, "secrets": None}


def wanted_policy(options: Options) -> Mode | Policy | None:
    policy = options.get("policy")
    more = options.get("rules") or options.get("settings") or options.get("secrets")
    if policy is not None and not isinstance(policy, str) and more:
        raise ValueError("a policy that is given whole takes neither rules nor settings nor secrets")
    return policy


def otherwise(options: Options) -> Mode:
    """Where somebody can be asked, changes ask; where nobody can, they are allowed, since each can be taken back."""
    return "ask" if options.get("approver") else "edit"


def traits_for(dialect: Dialect, options: Options) -> Traits:
    """The dialect's own, but for what the user wants otherwise."""
    wanted = {name: options.get(name) for name in ("matching", "hints", "search_seconds")}
    return replace(dialect.traits, **{name: value for name, value in wanted.items() if value is not None})


def dialect_for(options: Options) -> Dialect:
    wanted = options.get("dialect", "handhold")
    if not isinstance(wanted, str):
        return wanted
    if wanted != "auto":
        return dialect_named(wanted)
    if not options.get("model"):
        raise ValueError('dialect="auto" needs model="…", the name of the model')
    return dialect_named(chosen(options.get("model", "")).dialect)


class WhenNeeded:
    """The searcher of a workspace, made at the first search: what it imports, most sessions start without."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def search(self, search: Search, *, visible: Callable[[str], bool], hiding: Hiding | None = None) -> Scan:
        return self._searcher.search(search, visible=visible, hiding=hiding)

    @cached_property
    def _searcher(self) -> Searcher:
        from handhold.world.files.workspace import Workspace

        if isinstance(self._files, Workspace):
            from handhold.world.search import DiskSearch

            return DiskSearch(self._files)
        from handhold.world.memory import MemoryFiles

        if isinstance(self._files, MemoryFiles):
            from handhold.world.search.memory import MemorySearch

            return MemorySearch(self._files)
        raise TypeError(f"nothing is known that searches a {type(self._files).__name__}; give a searcher")


class WhenAsked:
    """The converter, imported at the first image or PDF."""

    def convert(self, convert: Convert) -> ConvertedImage | ConvertedPdf:
        return self._converter.convert(convert)

    @cached_property
    def _converter(self) -> Converter:
        from handhold.world.convert.confined import ConfinedConverter

        return ConfinedConverter()
