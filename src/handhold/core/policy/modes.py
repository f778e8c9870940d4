"""The four modes: how much is allowed without approval."""

from dataclasses import dataclass
from functools import cached_property

from handhold.core.choices import Mode
from handhold.core.ports.policy import CommandAnalysis, Decision, Verb, Verdict

_CHANGE_VERDICTS: dict[Mode, tuple[Verdict, str]] = {
    "read-only": (Verdict.DENY, "the workspace is read-only"),
    "ask": (Verdict.ASK, "the mode is ask"),
    "edit": (Verdict.ALLOW, "the mode is edit: changes in the workspace can be undone"),
    "open": (Verdict.ALLOW, "the mode is open"),
}
_COMMAND_VERDICTS: dict[Mode, tuple[Verdict, str]] = {
    "read-only": (Verdict.DENY, "the mode is read-only"),
    "ask": (Verdict.ASK, "the mode is ask"),
    "edit": (Verdict.ASK, "the mode is edit"),
    "open": (Verdict.ALLOW, "the mode is open: the sandbox confines it"),
}
MODE_RULE_PREFIX = "mode "  # only modes have rule names with this prefix
CLASSES_JUDGED_BY_EFFECTS = ("read-only", "workspace-change")  # commands that run first and are judged by their effects


def is_judged_by_effects(analysis: CommandAnalysis) -> bool:
    """Whether a command runs first and is judged by its effects.

    An unknown command qualifies too if all its effects are visible: on an overlay, and with the proxy, which decides
    about each connection.
    """
    return analysis.kind in CLASSES_JUDGED_BY_EFFECTS or (
        analysis.contained and analysis.kind in ("unknown", "network")
    )


@dataclass(frozen=True)
class ModePolicy:
    name: Mode

    @property
    def rule_name(self) -> str:
        return f"{MODE_RULE_PREFIX}{self.name}"

    def decide(self, verb: Verb, target: str) -> Decision:
        return self._decisions[verb]

    @cached_property
    def _decisions(self) -> dict[Verb, Decision]:
        """The decision for each verb, computed once: a command may touch a hundred thousand files."""
        verdict, because = _CHANGE_VERDICTS[self.name]
        changing = Decision(verdict, because, self.rule_name)
        reading = Decision(Verdict.ALLOW, "reading in the workspace is allowed", self.rule_name)
        connecting = Decision(
            Verdict.DENY, "the network is closed, except for hosts that a rule allows", self.rule_name
        )
        return {**dict.fromkeys(Verb, changing), Verb.READ: reading, Verb.CONNECT: connecting}

    @property
    def allows_hosts(self) -> bool:
        return False

    def has_rule_for(self, place: str) -> bool:
        return False

    def decide_command(self, analysis: CommandAnalysis) -> Decision:
        """Allow commands that are judged by their effects; decide about all others before they run."""
        if analysis.invisible:
            return Decision(Verdict.DENY, f"it contains invisible characters: {analysis.invisible}", "invisible")
        if is_judged_by_effects(analysis):
            return Decision(Verdict.ALLOW, "it is judged by its effects", self.rule_name)
        verdict, because = _COMMAND_VERDICTS[self.name]
        return Decision(verdict, f"{analysis.because} (classified as {analysis.kind}; {because})", self.rule_name)
