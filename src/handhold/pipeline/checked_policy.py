"""The border where answers of a user's policy enter: an answer that is not a judgement denies.

Code behind this border compares verdicts by identity, and may: `Judgement` turns every verdict into a member of
`Verdict`, and what is not a judgement at all never gets past here. The developer finds each kind of mistake in the log
once, under `handhold`.
"""

from collections.abc import Callable
from inspect import iscoroutine

from handhold.core.policy.modes import ModePolicy
from handhold.core.policy.rules import RulePolicy, deny_question
from handhold.core.ports import INVALID_ANSWER, Judgement, Policy, Study, Verb, Verdict

TEXTS = ("because", "rule", "source", "remedy")


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
        found = self._answer("name", lambda: self._policy.name)
        return found if isinstance(found, str) else type(self._policy).__name__

    def may(self, verb: Verb, target: str) -> Judgement:
        judgement = self._judgement("may", lambda: self._policy.may(verb, target))
        return deny_question(judgement) if verb is Verb.READ else judgement

    def may_run(self, study: Study) -> Judgement:
        return self._judgement("may_run", lambda: self._policy.may_run(study))

    @property
    def connects(self) -> bool:
        return self._answer("connects", lambda: self._policy.connects) is True

    def concerns(self, place: str) -> bool:
        """True unless the policy says otherwise: `may` is then asked, and can only make it stricter."""
        return self._answer("concerns", lambda: self._policy.concerns(place)) is not False

    def _judgement(self, method: str, ask: Callable[[], object]) -> Judgement:
        answer = self._answer(method, ask)
        if not isinstance(answer, Judgement):
            verb = "raised" if isinstance(answer, Exception) else "returned"
            judgement = Judgement(Verdict.DENY, f"the policy {verb} {type(answer).__name__}", INVALID_ANSWER)
        elif not all(isinstance(getattr(answer, name), str) for name in TEXTS):
            because = f"the policy returned a judgement in which one of {', '.join(TEXTS)} is not a text"
            judgement = Judgement(Verdict.DENY, because, INVALID_ANSWER)
        else:
            judgement = Judgement(answer.verdict, answer.because, answer.rule, answer.source, answer.remedy)
        if judgement.rule == INVALID_ANSWER:
            self._log(method, judgement.because)
        return judgement

    def _answer(self, name: str, ask: Callable[[], object]) -> object:
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

            getLogger("handhold").error("%s; Handhold denies what it was asked about", message, exc_info=error)
