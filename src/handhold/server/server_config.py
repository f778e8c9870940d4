"""The configuration for one client: roots, dialect, policy, sandbox and name."""

from dataclasses import dataclass, field, fields
from os import fspath
from os.path import join, lexists
from shlex import quote
from typing import TYPE_CHECKING

from handhold.core.choices import SETTINGS_FILE, Breakage, Confinement, Durability, Mode

if TYPE_CHECKING:
    from pathlib import Path

    from handhold.core.policy.rules import Rule
    from handhold.core.ports.approvals import Approver
    from handhold.core.ports.dialect import Dialect
    from handhold.server.client_session import ClientSession
    from handhold.toolbox import Place, Toolbox

DEFAULT_BUDGET_TOKENS = 25_000  # clients truncate longer results themselves


@dataclass(frozen=True)
class ServerConfig:
    """Clients with equal configurations share their toolboxes. The session is not compared."""

    roots: tuple[str, ...]
    read_only: tuple[str, ...] = ()
    dialect: str = "handhold"
    model: str = ""
    policy: Mode | None = None
    rules: "tuple[Rule, ...]" = ()
    settings: bool | str = True
    shell: Confinement = "contained"
    network: bool | tuple[str, ...] = False
    credentials: tuple[str, ...] = ()
    refuse_broken: Breakage | None = None
    hidden: tuple[str, ...] = ()  # paths that commands cannot see: the roots of other clients
    state: str | None = None
    # The session of calls that name none; empty: each such call gets a new session.
    session: str = field(default="", compare=False)
    client_session: "ClientSession | None" = field(default=None, compare=False)  # goes before `session`
    # Add `session`, `call_id` and `fork` to every tool, for clients that cannot send them in `_meta`.
    handles: bool = False
    fork: str = ""  # the fork of the workspace in which calls work that name none; empty: the workspace itself
    structured: bool = False  # add structured content to results
    budget: int = DEFAULT_BUDGET_TOKENS
    hub: str | None = None
    durable: Durability = "local"
    name: str = ""  # the name of the token; handles are valid only for the name they were issued to

    def __post_init__(self) -> None:
        """Validate now instead of at the first call: raises TypeError or ValueError for a value no toolbox accepts."""
        from handhold.config import OPTION_NAMES, ToolboxConfig

        given = {each.name: getattr(self, each.name) for each in fields(self) if each.name in OPTION_NAMES}
        config = ToolboxConfig(**given)
        for name in given:
            object.__setattr__(self, name, getattr(config, name))

    @classmethod
    def for_roots(cls, *roots: "Place") -> "ServerConfig":
        return cls(tuple(fspath(root) for root in roots))

    def open_toolbox(self, session: str, approver: "Approver | None" = None) -> "Toolbox":
        """Raises ToolError if a root, the state folder or the fork cannot be used.

        The approver is set after opening, because a toolbox that is opened with one defaults to the mode `ask`.
        """
        from handhold.toolbox import Toolbox

        box = Toolbox.open(
            self.roots,
            state=self.state,
            read_only=self.read_only,
            dialect=self.resolved_dialect,
            session=session,
            policy=self.policy,
            rules=self.rules,
            settings=self.settings,
            shell=self.shell,
            network=self.network,
            credentials=self.credentials,
            refuse_broken=self.refuse_broken,
            hidden=self.hidden,
            hub=self.hub,
            durable=self.durable,
        )
        box.approver = approver
        if self.fork:
            try:
                return box.fork(self.fork)
            except BaseException:
                box.close()
                raise
        if box.store.has_baseline():
            box.snapshots.resume()
        return box

    @property
    def all_roots(self) -> tuple[str, ...]:
        return (*self.roots, *self.read_only)

    @property
    def resolved_dialect(self) -> "Dialect":
        from handhold.factory import choose_dialect

        return choose_dialect(self.dialect, self.model)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the roots' own settings. Nothing is imported if no root has any."""
        files = (join(root, SETTINGS_FILE) for root in self.all_roots)
        if self.settings is False or not any(map(lexists, files)):
            return ()
        from handhold.backends.settings import find_warnings

        return find_warnings(self.all_roots, self.settings)

    def log_warnings(self) -> None:
        for warning in self.warnings:
            from handhold.backends.settings import log_warning

            log_warning(warning)

    @property
    def instructions(self) -> str:
        """Guidance for the model on using the tools together, and how a person can undo their changes."""
        from handhold.dialects import read_instructions

        guidance = self.resolved_dialect.instructions if self.dialect == "auto" else read_instructions(self.dialect)
        session_option = f" --session {quote(self.session)}" if self.session else ""
        undo = f"A person can undo every change made with these tools: `handhold undo{session_option}`."
        if self.fork:
            undo = (
                f"These tools work in {self.fork}, a fork of the workspace: a copy at the same path. A person can see "
                f"its changes (`handhold fork diff {self.fork}`), and merge or drop it."
            )
        notes = "\n\n".join((undo, *self.warnings))
        return f"{guidance.rstrip()}\n\n{notes}\n".lstrip()

    @property
    def state_folder(self) -> "Path":
        """The folder with the journal and other state."""
        from pathlib import Path

        from handhold.backends.state.state_folder import ensure_state_folder

        return ensure_state_folder(Path(self.state) if self.state is not None else None, self.roots)
