"""A policy of a test's own says what it has to say about places; to the rest it says yes."""

from handhold.core.ports import Judgement, Study, Verdict


class OnPlaces:
    """All but `name` and `may`."""

    def may_run(self, study: Study) -> Judgement:
        return Judgement(Verdict.ALLOW, "")

    def concerns(self, place: str) -> bool:
        return True

    @property
    def connects(self) -> bool:
        return False
