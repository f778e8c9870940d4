"""A policy for tests that decides about places and allows everything else."""

from handhold.core.ports.policy import CommandAnalysis, Decision, Verdict


class OnPlaces:
    """Everything except `name` and `decide`."""

    def decide_command(self, analysis: CommandAnalysis) -> Decision:
        return Decision(Verdict.ALLOW, "")

    def has_rule_for(self, place: str) -> bool:
        return True

    @property
    def allows_hosts(self) -> bool:
        return False
