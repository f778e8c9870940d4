"""Rules for pending approvals that every store follows: ids, how many may wait, and how long they stay valid.

An id is random: whoever chooses what is asked can neither choose the id nor make two questions share one. A pending
question is never evicted. If there is no room, a new one is refused.
"""

import secrets
from collections.abc import Iterable

from handhold.core.errors import NoPendingApproval
from handhold.core.ports.approvals import Consent, PendingApproval

ANSWER_TTL_SECONDS = 24 * 3600.0  # an unused answer expires
PENDING_TTL_SECONDS = 7 * 24 * 3600.0  # an unanswered question is dropped
MAX_PENDING = 1000  # of all sessions
MAX_PENDING_PER_SESSION = 100
MAX_PENDING_BYTES = 32 * 1024 * 1024  # of all sessions; a long diff makes a large question
MAX_PENDING_BYTES_PER_SESSION = 8 * 1024 * 1024
MAX_CLOSED_KEPT = 1000  # kept after the answer was used, to show who gave it

ID_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # without i, l, o and u
ID_GROUPS, ID_GROUP_LENGTH = 3, 4  # 60 bits
TYPED_ID_TABLE = str.maketrans("ilo", "110", "-")


def new_id() -> str:
    """Random and easy to type: `k7fq-9x2m-w4tz`."""
    return "-".join("".join(secrets.choice(ID_ALPHABET) for _ in range(ID_GROUP_LENGTH)) for _ in range(ID_GROUPS))


def find_pending(id_or_hash: str, questions: Iterable[PendingApproval]) -> PendingApproval:
    """The only pending question with this id or hash."""
    typed = id_or_hash.lower().translate(TYPED_ID_TABLE)
    match [each for each in questions if typed == each.id.translate(TYPED_ID_TABLE) or id_or_hash == each.hash]:
        case [PendingApproval(answer="") as pending]:
            return pending
        case [PendingApproval(answer=answer, by=by)]:
            raise NoPendingApproval(id_or_hash, f"it was already answered: {answer}, by {by}")
        case []:
            raise NoPendingApproval(id_or_hash, "no question has this id, or it has been dropped")
        case several:
            raise NoPendingApproval(id_or_hash, f"{len(several)} questions match it")


def parse_answer(answer: str) -> Consent:
    """Raise ValueError for an undocumented answer: it would otherwise be stored, and read as consent."""
    try:
        return Consent(answer)
    except ValueError:
        raise ValueError(f"the answer must be one of {', '.join(Consent)} (got {answer!r})") from None


def has_room(session: tuple[int, int], total: tuple[int, int], size: int) -> bool:
    """Whether a question of `size` bytes fits, given the number and bytes of those already pending."""
    return (
        session[0] < MAX_PENDING_PER_SESSION
        and total[0] < MAX_PENDING
        and session[1] + size <= MAX_PENDING_BYTES_PER_SESSION
        and total[1] + size <= MAX_PENDING_BYTES
    )


def is_closed(answer: str, spent: bool, answered: float, at: float, *, now: float) -> bool:  # noqa: FBT001 - a row
    """Whether it is over: the answer was used, or it has expired (by a clock that may be set back)."""
    if not answer:
        return abs(now - at) > PENDING_TTL_SECONDS
    return bool(spent) or abs(now - answered) > ANSWER_TTL_SECONDS
