"""Asks an approver and reads its answer. Only a documented consent approves; anything else refuses the call."""

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any

from handhold.core.errors import Cancelled
from handhold.core.ports.approvals import Approver, Consent, Question, RunPaused
from handhold.logs import log_error

APPROVING_ANSWERS = (Consent.ONCE, Consent.SESSION, Consent.PATTERN)

WaitFor = Callable[[Awaitable[Any]], Any]
"""Returns the result of an awaitable, in the thread of the call."""


def find_present_approver(approver: Approver | None) -> Approver | None:
    """The approver, or None if there is none or its `present` is false."""
    try:
        return approver if getattr(approver, "present", True) else None
    except Exception as error:  # noqa: BLE001 - the user's own code
        log_error("approvals", f"The approver {approver!r} cannot say whether it is present, so it is asked", error)
        return approver


def ask_approver(
    approver: Approver, question: Question, wait: WaitFor, invalid: Exception
) -> tuple[Consent | None, str]:
    """The approver's answer, and the name that the journal records. Raises `invalid` if it is not an answer."""
    try:
        answer = approver(question)
        consent = parse_answer(wait(answer) if isawaitable(answer) else answer)
        return consent, str(getattr(approver, "name", "the approver"))
    except (Cancelled, RunPaused):
        raise
    except Exception as error:
        problem = f"The approver {approver!r} gave no valid answer, so the call of {question.tool} is refused"
        log_error("approvals", problem, error)
        raise invalid from error


def parse_answer(answer: object) -> Consent | None:
    """An approver's answer as a Consent. TypeError for anything else: `1` and "yes" approve nothing."""
    if answer is None:
        return None
    if isinstance(answer, bool):
        return Consent.ONCE if answer else Consent.NO
    text = str.__str__(answer) if isinstance(answer, str) else None  # the characters, whatever a subclass compares to
    for consent in Consent:
        if text == consent.value:
            return consent
    raise TypeError(f"an approver returns a bool, None, or one of {', '.join(Consent)}, not {answer!r}")
