"""One agent's conversation with a workspace: what it may reach, what it has read, and in which words it is answered."""

from functools import cached_property
from hashlib import sha256

from handhold.core import history
from handhold.core.policy.guard import GuardedView
from handhold.core.policy.modes import ModePolicy
from handhold.core.policy.rules import RulePolicy
from handhold.core.ports import Approver, Dialect, Files, Hiding, Policy, Store, Traits, Verb, Verdict
from handhold.core.requests import Request
from handhold.core.text.names import spelled
from handhold.core.tracker import Tracker
from handhold.pipeline.checked_policy import check_policy
from handhold.pipeline.secret_files import SecretFiles


class Session:
    """What every step of a call needs to know. The approver may be exchanged at any time."""

    def __init__(
        self,
        name: str,
        files: Files,
        store: Store,
        dialect: Dialect,
        policy: Policy,
        traits: Traits,
        approver: Approver | None = None,
    ) -> None:
        self.name = name
        self.files = files
        self.store = store
        self.dialect = dialect
        self.policy = check_policy(policy)
        self.traits = traits
        self.approver = approver
        self.tracker = Tracker(store.marks(name), store, store, files)

    @property
    def view(self) -> GuardedView:
        """The workspace as the policy lets file tools see it."""
        return GuardedView(self.files, self.policy, self.tracker, self.traits, self.hidden_paths)

    @cached_property
    def hidden_paths(self) -> Hiding | None:
        """What file tools do not show; None where no rule denies reading."""
        if isinstance(self.policy, ModePolicy):
            return None
        visible = GuardedView(self.files, self.policy, self.tracker, self.traits).visible
        return self.files.hiding(lambda place: not visible(place))

    @cached_property
    def secret_files(self) -> SecretFiles:
        return SecretFiles(self.files, self.policy, self.hidden_paths)

    @cached_property
    def read_rules_hash(self) -> str:
        """Changes when a rule about reading does: a reply made under other rules is not shown again."""
        rules = self.policy.reading if isinstance(self.policy, RulePolicy) else ""
        return sha256(rules.encode("utf-8", "surrogateescape")).hexdigest()[:16]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was found in settings and does not count."""
        return self.policy.remarks if isinstance(self.policy, RulePolicy) else ()

    def is_visible(self, place: str) -> bool:
        return self.policy.may(Verb.READ, place).verdict is not Verdict.DENY

    # --- paths in replies

    def format_path(self, place: str) -> str:
        return spelled(place) if self.traits.absolute_paths else history.short(place, self.files.roots)

    def format_requested_path(self, place: str, request: Request) -> str:
        """As the model spelled it, if it named this path."""
        return next((path for path in request.paths if self.files.place(path) == place), self.format_path(place))

    def format_untrusted_path(self, place: str) -> str:
        """For names that a command gave: one may be a secret, like anything that it prints."""
        return self.secret_files.known.redact(self.format_path(place))
