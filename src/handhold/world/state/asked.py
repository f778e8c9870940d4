"""What every store holds to about questions and answers: how they are named, and how long an answer is good for."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, takewhile

from handhold.core.errors import NothingAsked
from handhold.core.ports import Asked

GOOD_FOR = 24 * 3600.0  # seconds after which an answer that was not used is none
MOST = 1000  # questions that are kept, with their answers
SHORTEST = 8  # letters of an id


def ids(hashes: Collection[str]) -> Mapping[str, str]:
    """By hash, its first letters, as many as tell it from all others."""
    shared = dict.fromkeys(hashes, SHORTEST - 1)
    for one, other in pairwise(sorted(shared)):
        common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
        shared[one], shared[other] = max(shared[one], common), max(shared[other], common)
    return {hash: hash[: common + 1] for hash, common in shared.items()}


def named(questions: Sequence[Asked]) -> list[Asked]:
    """The same, each under its shortest id."""
    ways = ids({each.hash for each in questions})
    return [replace(each, id=ways[each.hash]) for each in questions]


def meant(which: str, questions: Iterable[Asked]) -> Asked:
    """The one question whose id begins like this, if it still waits."""
    wanted = which.lower()
    if len(wanted) < SHORTEST:
        raise NothingAsked(which, f"an id has at least {SHORTEST} letters")
    match [each for each in questions if each.hash.startswith(wanted)]:
        case []:
            raise NothingAsked(which, "nothing was asked under this id, or it was dropped since")
        case [Asked(answer="") as asked]:
            return asked
        case [Asked(answer=answer, by=by)]:
            raise NothingAsked(which, f"it was answered already: {answer}, by {by}")
        case several:
            raise NothingAsked(which, f"{len(several)} questions begin with it; give more of its letters")


def is_over(answer: str, spent: bool, answered: float, *, now: float) -> bool:  # noqa: FBT001 - a row of the table
    """Whether nothing is left of it: the answer was used, or came too long ago (by a clock that may be set back)."""
    return bool(answer) and (bool(spent) or abs(now - answered) > GOOD_FOR)
