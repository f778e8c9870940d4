"""The cost of a small read over HTTP compared with the SDK's echo tool, and of ten thousand idle sessions, with bench/."""

import pytest

from bench.server_http import RATIO, SESSION, beside_the_echo, idle, within
from tests.scale import nightly, scaled


@nightly(sampled_by="tests/server/test_http_speed.py::test_a_small_read_is_not_many_times_slower_than_an_echo")
@pytest.mark.alone
@pytest.mark.parametrize("clients", [1, 32])
def test_a_small_read_takes_little_more_than_an_echo(clients: int):
    # The machine may be busy for a moment.
    assert within(beside_the_echo(clients, seconds=0.5, rounds=7)) or within(beside_the_echo(clients, 1.0, rounds=9))


def test_a_small_read_is_not_many_times_slower_than_an_echo():
    assert beside_the_echo(1, seconds=0.3, rounds=2).ratio > RATIO / 4


@pytest.mark.timeout(180)
def test_ten_thousand_idle_sessions_cost_less_than_a_kilobyte_each():
    assert idle(scaled(1_000, 10_000)) < SESSION
