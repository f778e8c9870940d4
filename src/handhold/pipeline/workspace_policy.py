"""A policy on a workspace, and what follows from the two: shared by all sessions that have both in common."""

from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING

from handhold.core.policy.rule_policy import RulePolicy
from handhold.core.policy.rules import SEVERITY
from handhold.core.ports.files import Files, HiddenPaths
from handhold.core.ports.policy import Decision, Policy
from handhold.core.tools import run
from handhold.pipeline.checked_policy import check_policy
from handhold.pipeline.secret_files import SecretFiles, find_hidden_paths

if TYPE_CHECKING:
    from handhold.core.policy.protected_names import Protection


class WorkspacePolicy:
    """`hidden_paths` are the files that tools do not show; None if no rule denies reading. Thread-safe."""

    def __init__(self, files: Files, policy: Policy) -> None:
        self.files = files
        self.policy = check_policy(policy)
        self.hidden_paths = find_hidden_paths(files, self.policy)
        self.secret_files = SecretFiles(files, self.policy, self.hidden_paths)

    @cached_property
    def read_rules_hash(self) -> str:
        """A hash of the rules about reading: a reply made under other rules is not replayed."""
        rules = self.policy.read_rules_key if isinstance(self.policy, RulePolicy) else ""
        return sha256(rules.encode("utf-8", "surrogateescape")).hexdigest()[:16]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Parts of the settings that have no effect."""
        return self.policy.warnings if isinstance(self.policy, RulePolicy) else ()

    # --- for commands

    @property
    def for_commands(self) -> Policy:
        """The policy for commands and for undoing them, which may use secret files."""
        return self.secret_files.policy

    @cached_property
    def protection(self) -> "Protection":
        from handhold.backends.own_code import find_own_code
        from handhold.core.policy.protected_names import Protection

        return Protection(self.files.roots, find_own_code(self.files.roots))

    @cached_property
    def locked_paths(self) -> HiddenPaths:
        """The places that a command which works directly on the workspace may not change."""
        return self.files.hidden_paths(self.is_locked, local_only=True)

    def is_locked(self, place: str) -> bool:
        return self.protection.covers(place) or self.is_stricter(place, self.protection.find_root(place))

    def is_stricter(self, place: str, root: str) -> bool:
        """Whether a rule is stricter about changing a place than about its root."""
        policy = self.for_commands
        return policy.has_rule_for(place) and any(
            severity(policy.decide(verb, place)) > severity(policy.decide(verb, root)) for verb in run.CHANGE_VERBS
        )


def severity(decision: Decision) -> int:
    return SEVERITY[decision.verdict]
