"""Checks the answers of a user's policy: an answer that is not a valid Decision denies.

The rest of the code may compare verdicts by identity: `Decision` turns every verdict into a member of `Verdict`, and
everything else is replaced here. Each kind of mistake is logged once, under `handhold`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from inspect import iscoroutine

from handhold.core.policy.modes import ModePolicy
from handhold.core.policy.rule_policy import RulePolicy, name_only, replace_ask_with_deny
from handhold.core.policy.rules import SEVERITY
from handhold.core.ports.policy import INVALID_ANSWER, CommandAnalysis, Decision, Policy, Verb, Verdict
from handhold.core.text.path_escaping import escape_ambiguous, unescape_ambiguous
from handhold.logs import log_error

TEXT_FIELDS = ("because", "rule", "source", "remedy")


def check_policy(policy: Policy) -> Policy:
    """The policy itself if it is built in, else a wrapper that checks its answers."""
    return policy if type(policy) in (ModePolicy, RulePolicy, CheckedPolicy) else CheckedPolicy(policy)


def judge_by_names(policy: Policy, find_names: Callable[[str], Sequence[str]]) -> Policy:
    """A checked policy that judges each place by all of its names; a mode asks for none."""
    if isinstance(policy, RulePolicy):
        return replace(policy, find_names=find_names)
    return policy.with_names(find_names) if isinstance(policy, CheckedPolicy) else policy


def judge_by_own_name(policy: Policy) -> Policy:
    """A policy that judges a path by its own name only, without looking for links."""
    return policy.by_name if isinstance(policy, RulePolicy | CheckedPolicy) else policy


class CheckedPolicy:
    """A user's policy with checked answers: `decide` returns a valid Decision even if the policy does not."""

    def __init__(self, policy: Policy, find_names: Callable[[str], Sequence[str]] = name_only) -> None:
        self._policy = policy
        self._find_names = find_names
        self._logged: set[str] = set()

    @property
    def name(self) -> str:
        found = self._ask("name", lambda: self._policy.name)
        return found if isinstance(found, str) else type(self._policy).__name__

    def decide(self, verb: Verb, target: str) -> Decision:
        names = [target] if verb is Verb.CONNECT else self._iter_names(target)
        decisions = [self._check_decision("decide", partial(self._policy.decide, verb, name)) for name in names]
        decision = max(decisions, key=lambda each: SEVERITY[each.verdict])
        return replace_ask_with_deny(decision) if verb is Verb.READ else decision

    def decide_command(self, analysis: CommandAnalysis) -> Decision:
        return self._check_decision("decide_command", lambda: self._policy.decide_command(analysis))

    @property
    def allows_hosts(self) -> bool:
        return self._ask("allows_hosts", lambda: self._policy.allows_hosts) is True

    def has_rule_for(self, place: str) -> bool:
        """True unless the policy returns False; `decide` is then asked as well."""
        names = self._iter_names(place)
        return any(self._ask("has_rule_for", partial(self._policy.has_rule_for, name)) is not False for name in names)

    @property
    def by_name(self) -> "CheckedPolicy":
        return self.with_names(name_only)

    def with_names(self, find_names: Callable[[str], Sequence[str]]) -> "CheckedPolicy":
        """The same policy, which judges a place by these names."""
        found = CheckedPolicy(self._policy, find_names)
        found._logged = self._logged
        return found

    def _iter_names(self, place: str) -> Iterator[str]:
        yield place
        yield from map(escape_ambiguous, self._find_names(unescape_ambiguous(place))[1:])

    def _check_decision(self, method: str, ask: Callable[[], object]) -> Decision:
        answer = self._ask(method, ask)
        if not isinstance(answer, Decision):
            verb = "raised" if isinstance(answer, Exception) else "returned"
            decision = Decision(Verdict.DENY, f"the policy {verb} {type(answer).__name__}", INVALID_ANSWER)
        elif not all(isinstance(getattr(answer, name), str) for name in TEXT_FIELDS):
            because = f"the policy returned a Decision in which one of {', '.join(TEXT_FIELDS)} is not a string"
            decision = Decision(Verdict.DENY, because, INVALID_ANSWER)
        else:
            decision = Decision(answer.verdict, answer.because, answer.rule, answer.source, answer.remedy)
        if decision.rule == INVALID_ANSWER:
            self._log(method, decision.because)
        return decision

    def _ask(self, name: str, ask: Callable[[], object]) -> object:
        """The answer of the policy, or the exception that it raised."""
        try:
            answer = ask()
        except Exception as error:  # noqa: BLE001 — user code: an error in it must not allow anything
            self._log(name, f"the policy raised {type(error).__name__}", error)
            return error
        if iscoroutine(answer):
            answer.close()  # nobody awaits it
        return answer

    def _log(self, name: str, problem: str, error: Exception | None = None) -> None:
        """Log each kind once: a search asks about every file."""
        if (message := f"{type(self._policy).__name__}.{name}: {problem}") not in self._logged:
            self._logged.add(message)
            log_error("policy", f"{message}; Handhold denies the call", error)
