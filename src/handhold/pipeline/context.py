"""The state of a call while it is carried out."""

from dataclasses import dataclass
from time import perf_counter
from typing import Any

from handhold.core.ports.journal import Call, CallDecision, JournalEntry
from handhold.core.problems import NO_PROBLEMS, Problems
from handhold.pipeline.cancellation import CancelToken


@dataclass
class CallContext:
    call: Call
    started: float  # by perf_counter
    token: CancelToken
    seq: int = 0  # its number in the journal; 0 until it is recorded, which a call that only reads is at its end
    repaired: tuple[str, ...] = ()  # what was repaired in its arguments
    problems: Problems = NO_PROBLEMS  # what its change broke
    decision: CallDecision | None = None  # why it was carried out or refused, once that is recorded
    changed_count: int = 0  # files that it changed
    dropped_undo: tuple[JournalEntry, ...] = ()  # calls whose undo is dropped to make room for this one's

    def facts(self) -> dict[str, Any]:
        return {**call_facts(self.repaired, self.problems), "time_ms": elapsed_ms(self.started)}


def call_facts(repaired: tuple[str, ...], problems: Problems) -> dict[str, Any]:
    return {
        **({"repaired": list(repaired)} if repaired else {}),
        **({"problems": problems.facts()} if problems else {}),
    }


def elapsed_ms(started: float) -> float:
    return round((perf_counter() - started) * 1000, 3)
