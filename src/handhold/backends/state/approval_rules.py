"""What every store holds to about questions and answers: their ids, how many may wait, and how long they are good for.

An id is random: whoever chooses what is asked cannot choose it, nor make two questions share one. A question that waits
is never evicted by another. Where there is no room for one more, the new one is refused.
"""

import secrets
from collections.abc import Iterable
from typing import get_args

from handhold.core.errors import NoPendingApproval
from handhold.core.ports.approvals import ApprovalAnswer, PendingApproval

ANSWER_TTL_SECONDS = 24 * 3600.0  # seconds after which an answer that was not used is none
PENDING_TTL_SECONDS = 7 * 24 * 3600.0  # seconds after which a question that nobody answered is dropped
MAX_PENDING = 1000  # questions that wait, of all sessions
MAX_PENDING_PER_SESSION = 100  # and of one
MAX_PENDING_BYTES = 32 * 1024 * 1024  # bytes of questions that wait, of all sessions; a long diff is a large question
MAX_PENDING_BYTES_PER_SESSION = 8 * 1024 * 1024  # and of one
MAX_CLOSED_KEPT = 1000  # questions kept after their answer was used, to say who gave it

ID_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # without i, l, o and u
ID_GROUPS, ID_GROUP_LENGTH = 3, 4  # 60 bits
TYPED_ID_TABLE = str.maketrans("ilo", "110", "-")


def new_id() -> str:
    """Random and easy to type: `k7fq-9x2m-w4tz`."""
    return "-".join("".join(secrets.choice(ID_ALPHABET) for _ in range(ID_GROUP_LENGTH)) for _ in range(ID_GROUPS))


def find_pending(id_or_hash: str, questions: Iterable[PendingApproval]) -> PendingApproval:
    """The one question that has this id or this hash, if it still waits."""
    typed = id_or_hash.lower().translate(TYPED_ID_TABLE)
    match [each for each in questions if typed == each.id.translate(TYPED_ID_TABLE) or id_or_hash == each.hash]:
        case [PendingApproval(answer="") as pending]:
            return pending
        case [PendingApproval(answer=answer, by=by)]:
            raise NoPendingApproval(id_or_hash, f"it was answered already: {answer}, by {by}")
        case []:
            raise NoPendingApproval(id_or_hash, "nothing was asked under this id, or it was dropped since")
        case several:
            raise NoPendingApproval(id_or_hash, f"{len(several)} questions have it")


def check_answer(answer: str) -> None:
    """ValueError for what is no documented consent: it would otherwise be kept, and read as one."""
    if answer not in get_args(ApprovalAnswer):
        raise ValueError(f"an answer is one of {get_args(ApprovalAnswer)}, not {answer!r}")


def has_room(session: tuple[int, int], total: tuple[int, int], size: int) -> bool:
    """Whether a question of this many bytes may wait too, beside so many questions of so many bytes."""
    return (
        session[0] < MAX_PENDING_PER_SESSION
        and total[0] < MAX_PENDING
        and session[1] + size <= MAX_PENDING_BYTES_PER_SESSION
        and total[1] + size <= MAX_PENDING_BYTES
    )


def is_closed(answer: str, spent: bool, answered: float, at: float, *, now: float) -> bool:  # noqa: FBT001 - a row
    """Whether nothing is left of it: the answer was used, or it is too long ago (by a clock that may be set back)."""
    if not answer:
        return abs(now - at) > PENDING_TTL_SECONDS
    return bool(spent) or abs(now - answered) > ANSWER_TTL_SECONDS
