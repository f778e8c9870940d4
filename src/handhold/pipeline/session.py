"""A session: one agent's conversation with a workspace."""

from functools import cached_property
from hashlib import sha256

from handhold.core.change_diff import shorten_path
from handhold.core.policy.guarded_view import GuardedView
from handhold.core.policy.modes import ModePolicy
from handhold.core.policy.rule_policy import RulePolicy
from handhold.core.ports.approvals import ApprovalStore, Approver
from handhold.core.ports.contents import ContentStore
from handhold.core.ports.dialect import Dialect, DialectOptions
from handhold.core.ports.files import Files, HiddenPaths
from handhold.core.ports.journal import Journal
from handhold.core.ports.policy import Policy, Verb, Verdict
from handhold.core.ports.store import Store
from handhold.core.read_tracker import ReadTracker
from handhold.core.requests import Request
from handhold.core.text.path_escaping import format_path
from handhold.pipeline.checked_policy import check_policy
from handhold.pipeline.secret_files import SecretFiles, find_hidden_paths, share_secret_files


class Session:
    """What every step of a call needs. The approver may be replaced at any time."""

    def __init__(
        self,
        name: str,
        files: Files,
        store: Store,
        dialect: Dialect,
        policy: Policy,
        options: DialectOptions,
        approver: Approver | None = None,
    ) -> None:
        self.name = name
        self.files = files
        self.store = store
        self.journal: Journal = store
        self.contents: ContentStore = store
        self.approvals: ApprovalStore = store
        self.dialect = dialect
        self.policy = check_policy(policy)
        self.options = options
        self.approver = approver
        self.tracker = ReadTracker(store.read_records(name), store, store, files)

    @property
    def view(self) -> GuardedView:
        """The workspace as the policy lets file tools see it."""
        return GuardedView(
            self.files,
            self.policy,
            self.tracker,
            self.options,
            self.hidden_paths,
            self.secret_files.find_denied_name,
        )

    @cached_property
    def hidden_paths(self) -> HiddenPaths | None:
        """The files that tools do not show; None if no rule denies reading."""
        if isinstance(self.policy, ModePolicy):
            return None
        if isinstance(self.policy, RulePolicy):
            return find_hidden_paths(self.files, self.policy)
        visible = GuardedView(self.files, self.policy, self.tracker, self.options).is_visible
        return self.files.hidden_paths(lambda place: not visible(place))

    @cached_property
    def secret_files(self) -> SecretFiles:
        return share_secret_files(self.files, self.policy, self.hidden_paths)

    @cached_property
    def read_rules_hash(self) -> str:
        """A hash of the rules about reading: a reply made under other rules is not replayed."""
        rules = self.policy.read_rules_key if isinstance(self.policy, RulePolicy) else ""
        return sha256(rules.encode("utf-8", "surrogateescape")).hexdigest()[:16]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Parts of the settings that have no effect."""
        return self.policy.warnings if isinstance(self.policy, RulePolicy) else ()

    def is_visible(self, place: str) -> bool:
        return self.policy.decide(Verb.READ, place).verdict is not Verdict.DENY

    # --- paths in replies

    def format_path(self, place: str) -> str:
        return format_path(place) if self.options.absolute_paths else shorten_path(place, self.files.roots)

    def format_requested_path(self, place: str, request: Request) -> str:
        """The path as the model spelled it, if the request names it."""
        return next((path for path in request.paths if self.files.resolve(path) == place), self.format_path(place))
