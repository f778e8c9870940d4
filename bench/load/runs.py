"""Two runs: one kills clients, the other kills the server."""

import json
import os
import random
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.load.client import PATIENCE, Slot, begun
from bench.load.machine import adopt_orphans, bury, descendants, descriptors, mounted, resident
from bench.load.server import Server, prepared, served
from bench.load.truth import Ledgers, left, quiet, untrue
from handhold.backends.shell.orphans import kill_orphans

SAMPLE = 5.0  # seconds
WARM, HALF = 0.2, 0.5  # share of the run after which memory must be flat
ENDING = 10.0  # seconds for the leftovers of a killed server to end by themselves


@dataclass(frozen=True)
class Sample:
    minute: float
    memory: float  # KB
    descriptors: int

    def __str__(self) -> str:
        return f"{self.memory / 1024:8.1f} MB {self.descriptors:5} descriptors"


@dataclass
class Crowd:
    """The clients of a run, one process per slot at a time."""

    slots: list[Slot]
    dice: random.Random
    running: dict[Slot, int] = field(default_factory=dict)

    def begin(self, slot: Slot) -> None:
        self.running[slot] = begun(slot, random.Random(self.dice.random()))

    def kill_one(self) -> None:
        slot = self.dice.choice(self.slots)
        os.kill(self.running[slot], signal.SIGKILL)
        os.waitpid(self.running[slot], 0)
        self.begin(slot)

    def finish(self) -> list[str]:
        """Let each client finish its call, and report those that crashed."""
        (self.slots[0].top / "stop").touch()
        ended = {slot: os.waitpid(pid, 0)[1] for slot, pid in self.running.items()}
        self.running.clear()
        return [f"client {slot.name} broke down" for slot, status in ended.items() if status]

    def answered(self) -> list[str]:
        """Wait until some client gets an answer, and report if none does."""
        before, until = self._written, time.monotonic() + PATIENCE
        while self._written == before and time.monotonic() < until:
            time.sleep(0.01)
        return [] if self._written > before else ["nobody got an answer"]

    @property
    def _written(self) -> int:
        return sum(slot.ledger.stat().st_size for slot in self.slots)

    @property
    def ledgers(self) -> Ledgers:
        return {slot: [json.loads(line) for line in slot.ledger.read_text().splitlines()] for slot in self.slots}


@contextmanager
def crowded(slots: list[Slot], seed: int) -> Generator[Crowd]:
    crowd = Crowd(slots, random.Random(seed))
    try:
        for slot in slots:
            crowd.begin(slot)
        yield crowd
    finally:
        for pid in crowd.running.values():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def slots_of(clients: int, top: Path, port: int, pause: float) -> list[Slot]:
    """One in five uses the dialect claude; every other one uses the revision without sessions."""
    tokens = json.loads((top / "tokens.json").read_text())
    dialects = ["claude" if n % 5 == 4 else "handhold" for n in range(clients)]
    return [
        Slot(f"c{n:02}", dialect, n % 2 == 0, top, port, tokens[dialect], pause) for n, dialect in enumerate(dialects)
    ]


# --- clients that are killed


@dataclass(frozen=True)
class Report:
    """The observations. `wrong` lists the violations: empty if all is well."""

    seconds: float
    killed: int
    ledgers: Ledgers
    first: Sample  # before any client
    samples: list[Sample]
    last: Sample  # after the last client
    journal: float  # MB
    wrong: list[str]

    @property
    def slope(self) -> float:
        """KB per minute, after warm-up."""
        return slope(self.warm)

    @property
    def warm(self) -> list[Sample]:
        return self.after(WARM)

    def after(self, part: float) -> list[Sample]:
        return [each for each in self.samples if each.minute >= self.samples[-1].minute * part]

    def __str__(self) -> str:
        warm, most = self.warm[0], max(each.descriptors for each in self.warm)
        return "\n".join(
            [
                f"{self.killed} clients killed in {self.seconds:.0f} s",
                *told_of(self.ledgers, self.seconds),
                f"memory: {self.first.memory / 1024:.1f} MB at first, {warm.memory / 1024:.1f} MB warm, "
                f"{self.last.memory / 1024:.1f} MB at the end, {self.slope:+.0f} KB a minute, "
                f"{slope(self.after(HALF)):+.0f} in the second half",
                f"descriptors: {self.first.descriptors} at first, {most} at most, {self.last.descriptors} at the end; "
                f"journal {self.journal:.1f} MB",
                *told_wrong(self.wrong),
            ]
        )


def slope(samples: list[Sample]) -> float:
    """KB per minute, by least squares."""
    points = [(each.minute, each.memory) for each in samples]
    x, y = (sum(each) / len(points) for each in zip(*points, strict=True))
    spread = sum((each[0] - x) ** 2 for each in points)
    return sum((each[0] - x) * (each[1] - y) for each in points) / spread if spread else 0.0


