"""The edit benchmark's small set: no class may get worse, and no wrong write may appear."""

import pytest

from bench.edits import sample
from bench.edits.editor import MATCHINGS
from tests.scale import NIGHTLY


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_no_class_of_edits_got_worse():
    assert sample.main(write=False, matchings=MATCHINGS if NIGHTLY else ["safe"]) == 0
