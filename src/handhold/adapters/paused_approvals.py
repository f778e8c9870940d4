"""Approvals where a run stops to ask, and makes the call again with the answer.

The answer approves the change that was shown. If the call would now change something else, because a file changed
meanwhile, the run stops and asks again, unless the answer was ANYWAY.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from handhold.core.plans import digest

if TYPE_CHECKING:
    from handhold.core.ports.approvals import Question

ANYWAY = "anyway"
"""Approves the repeated call even if its change is different."""


def build_payload(question: "Question") -> dict[str, Any]:
    """The question as JSON. `change` identifies the change."""
    what = {
        "tool": question.tool,
        "because": question.because,
        "command": question.command,
        "diff": question.diff,
    }
    # The diff may be truncated and does not show binary content; the id covers the complete change.
    covered = [*sorted(what.items()), question.id]
    return {**what, "change": digest(repr(covered).encode("utf-8", "surrogatepass"))}


def check_answer(answer: object, payload: Mapping[str, Any], *, shown_change: str | None) -> bool | None:
    """Whether `answer` approves the current change; None if it is about another change.

    True approves `shown_change`, which is None if this process does not know it. A string approves the change it names.
    """
    if answer is True:
        return True if shown_change == payload["change"] else None
    if isinstance(answer, str) and answer:
        return True if answer in (ANYWAY, payload["change"]) else None
    return False
