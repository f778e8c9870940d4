"""Other load on the machine must not cut short what these tests compare."""

import pytest

from handhold.backends.search import exclusions


@pytest.fixture(autouse=True)
def enough_time_for_coverage(monkeypatch: pytest.MonkeyPatch) -> None:
    """A miss has half a second to find out what was left out. A loaded machine may need more for a few files."""
    monkeypatch.setattr(exclusions, "COVERAGE_TIMEOUT_SECONDS", 20.0)
