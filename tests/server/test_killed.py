"""The server is killed while calls run. `python -m bench.load --kill-server 300` repeats it more often."""

from pathlib import Path

import pytest

from bench.load.runs import survived
from tests.scale import scaled

ROUNDS = scaled(1, 60)


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.timeout(scaled(600, 3_000))
def test_a_call_that_is_sent_again_to_the_next_server_happens_once_and_nothing_outlives_the_first(tmp_path: Path):
    survival = survived(tmp_path, rounds=ROUNDS, clients=8, seed=1)
    print(survival)
    assert not survival.wrong
    assert survival.cut >= ROUNDS, "they were killed while nobody called"
