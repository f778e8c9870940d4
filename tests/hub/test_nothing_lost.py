"""Nothing lost: hubs killed every two seconds, PostgreSQL and SeaweedFS restarted, connections cut at random bytes."""

from pathlib import Path

import pytest

from tests.hub import chaos
from tests.scale import nightly, scaled


@pytest.mark.slow
@pytest.mark.alone  # it takes both processors
@pytest.mark.timeout(1500)
def test_every_acknowledged_record_and_content_is_there_once_in_order(tmp_path: Path):
    seconds = scaled(120, 600)
    found = chaos.run(tmp_path, uplinks := 200, seconds, restarts=5, processes=8)
    assert found.problems == []
    assert found.records > 10 * uplinks
    assert found.contents > uplinks
    assert found.hub_kills >= seconds / 4
    assert (found.postgres_restarts, found.seaweed_restarts) == (5, 5)
    assert found.cuts > 0
    print(found)


@nightly(sampled_by="tests/hub/test_record_stores.py::test_the_suite_bites")
@pytest.mark.timeout(900)
def test_with_the_compare_and_swap_off_records_land_twice(tmp_path: Path):
    assert chaos.run(tmp_path, 40, 120, restarts=1, processes=4, compare=False).problems
