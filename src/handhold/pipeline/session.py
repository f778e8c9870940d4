"""A session: one agent's conversation with a workspace."""

from collections.abc import Callable, Collection, Sequence

from handhold.core.change_diff import shorten_path
from handhold.core.plans import FileChange, hash_or_none
from handhold.core.policy.guarded_view import GuardedView
from handhold.core.ports.approvals import ApprovalStore, Approver
from handhold.core.ports.checks import SyntaxChecker
from handhold.core.ports.contents import ContentStore
from handhold.core.ports.dialect import Dialect, DialectOptions
from handhold.core.ports.files import Files, HiddenPaths
from handhold.core.ports.hub_link import HubLink
from handhold.core.ports.journal import Journal
from handhold.core.ports.policy import Policy, Verb, Verdict
from handhold.core.ports.recording import Recording
from handhold.core.ports.store import Store
from handhold.core.read_tracker import ReadTracker
from handhold.core.requests import Request
from handhold.core.shipped_records import is_hash
from handhold.core.text.path_escaping import format_path
from handhold.pipeline.allowed_hosts import AllowedHosts
from handhold.pipeline.redaction import OutputRedaction
from handhold.pipeline.secret_files import SecretFiles
from handhold.pipeline.workspace_policy import WorkspacePolicy


class Session:
    """What every step of a call needs. The approver may be replaced at any time."""

    def __init__(
        self,
        name: str,
        files: Files,
        store: Store,
        dialect: Dialect,
        workspace_policy: WorkspacePolicy,
        options: DialectOptions,
        approver: Approver | None = None,
        recording: Recording | None = None,
        hub: HubLink | None = None,
        *,
        refuse_broken: bool = False,
        unredacted: Collection[str] = (),
        waits_for_hub: bool = False,
        load_syntax_checker: Callable[[], SyntaxChecker] | None = None,
    ) -> None:
        self.name = name
        self.files = files
        self.store = store
        self.journal: Journal = store
        self.contents: ContentStore = store
        self.approvals: ApprovalStore = store
        self.dialect = dialect
        self.workspace_policy = workspace_policy
        self.allowed_hosts = AllowedHosts(name, store)
        self.options = options
        self.approver = approver
        self.recording = recording
        self.refuse_broken = refuse_broken  # whether a change that makes syntax errors is refused
        self.redaction = OutputRedaction(lambda: self.secret_files, unredacted)
        self.hub = hub
        self._waits_for_hub = waits_for_hub
        self._load_syntax_checker = load_syntax_checker
        self.tracker = ReadTracker(store.read_records(name), store, store, files)

    def confirm_change(self) -> None:
        """After a change: with durable="hub", wait until the hub has its outcome. HubUnreachable if it has not."""
        if self.hub and self._waits_for_hub:
            self.hub.wait_until_acknowledged()

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
            self._load_syntax_checker,
        )

    @property
    def policy(self) -> Policy:
        return self.workspace_policy.policy

    @property
    def hidden_paths(self) -> HiddenPaths | None:
        """The files that tools do not show; None if no rule denies reading."""
        return self.workspace_policy.hidden_paths

    @property
    def secret_files(self) -> SecretFiles:
        return self.workspace_policy.secret_files

    @property
    def read_rules_hash(self) -> str:
        return self.workspace_policy.read_rules_hash

    def is_visible(self, place: str) -> bool:
        return self.policy.decide(Verb.READ, place).verdict is not Verdict.DENY

    def find_hidden_hashes(self, files: Sequence[FileChange]) -> set[str]:
        """The contents of files that tools do not show."""
        hidden = [change for change in files if not self.is_visible(change.path)]
        found = (hash_or_none(content) for change in hidden for content in (change.before, change.after))
        return {hash for hash in found if hash and is_hash(hash)}

    # --- paths in replies

    def format_path(self, place: str) -> str:
        return format_path(place) if self.options.absolute_paths else shorten_path(place, self.files.roots)

    def format_requested_path(self, place: str, request: Request) -> str:
        """The path as the model spelled it, if the request names it."""
        return next((path for path in request.paths if self.files.resolve(path) == place), self.format_path(place))
