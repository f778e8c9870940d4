"""A thousand concurrent calls over HTTP, fifty of them sleeping commands: how much the others slow down."""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

from bench.load.machine import descendants
from bench.load.runs import at
from bench.load.truth import quiet
from bench.server_http import answered, called, handhold

CALLS, SLEEPERS = 950, 50
TIMES = 3
NAP = 599  # seconds; the time limit of a command is one more


@dataclass(frozen=True)
class Noticed:
    alone: float  # p99 in ms of the concurrent calls, the best of three runs
    among: float
    wrong: list[str]
    calls: int = CALLS
    sleepers: int = SLEEPERS

    def __str__(self) -> str:
        first = (
            f"p99 of {self.calls} reads at once: {self.alone:.0f} ms alone, "
            f"{self.among:.0f} ms among {self.sleepers} sleepers"
        )
        return "\n".join([first, *self.wrong])


def among(top: Path, calls: int = CALLS, sleepers: int = SLEEPERS) -> Noticed:
    root = top / "root"
    root.mkdir()
    for n in range(50):
        (root / f"{n}.py").write_text(f"x = {n}\n" * 20)
    with handhold(root, top / "state", "--calls", str(calls + sleepers)) as server:
        alone, beside, wrong = asyncio.run(measured(server.port, server.process.pid, calls, sleepers))
        wrong += quiet(server.process.pid)
    return Noticed(alone, beside, wrong, calls, sleepers)


async def measured(port: int, pid: int, calls: int, sleepers: int) -> tuple[float, float, list[str]]:
    await slowest(port, calls)  # warm-up: opened, imported, read once
    alone = min([await slowest(port, calls) for _ in range(TIMES)])
    nap = called("bash", {"command": f"sleep {NAP}", "timeout": NAP + 1})
    asleep = [await asyncio.open_connection("127.0.0.1", port) for _ in range(sleepers)]
    for _, writer in asleep:
        writer.write(nap)
    until = time.monotonic() + 60
    while sum(line == f"sleep {NAP} " for line in descendants(pid).values()) < sleepers and time.monotonic() < until:
        await asyncio.sleep(0.1)
    beside = min([await slowest(port, calls) for _ in range(TIMES)])
    running = sum(line == f"sleep {NAP} " for line in descendants(pid).values())
    for _, writer in asleep:
        writer.close()
    return alone, beside, [] if running == sleepers else [f"only {running} of {sleepers} commands were asleep"]


async def slowest(port: int, calls: int) -> float:
    """The 99th percentile in milliseconds of reads that are all sent at once."""
    lines = [await asyncio.open_connection("127.0.0.1", port) for _ in range(calls)]

    async def one(n: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> float:
        began = time.perf_counter()
        writer.write(called("read_file", {"path": f"{n % 50}.py"}))
        await answered(reader)
        return (time.perf_counter() - began) * 1000

    taken = await asyncio.gather(*(one(n, *line) for n, line in enumerate(lines)))
    for _, writer in lines:
        writer.close()
    return at(list(taken), 0.99)
