"""Nothing lost: hubs killed every two seconds, PostgreSQL and SeaweedFS restarted, connections cut at random bytes."""

from pathlib import Path

import pytest

from tests.hub import chaos
from tests.scale import nightly, scaled


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_every_acknowledged_record_and_content_is_there_once_in_order(tmp_path: Path):
    uplinks, seconds, restarts = scaled(12, 200), scaled(20, 600), scaled(1, 5)
    found = chaos.run(tmp_path, uplinks, seconds, restarts=restarts, processes=scaled(2, 8))
    assert found.problems == []
    assert found.records > 10 * uplinks
    assert found.contents > uplinks
    assert found.hub_kills >= seconds / 4
    assert (found.postgres_restarts, found.seaweed_restarts) == (restarts, restarts)
    assert found.cuts > 0
    print(found)


@nightly(sampled_by="tests/hub/test_record_stores.py::test_the_suite_bites")
@pytest.mark.timeout(900)
def test_with_the_compare_and_swap_off_records_land_twice(tmp_path: Path):
    assert chaos.run(tmp_path, 40, 120, restarts=1, processes=4, compare=False).problems
