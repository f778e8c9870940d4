"""E-1 … E-20: everyday work has the same result through the tool as in bash, and can be undone and redone."""

from typing import Any

import pytest

from tests.everyday.runner import missing, read_known, read_workloads, run_here
from tests.scale import sampled
from tests.suites.machine import has_shadows

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.slow,
    pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine"),
]

EVERY = read_workloads()
IN_CI = [each for each in EVERY if each.get("ci")]
SHOW_ALL_KNOWN = ("git-merge", "git-push-bare")


@pytest.mark.parametrize("workload", sampled(IN_CI, 8, lambda each: each["tag"]), ids=lambda each: each["name"])
def test_everyday_work_comes_out_as_in_bash_and_can_be_taken_back(workload: dict[str, Any]):
    if absent := missing(workload):
        pytest.skip(f"not installed: {', '.join(absent)}")
    (row,) = run_here([workload])
    assert row.unknown == {}
    assert row.resolved == [], "the difference is gone: remove it from the data and from docs/concepts/commands.md"


def test_a_difference_that_many_workloads_have_is_still_there():
    rows = run_here([each for each in EVERY if each["name"] in SHOW_ALL_KNOWN])
    assert set(read_known()) <= {aspect for row in rows for aspect in row.found}, (
        "a difference is gone: remove it from known.toml and from docs/concepts/commands.md"
    )


def test_there_are_a_hundred_workloads_and_twenty_of_them_need_nothing_from_elsewhere():
    assert len(EVERY) >= 100
    assert len(IN_CI) >= 20
    assert len({each["name"] for each in EVERY}) == len(EVERY)
    assert [each["name"] for each in IN_CI if "container" in each] == []
