"""The border where answers of a user's policy enter: an answer that is not a judgement denies.

Code behind this border compares verdicts by identity, and may: `Decision` turns every verdict into a member of
`Verdict`, and what is not a judgement at all never gets past here. The developer finds each kind of mistake in the log
once, under `handhold`.
"""

from collections.abc import Callable
from inspect import iscoroutine

from handhold.core.policy.modes import ModePolicy
from handhold.core.policy.rule_policy import RulePolicy, replace_ask_with_deny
from handhold.core.ports.policy import INVALID_ANSWER, CommandAnalysis, Decision, Policy, Verb, Verdict

TEXT_FIELDS = ("because", "rule", "source", "remedy")


def check_policy(policy: Policy) -> Policy:
    """The policy itself if it is one of ours, else the same with its answers checked."""
    return policy if type(policy) in (ModePolicy, RulePolicy, CheckedPolicy) else CheckedPolicy(policy)


class CheckedPolicy:
    """A user's policy whose every answer is a judgement, whatever it returns or raises."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._logged: set[str] = set()

    @property
    def name(self) -> str:
        found = self._ask("name", lambda: self._policy.name)
        return found if isinstance(found, str) else type(self._policy).__name__

    def decide(self, verb: Verb, target: str) -> Decision:
        decision = self._check_decision("decide", lambda: self._policy.decide(verb, target))
        return replace_ask_with_deny(decision) if verb is Verb.READ else decision

    def decide_command(self, analysis: CommandAnalysis) -> Decision:
        return self._check_decision("decide_command", lambda: self._policy.decide_command(analysis))

    @property
    def allows_hosts(self) -> bool:
        return self._ask("allows_hosts", lambda: self._policy.allows_hosts) is True

    def has_rule_for(self, place: str) -> bool:
        """True unless the policy says otherwise: `decide` is then asked, and can only make it stricter."""
        return self._ask("has_rule_for", lambda: self._policy.has_rule_for(place)) is not False

    def _check_decision(self, method: str, ask: Callable[[], object]) -> Decision:
        answer = self._ask(method, ask)
        if not isinstance(answer, Decision):
            verb = "raised" if isinstance(answer, Exception) else "returned"
            decision = Decision(Verdict.DENY, f"the policy {verb} {type(answer).__name__}", INVALID_ANSWER)
        elif not all(isinstance(getattr(answer, name), str) for name in TEXT_FIELDS):
            because = f"the policy returned a judgement in which one of {', '.join(TEXT_FIELDS)} is not a text"
            decision = Decision(Verdict.DENY, because, INVALID_ANSWER)
        else:
            decision = Decision(answer.verdict, answer.because, answer.rule, answer.source, answer.remedy)
        if decision.rule == INVALID_ANSWER:
            self._log(method, decision.because)
        return decision

    def _ask(self, name: str, ask: Callable[[], object]) -> object:
        """What the policy answers; the exception if it raises one, which is nobody's allow."""
        try:
            answer = ask()
        except Exception as error:  # noqa: BLE001 — foreign code: whatever goes wrong in it allows nothing
            self._log(name, f"the policy raised {type(error).__name__}", error)
            return error
        if iscoroutine(answer):
            answer.close()  # nobody awaits it
        return answer

    def _log(self, name: str, problem: str, error: Exception | None = None) -> None:
        """Once for each kind: a search asks of every file."""
        if (message := f"{type(self._policy).__name__}.{name}: {problem}") not in self._logged:
            self._logged.add(message)
            from logging import getLogger

            getLogger("handhold.policy").error("%s; Handhold denies what it was asked about", message, exc_info=error)
