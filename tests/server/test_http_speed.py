"""The cost of a small read over HTTP compared with the SDK's echo tool, and of ten thousand idle sessions, with bench/."""

import pytest

from bench.server_http import SESSION, beside_the_echo, idle, within


@pytest.mark.alone
@pytest.mark.parametrize("clients", [1, 32])
def test_a_small_read_takes_little_more_than_an_echo(clients: int):
    # The machine may be busy for a moment.
    assert within(beside_the_echo(clients, seconds=0.5, rounds=7)) or within(beside_the_echo(clients, 1.0, rounds=9))


@pytest.mark.alone
@pytest.mark.timeout(180)
def test_ten_thousand_idle_sessions_cost_less_than_a_kilobyte_each():
    assert idle(10_000) < SESSION
