"""A thousand calls at once over HTTP, fifty of them commands that sleep: what the others notice of it."""

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
NAP = 599  # seconds, and the limit of a command is one more


@dataclass(frozen=True)
class Noticed:
    alone: float  # p99 in ms: of the calls at once, the best of three times
    among: float
    wrong: list[str]

    def __str__(self) -> str:
        first = (
            f"p99 of {CALLS} reads at once: {self.alone:.0f} ms alone, {self.among:.0f} ms among {SLEEPERS} sleepers"
        )
        return "\n".join([first, *self.wrong])


def among(top: Path) -> Noticed:
    root = top / "root"
    root.mkdir()
    for n in range(50):
        (root / f"{n}.py").write_text(f"x = {n}\n" * 20)
    with handhold(root, top / "state", "--calls", str(CALLS + SLEEPERS)) as server:
        alone, beside, wrong = asyncio.run(measured(server.port, server.process.pid))
        wrong += quiet(server.process.pid)
    return Noticed(alone, beside, wrong)


async def measured(port: int, pid: int) -> tuple[float, float, list[str]]:
    await slowest(port)  # opened, imported, read once
    alone = min([await slowest(port) for _ in range(TIMES)])
    nap = called("bash", {"command": f"sleep {NAP}", "timeout": NAP + 1})
    asleep = [await asyncio.open_connection("127.0.0.1", port) for _ in range(SLEEPERS)]
    for _, writer in asleep:
        writer.write(nap)
    until = time.monotonic() + 60
    while sum(line == f"sleep {NAP} " for line in descendants(pid).values()) < SLEEPERS and time.monotonic() < until:
        await asyncio.sleep(0.1)
    beside = min([await slowest(port) for _ in range(TIMES)])
    running = sum(line == f"sleep {NAP} " for line in descendants(pid).values())
    for _, writer in asleep:
        writer.close()
    return alone, beside, [] if running == SLEEPERS else [f"only {running} of {SLEEPERS} commands were asleep"]


async def slowest(port: int) -> float:
    """Milliseconds in which 99 of 100 reads are answered, of all that are sent at once."""
    lines = [await asyncio.open_connection("127.0.0.1", port) for _ in range(CALLS)]

    async def one(n: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> float:
        began = time.perf_counter()
        writer.write(called("read_file", {"path": f"{n % 50}.py"}))
        await answered(reader)
        return (time.perf_counter() - began) * 1000

    taken = await asyncio.gather(*(one(n, *line) for n, line in enumerate(lines)))
    for _, writer in lines:
        writer.close()
    return at(list(taken), 0.99)
