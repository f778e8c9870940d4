"""A policy on a workspace, and what follows from the two: shared by all sessions that have both in common."""

from collections.abc import Iterable
from functools import cached_property
from hashlib import sha256

from handhold.core.policy.protected_names import Protection
from handhold.core.policy.rule_policy import RulePolicy
from handhold.core.policy.rules import SEVERITY
from handhold.core.ports.files import Files, HiddenPaths
from handhold.core.ports.policy import Decision, Policy, Verb
from handhold.core.tools import run
from handhold.pipeline.checked_policy import CheckedPolicy, check_policy, judge_by_names, judge_by_own_name
from handhold.pipeline.secret_files import SecretFiles, find_hidden_paths


class WorkspacePolicy:
    """`hidden_paths` are the files that tools do not show; None if no rule denies reading. Thread-safe."""

    def __init__(self, files: Files, policy: Policy) -> None:
        self.files = files
        policy = check_policy(policy)
        by_name = Protection(files.roots)

        def is_named(place: str) -> bool:  # not our own code: nobody looks for links in a whole environment
            return by_name.covers_name(place) or (isinstance(policy, RulePolicy) and policy.is_restricted(place))

        def is_judged(name: str) -> bool:
            has_rule = isinstance(policy, CheckedPolicy) and policy.has_rule_for(name)
            return has_rule or self.protection.covers_name(name) or is_named(name)

        spelled = policy.spelled_paths if isinstance(policy, RulePolicy) else ()
        self.links = files.link_names(is_named, is_judged, spelled)
        self.policy = judge_by_names(policy, self.links.find)
        self.hidden_paths = find_hidden_paths(files, self.policy)
        self.secret_files = SecretFiles(files, self.policy, self.hidden_paths, self.links)

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
    def protection(self) -> Protection:
        from handhold.backends.own_code import find_own_code

        return Protection(self.files.roots, find_own_code(self.files.roots), self.links.find)

    @cached_property
    def locked_paths(self) -> HiddenPaths:
        """The places that a command which works directly on the workspace may not change."""
        policy = judge_by_own_name(self.for_commands)  # the search finds the links itself

        def is_locked(place: str) -> bool:
            return self.protection.covers_name(place) or self._is_stricter(policy, place, self._find_root(place))

        return self.files.hidden_paths(is_locked, local_only=True)

    def is_locked(self, place: str) -> bool:
        return self.protection.covers(place) or self.is_stricter(place, self._find_root(place))

    def is_stricter(self, place: str, root: str) -> bool:
        """Whether a rule is stricter about changing a place than about its root."""
        return self._is_stricter(self.for_commands, place, root)

    def _find_root(self, place: str) -> str:
        return self.protection.find_root(place)

    def _is_stricter(self, policy: Policy, place: str, root: str) -> bool:
        return policy.has_rule_for(place) and any(
            severity(policy.decide(verb, place)) > severity(policy.decide(verb, root)) for verb in run.CHANGE_VERBS
        )


def decide_names(policy: Policy, verb: Verb, names: Iterable[str]) -> Decision:
    """The strictest decision about some names of a file; of equal ones the first."""
    return max((policy.decide(verb, name) for name in names), key=severity)


def severity(decision: Decision) -> int:
    return SEVERITY[decision.verdict]
