"""What one client is served: which folders, in which words, how freely, and who it is."""

from dataclasses import dataclass, field, fields
from os import fspath
from os.path import join, lexists
from shlex import quote
from typing import TYPE_CHECKING

from handhold.core.choices import SETTINGS_FILE, Confinement, Mode

if TYPE_CHECKING:
    from pathlib import Path

    from handhold.core.policy.rules import Rule
    from handhold.core.ports.approvals import Approver
    from handhold.core.ports.dialect import Dialect
    from handhold.toolbox import Place, Toolbox

DEFAULT_BUDGET_TOKENS = 25_000  # tokens of a result: what clients take before they cut it themselves


@dataclass(frozen=True)
class ServerConfig:
    """Two clients that are served the same are one and the same to the server, but for their sessions."""

    roots: tuple[str, ...]
    read_only: tuple[str, ...] = ()
    dialect: str = "handhold"
    model: str = ""
    policy: Mode | None = None
    rules: "tuple[Rule, ...]" = ()
    settings: bool | str = True
    shell: Confinement = "contained"
    network: bool | tuple[str, ...] = False
    hidden: tuple[str, ...] = ()  # folders and files that commands do not see: what others are served
    state: str | None = None
    # The one that calls belong to if they name none; empty: a new one for each that names none.
    session: str = field(default="", compare=False)
    handles: bool = False  # whether tools also take `session` and `call_id`, for clients that cannot say them otherwise
    structured: bool = False  # whether results carry their facts as data besides the text
    budget: int = DEFAULT_BUDGET_TOKENS
    name: str = ""  # whose this is: what is handed out to one name means nothing under another

    def __post_init__(self) -> None:
        """TypeError or ValueError if a value is one that no toolbox would take: not only at the first call."""
        from handhold.config import OPTION_NAMES, ToolboxConfig

        given = {each.name: getattr(self, each.name) for each in fields(self) if each.name in OPTION_NAMES}
        config = ToolboxConfig(**given)
        for name in given:
            object.__setattr__(self, name, getattr(config, name))

    @classmethod
    def for_roots(cls, *roots: "Place") -> "ServerConfig":
        return cls(tuple(fspath(root) for root in roots))

    def open_toolbox(self, session: str, approver: "Approver | None" = None) -> "Toolbox":
        """ToolError if the folder or the state cannot be used.

        The approver comes after the policy is settled: that somebody could be asked does not make all a question.
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
            hidden=self.hidden,
        )
        box.approver = approver
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
        """What to know of the roots' own settings before a toolbox is opened. Without any, nothing is imported."""
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
        """What teaches a model to use these tools together, and says how a person takes back what they did."""
        from handhold.dialects import read_instructions

        guidance = self.resolved_dialect.instructions if self.dialect == "auto" else read_instructions(self.dialect)
        session_option = f" --session {quote(self.session)}" if self.session else ""
        undo = f"Every change made with these tools can be taken back by a person: `handhold undo{session_option}`."
        notes = "\n\n".join((undo, *self.warnings))
        return f"{guidance.rstrip()}\n\n{notes}\n".lstrip()

    @property
    def state_folder(self) -> "Path":
        """Where its state lives."""
        from pathlib import Path

        from handhold.backends.state.state_folder import ensure_state_folder

        return ensure_state_folder(Path(self.state) if self.state is not None else None, self.roots)
