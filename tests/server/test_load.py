"""A server under load: a thousand calls in flight, and killed clients. `just load 30` runs longer."""

import asyncio
from pathlib import Path
from statistics import quantiles
from time import perf_counter
from typing import Any

import pytest

from bench.load.runs import loaded
from bench.load.sleepers import among
from bench.load.words import WORDS
from handhold.factory import choose_dialect
from tests.scale import nightly, scaled
from tests.server.hosting import Nap, Shop, talk

CALLS, SLEEPERS = scaled(300, 950), scaled(10, 50)


async def slowest(client: Any) -> float:
    """The 99th percentile of the response time of concurrent reads, in seconds."""

    async def one(n: int) -> float:
        started = perf_counter()
        assert not (await client.call_tool("read_file", {"path": f"{n % 50}.py"})).is_error
        return perf_counter() - started

    return quantiles(await asyncio.gather(*(one(n) for n in range(CALLS))), n=100)[-1]


@pytest.mark.alone
@pytest.mark.timeout(180)
def test_fifty_sleeping_commands_do_not_stall_950_reads(shop: Shop):
    for n in range(50):
        (shop.root / f"{n}.py").write_text(f"x = {n}\n" * 20)
    nap = Nap(shop)

    async def run() -> tuple[list[float], list[float]]:
        alone: list[float] = []
        among: list[float] = []
        async with talk(shop.serving()) as client:
            await slowest(client)  # warm up: imports and first read
            alone += [await slowest(client) for _ in range(3)]
            asleep = [
                asyncio.ensure_future(client.call_tool("bash", {"command": nap.command})) for _ in range(SLEEPERS)
            ]
            while nap.asleep < SLEEPERS:
                await asyncio.sleep(0.1)
            among += [await slowest(client) for _ in range(3)]
            assert not any(each.done() for each in asleep)
            for each in asleep:
                each.cancel()
            await asyncio.wait(asleep)
        return alone, among

    alone, among = asyncio.run(run())
    print(f"p99 of {CALLS} reads: {min(alone):.3f} s alone, {min(among):.3f} s among {SLEEPERS} sleeping commands")
    assert min(among) < 3 * min(alone) + 0.1
    assert not nap.left


@nightly(sampled_by="tests/server/test_load.py::test_fifty_sleeping_commands_do_not_stall_950_reads")
@pytest.mark.alone
@pytest.mark.timeout(240)
def test_fifty_sleeping_commands_do_not_stall_950_reads_over_http_either(tmp_path: Path):
    noticed = among(tmp_path, CALLS, SLEEPERS)
    print(noticed)
    assert not noticed.wrong
    assert noticed.among < 3 * noticed.alone + 100


@nightly(
    sampled_by="tests/server/test_killed.py::test_a_call_that_is_sent_again_to_the_next_server_happens_once_and_nothing_outlives_the_first"
)
@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.timeout(3_000)
def test_load_with_a_client_killed_every_second_leaves_nothing_and_loses_nothing(tmp_path: Path):
    clients, minutes = 32, 10.0
    report = loaded(tmp_path, minutes=minutes, clients=clients, pause=0.2, seed=1)
    print(report)
    assert not report.wrong
    assert report.killed >= 30 * minutes
    assert {said["tool"] for lines in report.ledgers.values() for said in lines if "ok" in said} == {
        spec.name for dialect in WORDS for spec in choose_dialect(dialect, "").specs
    }
    # Memory grows with the number of open sessions, not with the number of calls.
    assert report.last.descriptors - report.first.descriptors <= 6 * clients
    assert report.last.memory - report.first.memory < clients * 8 * 1024
