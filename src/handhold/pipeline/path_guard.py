"""Tells a shell which paths are masked, locked or need review, by the policy and the protected names."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from handhold.core.plans import ContentRef, Directory, FileChange
from handhold.core.policy.modes import ModePolicy
from handhold.core.policy.rule_policy import RulePolicy
from handhold.core.ports.policy import Verb, Verdict
from handhold.core.text.redaction import Redaction
from handhold.pipeline.policy_review import PolicyReviewer
from handhold.pipeline.session import Session


class PolicyPathGuard:
    """Implements the port PathGuard."""

    def __init__(self, session: Session, reviewer: PolicyReviewer) -> None:
        self._session = session
        self._reviewer = reviewer

    def judging(self) -> AbstractContextManager[None]:
        return self._session.workspace_policy.links.held()

    def needs_review(self, place: str) -> bool:
        """Whether a protected name or a rule covers this path."""
        roots = self._session.files.roots
        root = next((root for root in roots if place.startswith(root.rstrip("/") + "/")), place)
        return self._reviewer.is_set_apart(place, root)

    def is_locked(self, place: str, is_folder: bool) -> bool:  # noqa: FBT001
        content = Directory() if is_folder else ContentRef("", 0)  # its content is unknown
        return self._reviewer.is_locked(FileChange(place, None, content))

    def locked_paths(self) -> Sequence[str]:
        """Paths whose content, mode and time such a command must not change."""
        return self._session.files.with_io_timeout(self._session.workspace_policy.locked_paths.paths, lambda: None)

    def masked_paths(self) -> Sequence[str]:
        return self._session.files.with_io_timeout(self._session.secret_files.masked_paths, lambda: None)

    def is_masked(self, place: str) -> bool:
        policy = self._session.secret_files.policy
        return policy.has_rule_for(place) and all(
            policy.decide(verb, place).verdict is Verdict.DENY for verb in (Verb.READ, Verb.CREATE)
        )

    def find_denied_changes(self) -> Callable[[str], bool] | None:
        policy = self._session.workspace_policy.for_commands
        if isinstance(policy, ModePolicy) or (isinstance(policy, RulePolicy) and not policy.denies_changes):
            return None

        def is_denied(place: str) -> bool:
            # What may not be read either is left out of the effects.
            return self._reviewer.find_denial(place) is not None and not self.is_masked(place)

        return is_denied

    def redaction(self) -> Redaction | None:
        return self._session.files.with_io_timeout(self._session.redaction.get_values, lambda: None)

    def redact_tokens(self, text: str) -> str:
        return self._session.redaction.redact_tokens(text)
