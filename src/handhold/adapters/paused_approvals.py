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
"""Approves whatever the call will change when it is made again."""


def build_payload(question: "Question") -> dict[str, Any]:
    """The question as JSON can hold it; `change` tells one from another."""
    what = {
        "tool": question.tool,
        "because": question.because,
        "command": question.command,
        "diff": question.diff,
    }
    # The diff may be cut, and shows no byte that is not text: the id covers every change from end to end.
    covered = [*sorted(what.items()), question.id]
    return {**what, "change": digest(repr(covered).encode("utf-8", "surrogatepass"))}


def check_answer(answer: object, payload: Mapping[str, Any], *, shown_change: str | None) -> bool | None:
    """Whether `answer` approves the change that would be made now; None if it is about another one.

    True is about the `shown_change`, None where nobody here remembers; the text of a `change` is about that one.
    """
    if answer is True:
        return True if shown_change == payload["change"] else None
    if isinstance(answer, str) and answer:
        return True if answer in (ANYWAY, payload["change"]) else None
    return False
