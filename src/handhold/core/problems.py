"""Problems: errors that a change made in the files it touched."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

MAX_TOLD = 5  # problems named in a reply; the others are counted


@dataclass(frozen=True)
class Problem:
    """An error at a line of a file as it is now. `line` and `column` start with 1; a column of 0 is not known."""

    path: str
    line: int
    column: int
    message: str
    text: str = field(repr=False)  # the line
    source: str = "syntax"  # or the name of a checker
    cell: str = ""  # of a notebook; `line` is then one of the cell's


@dataclass(frozen=True)
class Problems:
    """What a change broke. Whatever was broken before is not in it."""

    told: tuple[Problem, ...] = ()
    total: int = 0  # including those that are not told
    files: int = 0  # with problems
    unchecked: tuple[str, ...] = ()  # notes on files that were not checked, such as those that are too large

    def __bool__(self) -> bool:
        return bool(self.told or self.unchecked)

    def merge(self, other: "Problems") -> "Problems":
        return Problems(
            (*self.told, *other.told)[:MAX_TOLD],
            self.total + other.total,
            self.files + other.files,
            (*self.unchecked, *other.unchecked),
        )

    def facts(self) -> dict[str, Any]:
        return {
            "told": [asdict(each) for each in self.told],
            "total": self.total,
            "files": self.files,
            "unchecked": list(self.unchecked),
        }


NO_PROBLEMS = Problems()


def load_problems(data: Mapping[str, Any]) -> Problems:
    """The problems that the data of a reply names, also one that refused a change for them."""
    if not data.get("problems"):
        return NO_PROBLEMS
    is_refusal = isinstance(data["problems"], list)
    facts: dict[str, Any] = {**data, "told": data["problems"]} if is_refusal else data["problems"]
    told = tuple(Problem(**each) for each in facts["told"])
    return Problems(told, int(facts["total"]), int(facts["files"]), tuple(map(str, facts.get("unchecked", ()))))


def select(found: Sequence[Sequence[Problem]], unchecked: Sequence[str] = ()) -> Problems:
    """The problems to tell, of those in each file: the first of every file, then the second, and so on."""
    ranked = sorted(
        ((rank, number, problem) for number, each in enumerate(found) for rank, problem in enumerate(each)),
        key=lambda each: each[:2],
    )
    told = tuple(problem for _, _, problem in ranked[:MAX_TOLD])
    return Problems(told, len(ranked), sum(map(bool, found)), tuple(unchecked))