def loaded(
    top: Path, *, minutes: float, clients: int, pause: float, seed: int, told: Callable[[str], object] = str
) -> Report:
    """Kill a client every second, and replace it at once."""
    adopt_orphans()
    mounts, killed, samples = mounted(), 0, list[Sample]()
    write_tokens(top)
    with served(top) as server:
        first = sampled(server, 0)
        with crowded(slots_of(clients, top, server.port, pause), seed) as crowd:
            start = time.monotonic()
            until = start + minutes * 60
            while (now := time.monotonic()) < until:
                if not samples or now - start - samples[-1].minute * 60 >= SAMPLE:
                    samples.append(sampled(server, now - start))
                    if len(samples) % 12 == 0:
                        told(f"{now - start:6.0f} s {samples[-1]}")
                time.sleep(max(0.0, min(until, now + 1) - time.monotonic()))
                crowd.kill_one()
                killed += 1
                bury(spare=crowd.running.values())
            wrong = crowd.finish()
            seconds = time.monotonic() - start
        wrong += quiet(server.pid)
        last = sampled(server, seconds)
        if status := server.stop():
            wrong.append(f"the server ended with {status}")
    wrong += [*left(top, mounts), *untrue(top, crowd.ledgers)]
    journal = sum(each.stat().st_size for each in top.rglob("state.db")) / 1e6
    return Report(seconds, killed, crowd.ledgers, first, samples, last, journal, wrong)


def sampled(server: Server, seconds: float) -> Sample:
    return Sample(seconds / 60, resident(server.pid), descriptors(server.pid))


# --- a server that is killed


@dataclass(frozen=True)
class Survival:
    rounds: int
    seconds: float
    cut: int  # calls that had to be resent
    ledgers: Ledgers
    wrong: list[str]

    def __str__(self) -> str:
        first = f"{self.rounds} servers killed in {self.seconds:.0f} s, {self.cut} calls sent again for it"
        return "\n".join([first, *told_of(self.ledgers, self.seconds), *told_wrong(self.wrong)])


def survived(top: Path, *, rounds: int, clients: int, seed: int, told: Callable[[str], object] = str) -> Survival:
    """Kill the server at a random moment, with calls in progress, and restart it on the same state."""
    adopt_orphans()
    mounts, dice, wrong = mounted(), random.Random(seed), list[str]()
    write_tokens(top)
    with served(top) as first:
        port = first.port
    start = time.monotonic()
    with crowded(slots_of(clients, top, port, 0.0), seed) as crowd:
        for n in range(rounds):
            with served(top, port=port) as server:
                wrong += crowd.answered()
                time.sleep(dice.uniform(0, 1))
                server.stop(signal.SIGKILL)
            wrong += survivors(set(crowd.running.values()))
            if n % 25 == 24:
                told(f"{n + 1} rounds, {len(wrong)} wrong")
        with served(top, port=port) as server:
            wrong += crowd.finish()
            wrong += quiet(server.pid)
            server.stop()
    seconds = time.monotonic() - start
    wrong += [*left(top, mounts), *untrue(top, crowd.ledgers)]
    cut = sum(said.get("tries", 1) > 1 for lines in crowd.ledgers.values() for said in lines)
    return Survival(rounds, seconds, cut, crowd.ledgers, wrong)


def survivors(clients: set[int]) -> list[str]:
    """Processes of a killed server, and those that still run after the grace period and the next shell's cleanup.

    A process that was just starting may not be set to die with its parent yet; the next shell ends it.
    """
    until = time.monotonic() + ENDING
    while True:
        kill_orphans()
        bury(spare=clients)
        rest = {pid: line for pid, line in descendants(os.getpid()).items() if pid not in clients}
        if not rest or time.monotonic() > until:
            return [f"outlived its server: {line}" for line in rest.values()]
        time.sleep(0.02)


# --- text


def write_tokens(top: Path) -> None:
    (top / "tokens.json").write_text(json.dumps(prepared(top)))


def told_of(ledgers: Ledgers, seconds: float) -> list[str]:
    answers = [said for lines in ledgers.values() for said in lines if "ok" in said]
    taken: dict[str, list[float]] = defaultdict(list)
    for said in answers:
        taken[said["tool"]].append(said["ms"])
    refused = Counter(said["code"] for said in answers if not said["ok"])
    changes = sum(said["ok"] and bool(said["mark"]) for said in answers)
    return [
        f"{len(answers)} calls, {len(answers) / seconds:.1f} a second",
        f"{'tool':<16}{'calls':>8}{'p50 ms':>10}{'p99 ms':>10}",
        *(f"{tool:<16}{len(ms):>8}{at(ms, 0.5):>10.1f}{at(ms, 0.99):>10.1f}" for tool, ms in sorted(taken.items())),
        "refused: " + (", ".join(f"{code} {count}" for code, count in refused.most_common()) or "nothing"),
        f"{changes} changes acknowledged, {sum(said['again'] for said in answers)} calls sent again by a successor",
    ]


def told_wrong(wrong: list[str]) -> list[str]:
    return [*(f"WRONG: {each}" for each in wrong[:40]), f"wrong: {len(wrong)}"]


def at(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]
