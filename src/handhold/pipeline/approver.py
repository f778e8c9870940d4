"""What an approver's answer means. Only a documented consent approves: anything else refuses the call."""

import logging
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any, get_args

from handhold.core.errors import ApproverInvalid, Cancelled
from handhold.core.ports.approvals import ApprovalAnswer, Approver, Question, RunPaused

APPROVING_ANSWERS = ("once", "session", "pattern")

LOG = logging.getLogger("handhold.approvals")

WaitFor = Callable[[Awaitable[Any]], Any]
"""Gives the result of an awaitable, in the thread of the call."""


def find_present_approver(approver: Approver | None) -> Approver | None:
    """The approver, or None if there is none or it says that nobody is there."""
    try:
        return approver if getattr(approver, "present", True) else None
    except Exception:
        LOG.exception("The approver %r cannot say whether it is present, so it is asked", approver)
        return approver


def ask_approver(
    approver: Approver, question: Question, wait: WaitFor, invalid: ApproverInvalid
) -> tuple[ApprovalAnswer | None, str]:
    """What the approver answers, and whom the journal names. `invalid` is raised where that is no answer."""
    try:
        answer = approver(question)
        consent = parse_answer(wait(answer) if isawaitable(answer) else answer)
        return consent, str(getattr(approver, "name", "the approver"))
    except (Cancelled, RunPaused):
        raise
    except Exception as error:
        LOG.exception("The approver %r gave no valid answer, so the call of %s is refused", approver, question.tool)
        raise invalid from error


def parse_answer(answer: object) -> ApprovalAnswer | None:
    """The consent that an approver's answer is. TypeError for what is none: `1` and "yes" approve nothing."""
    if answer is None or isinstance(answer, bool):
        return None if answer is None else "once" if answer else "no"
    text = str.__str__(answer) if isinstance(answer, str) else None  # the characters, whatever a subclass compares to
    for consent in get_args(ApprovalAnswer):
        if text == consent:
            return consent
    raise TypeError(f"an approver answers with a bool, None or one of {get_args(ApprovalAnswer)}, not with {answer!r}")
