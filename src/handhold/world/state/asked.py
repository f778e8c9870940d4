"""What every store holds to about questions and answers: their ids, how many may wait, and how long they are good for.

An id is random: whoever chooses what is asked cannot choose it, nor make two questions share one. A question that waits
is never evicted by another. Where there is no room for one more, the new one is refused.
"""

import secrets
from collections.abc import Iterable
from typing import get_args

from handhold.core.errors import NothingAsked
from handhold.core.ports import Asked, Consent

GOOD_FOR = 24 * 3600.0  # seconds after which an answer that was not used is none
UNANSWERED_FOR = 7 * 24 * 3600.0  # seconds after which a question that nobody answered is dropped
MOST = 1000  # questions that wait, of all sessions
MOST_OF_SESSION = 100  # and of one
HELD = 32 * 1024 * 1024  # bytes of questions that wait, of all sessions; a long diff is a large question
HELD_OF_SESSION = 8 * 1024 * 1024  # and of one
MOST_OVER = 1000  # questions kept after their answer was used, to say who gave it

LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"  # without i, l, o and u
GROUPS, GROUP = 3, 4  # 60 bits
AS_TYPED = str.maketrans("ilo", "110", "-")


def new_id() -> str:
    """Random and easy to type: `k7fq-9x2m-w4tz`."""
    return "-".join("".join(secrets.choice(LETTERS) for _ in range(GROUP)) for _ in range(GROUPS))


def meant(which: str, questions: Iterable[Asked]) -> Asked:
    """The one question that has this id or this hash, if it still waits."""
    typed = which.lower().translate(AS_TYPED)
    match [each for each in questions if typed == each.id.translate(AS_TYPED) or which == each.hash]:
        case [Asked(answer="") as asked]:
            return asked
        case [Asked(answer=answer, by=by)]:
            raise NothingAsked(which, f"it was answered already: {answer}, by {by}")
        case []:
            raise NothingAsked(which, "nothing was asked under this id, or it was dropped since")
        case several:
            raise NothingAsked(which, f"{len(several)} questions have it")


def check_answer(answer: str) -> None:
    """ValueError for what is no documented consent: it would otherwise be kept, and read as one."""
    if answer not in get_args(Consent):
        raise ValueError(f"an answer is one of {get_args(Consent)}, not {answer!r}")


def has_room(session: tuple[int, int], total: tuple[int, int], size: int) -> bool:
    """Whether a question of this many bytes may wait too, beside so many questions of so many bytes."""
    return (
        session[0] < MOST_OF_SESSION
        and total[0] < MOST
        and session[1] + size <= HELD_OF_SESSION
        and total[1] + size <= HELD
    )


def is_over(answer: str, spent: bool, answered: float, at: float, *, now: float) -> bool:  # noqa: FBT001 - a row
    """Whether nothing is left of it: the answer was used, or it is too long ago (by a clock that may be set back)."""
    if not answer:
        return abs(now - at) > UNANSWERED_FOR
    return bool(spent) or abs(now - answered) > GOOD_FOR
