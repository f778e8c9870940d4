"""The four modes: how much happens without a question."""

from dataclasses import dataclass
from functools import cached_property

from handhold.core.choices import Mode
from handhold.core.ports import Judgement, Study, Verb, Verdict

_CHANGES: dict[Mode, tuple[Verdict, str]] = {
    "read-only": (Verdict.DENY, "the mode is read-only: say what you would change instead"),
    "ask": (Verdict.ASK, "the mode is ask: every change is shown first"),
    "edit": (Verdict.ALLOW, "the mode is edit: changes in the workspace can be taken back"),
    "open": (Verdict.ALLOW, "the mode is open"),
}
_BEFOREHAND: dict[Mode, tuple[Verdict, str]] = {
    "read-only": (Verdict.DENY, "the mode is read-only"),
    "ask": (Verdict.ASK, "the mode is ask"),
    "edit": (Verdict.ASK, "the mode is edit"),
    "open": (Verdict.ALLOW, "the mode is open: the sandbox holds it"),
}
MODE = "mode "  # what the name of a mode as a rule begins with, and no other rule's does
ON_THE_SHADOW = ("read-only", "workspace-change")  # commands that are judged by what they did


def is_judged_by_effects(study: Study) -> bool:
    """Whether a command runs first, and what it did is judged.

    That goes for what its text does not tell too, where everything it does is seen: on an overlay without a network.
    """
    seen_later = study.kind == "unknown" and study.contained and not study.connects
    return study.kind in ON_THE_SHADOW or seen_later


@dataclass(frozen=True)
class ModePolicy:
    name: Mode

    @property
    def rule(self) -> str:
        return f"{MODE}{self.name}"

    def may(self, verb: Verb, target: str) -> Judgement:
        return self._on_all[verb]

    @cached_property
    def _on_all(self) -> dict[Verb, Judgement]:
        """Of each verb, whatever it is done to: a command may have done it to a hundred thousand files."""
        verdict, because = _CHANGES[self.name]
        changing = Judgement(verdict, because, self.rule)
        reading = Judgement(Verdict.ALLOW, "reading in the workspace is allowed", self.rule)
        shut = Judgement(Verdict.DENY, "the network is shut, but for hosts that a rule names", self.rule)
        return {**dict.fromkeys(Verb, changing), Verb.READ: reading, Verb.CONNECT: shut}

    @property
    def connects(self) -> bool:
        return False

    def concerns(self, place: str) -> bool:
        return False

    def may_run(self, study: Study) -> Judgement:
        """What runs on a shadow is judged by what it did; the rest before it runs."""
        if study.invisible:
            return Judgement(Verdict.DENY, f"it holds characters that nobody can see: {study.invisible}", "invisible")
        if is_judged_by_effects(study):
            return Judgement(Verdict.ALLOW, "it is judged by what it did", self.rule)
        verdict, because = _BEFOREHAND[self.name]
        kind, why = study.kind, study.because
        if kind == "unknown" and study.contained:  # that alone would be no question
            kind, why = "network", study.connects
        return Judgement(verdict, f"{kind}: {why} ({because})", self.rule)
