"""The four modes: how much happens without a question."""

from dataclasses import dataclass
from typing import Literal, get_args

from handhold.core.ports import Judgement, Verb, Verdict

Mode = Literal["read-only", "ask", "edit", "open"]
MODES: tuple[Mode, ...] = get_args(Mode)

_CHANGES: dict[Mode, Judgement] = {
    "read-only": Judgement(Verdict.DENY, "the mode is read-only: say what you would change instead"),
    "ask": Judgement(Verdict.ASK, "the mode is ask: every change is shown first"),
    "edit": Judgement(Verdict.ALLOW, "the mode is edit: changes in the workspace can be taken back"),
    "open": Judgement(Verdict.ALLOW, "the mode is open"),
}
_READING = Judgement(Verdict.ALLOW, "reading in the workspace is allowed")


@dataclass(frozen=True)
class ModePolicy:
    name: Mode

    def may(self, verb: Verb, path: str) -> Judgement:
        return _READING if verb is Verb.READ else _CHANGES[self.name]
