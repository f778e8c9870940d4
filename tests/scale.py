"""How much a test tries: a sample with every change, everything in `just nightly`."""

import os
from collections import Counter
from collections.abc import Callable, Container, Hashable, Sequence
from typing import Any, TypeVar

import pytest

NIGHTLY = os.environ.get("HANDHOLD_NIGHTLY") == "true"

T = TypeVar("T")


def scaled(sample: int, nightly: int) -> int:
    return nightly if NIGHTLY else sample


def examples(nightly: int) -> int:
    """How many examples a property gets that gets `nightly` of them at night: an eighth, but at least five."""
    return scaled(min(nightly, max(5, nightly // 8)), nightly)


def sampled(values: Sequence[T], many: int, kind: Callable[[Any], Hashable] = lambda _: None) -> list[T]:
    """`many` of `values`, evenly spread and always the same ones, and at least one of each kind; at night, all."""
    return list(values) if NIGHTLY else spread(values, many, kind)


def spread(values: Sequence[T], many: int, kind: Callable[[Any], Hashable] = lambda _: None) -> list[T]:
    kinds: dict[Hashable, list[int]] = {}
    for n, value in enumerate(values):
        kinds.setdefault(kind(value), []).append(n)
    chosen = {of[len(of) // 2] for of in kinds.values()}
    rest = [n for n in range(len(values)) if n not in chosen]
    more = min(len(rest), max(0, many - len(chosen)))
    chosen |= {rest[(2 * n + 1) * len(rest) // (2 * more)] for n in range(more)}
    return [values[n] for n in sorted(chosen)]


def each_value_once(
    combinations: Sequence[Sequence[Hashable]],
    alternating: Container[Hashable] = (),
    used_before: Counter[Hashable] | None = None,
) -> list[int]:
    """Which of these combinations have, together, every value of every parameter; as few as it takes, evenly used.

    Of `alternating` values, such as the users that run a test, not all are needed: the one used least so far is taken.
    """
    used: Counter[tuple[int, Hashable]] = Counter()
    used_before = Counter() if used_before is None else used_before
    chosen: list[int] = []
    left = dict(enumerate(tuple(enumerate(each)) for each in combinations))

    def worth(n: int) -> tuple[int, int, int, int]:
        new = sum(not used[value] for value in left[n] if value[1] not in alternating)
        return new, -sum(used_before[each] for _, each in left[n]), -sum(used[value] for value in left[n]), -n

    while left:
        best = max(left, key=worth)
        if chosen and not worth(best)[0]:
            break
        values = left.pop(best)
        used.update(values)
        used_before.update(each for _, each in values if each in alternating)
        chosen.append(best)
    return sorted(chosen)


def nightly(*, sampled_by: str) -> Any:
    """Marks a test that runs in `just nightly` only. `sampled_by` names the test that samples its promise with every change.

    It is given as `tests/folder/test_file.py::test_name`; `tests/meta/test_scale.py` checks that this test exists and runs.
    """
    return pytest.mark.nightly(sampled_by=sampled_by)
