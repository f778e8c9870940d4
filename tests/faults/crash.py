"""Kill a commit at every system call, and the recovery after it, and check what is left.

    python -m tests.faults.crash [--full] [--patch | --command | --undo]

Each run is a fork of a process that has imported everything, traced by killat. Stops that left the same
files and the same journal are one case for the recovery: what it does next is the same.
"""

import argparse
import atexit
import ctypes
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from multiprocessing import get_context
from pathlib import Path

from handhold import Toolbox
from handhold.backends.files.commit import Committer
from handhold.backends.files.staging_area import StagingArea, remove_tree
from handhold.backends.files.workspace import Workspace
from handhold.backends.state.sqlite import SqliteStore
from handhold.core.plans import FileChange
from handhold.core.ports.journal import Call, CallDecision, Outcome
from handhold.pipeline.transactions import recover
from tests.faults import commands, trees
from tests.faults.trees import Tree, tree

HERE = Path(__file__).parent
MARK = "/KILLAT_MARK"
PTRACER_ANY = 2**64 - 1
PR_SET_PTRACER = 0x59616D61


def unavailable() -> str:
    """Why killat cannot be used here; empty if it can."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return "killat reads the registers of x86-64 Linux"
    return "" if shutil.which("cc") else "killat must be compiled, and there is no cc"


@cache
def killat() -> Path:
    folder = tempfile.mkdtemp(prefix="killat-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    Path(folder).chmod(0o755)  # other users that a test switches to may use it
    target = Path(folder) / "killat"
    subprocess.run(["cc", "-O2", "-o", target, HERE / "killat.c"], check=True)
    return target


@dataclass
class Bench:
    """A workspace and its state, recreated for each run, always at the same place."""

    home: Path
    exchange: bool = True
    root: Path = field(init=False)
    state: Path = field(init=False)

    def __post_init__(self) -> None:
        # Paths in the journal are absolute, so every run of a bench uses the same ones.
        self.home = Path(os.path.realpath(self.home))
        self.root = self.home / "root"
        self.state = self.home / "state"
        self._empty = self.home / "empty"
        SqliteStore(self._empty).close()
        self.lay()
        self.old = tree(self.root)
        self.commit()
        self.new = tree(self.root)

    def lay(self) -> None:
        self._fresh(self.root)
        self.root.mkdir()
        trees.lay(self.root)
        self._fresh(self.state)
        shutil.copytree(self._empty, self.state)

    def save(self, stop: int) -> Callable[[], None]:
        """Save what a kill at this stop left; the returned function restores it."""
        aside = self.home / "aside"
        self._fresh(aside)
        copied(self.root, aside / "root")
        copied(self.state, aside / "state")

        def bring_back() -> None:
            for name, place in (("root", self.root), ("state", self.state)):
                self._fresh(place)
                copied(aside / name, place)

        return bring_back

    def _fresh(self, folder: Path) -> None:
        if folder.exists():
            above = os.open(folder.parent, os.O_RDONLY)
            remove_tree(folder.name, above)  # which works in an unprivileged user's closed folders too
            os.close(above)

    @contextmanager
    def open(self) -> Iterator[tuple[Workspace, SqliteStore]]:
        store = SqliteStore(self.state)
        files = Workspace([self.root], store)
        files._committer = Committer(files, store, exchange=self.exchange)
        try:
            yield files, store
        finally:
            files.close()
            store.close()

    def commit(self) -> None:
        with self.open() as (files, store):
            changes = self.changes()
            seq = store.begin(Call("session", "", "", "patch", "{}", "none"))
            os.access(MARK, os.F_OK)
            with files.transaction(changes) as transaction:
                store.record_intent(seq, transaction.id, transaction.files, decision=CallDecision("allowed"))
                transaction.apply()
                store.record_outcome(seq, Outcome("success", None, 0.0, None), durable=True)
                transaction.clean_up()
                store.mark_cleaned_up(seq)
            os.access(MARK, os.F_OK)

    def changes(self) -> list[FileChange]:
        return trees.twenty(self.root)

    def recover(self) -> None:
        os.access(MARK, os.F_OK)
        with self.open() as (files, store):
            recover(files, store)
        os.access(MARK, os.F_OK)

    def standing(self) -> str:
        """`old`, `new`, or what is wrong; after recovery only the first two are right."""
        now = tree(self.root)
        if now in (self.old, self.new):
            with self.open() as (_, store):
                if problem := store.verify().problem:
                    return problem
                return "still broken" if store.incomplete_transactions() else "old" if now == self.old else "new"
        return difference(now, self.old, self.new)

    def case(self) -> object:
        """What a recovery finds, without the random part of names."""
        with self.open() as (_, store):
            settled = tuple(broken.is_recorded for broken in store.incomplete_transactions())
        found = tree(self.root).items()
        return settled, tuple(sorted((re.sub("-[0-9a-f]{16}-", "-id-", path), what) for path, what in found))


class Patching(Bench):
    """The same twenty files through the toolbox: one call of apply_patch."""

    def commit(self) -> None:
        text = trees.patch()
        with self.open() as (files, store):
            box = Toolbox.on(files, store, dialect="codex", session="session")
            os.access(MARK, os.F_OK)
            reply = box.call("apply_patch", {"input": text}, call_id="patch")
            os.access(MARK, os.F_OK)
            assert reply.status == "success", reply.text

    def once(self) -> bool:
        """Whether the same call, sent again, ends in the new state and is done once."""
        self.commit()
        with self.open() as (_, store):
            done = [entry for entry in store.entries() if entry.succeeded]
        return len(done) == 1 and self.standing() == "new"


class Commanding(Bench):
    """A command's changes to fifty paths, committed from its slots."""

    def lay(self) -> None:
        self._fresh(self.root)
        self.root.mkdir()
        commands.lay_fifty(self.root)
        self._fresh(self.state)
        shutil.copytree(self._empty, self.state)
        (self.state / "shelf").mkdir(mode=0o700)
        self._shelf = StagingArea(str(self.state / "shelf"))
        self._command = commands.fifty(commands.Command(self._shelf, self.root))
        self._laid = commands.snapshot(self.root)

    def save(self, stop: int) -> Callable[[], None]:
        """Entries are identified by their inodes, which a copy does not keep, so the run is repeated."""

        def bring_back() -> None:
            self.lay()
            killed(self.commit, stop)

        return bring_back

    @contextmanager
    def open(self) -> Iterator[tuple[Workspace, SqliteStore]]:
        store = SqliteStore(self.state)
        files = Workspace([self.root], store, state=self.state)
        files._committer = Committer(files, store, exchange=self.exchange)
        try:
            yield files, store
        finally:
            files.close()
            store.close()

    def changes(self) -> list[FileChange]:
        return self._command.changes

    def recover(self) -> None:
        self._shelf.close()  # the process that ran the command is dead
        super().recover()

    def standing(self) -> str:
        """Exactly as at the start, including inodes and folder times; or all new."""
        standing = super().standing()
        if standing == "old" and commands.snapshot(self.root) != self._laid:
            now = commands.snapshot(self.root)
            return f"not exactly: {sorted(now.items() ^ self._laid.items(), key=str)[:4]}"
        return standing

    def case(self) -> object:
        found = tree(self.state / "shelf").items()
        slots = tuple(sorted((re.sub("^[0-9a-f]{16}", "id", path), str(what[:2])) for path, what in found))
        return super().case(), slots


class Undoing(Commanding):
    """The same, undone: the starting point is what the command left."""

    def lay(self) -> None:
        super().lay()
        self.commit()
        self._laid = commands.snapshot(self.root)
        self._command.changes = [change.invert() for change in reversed(self._command.changes)]


def copied(source: Path, target: Path) -> None:
    """Keeps modes and hard links."""
    target.mkdir(parents=True)
    names: dict[int, Path] = {}
    for folder, folders, files in os.walk(source):
        to = target / os.path.relpath(folder, source)
        for name in folders:
            (to / name).mkdir()
            shutil.copymode(os.path.join(folder, name), to / name)
        for name in files:
            place = os.path.join(folder, name)
            found = os.lstat(place)
            if found.st_ino in names:
                os.link(names[found.st_ino], to / name)
            else:
                shutil.copy(place, to / name)
                names[found.st_ino] = to / name


def difference(now: Tree, old: Tree, new: Tree) -> str:
    near = min((old, new), key=lambda each: len(now.items() ^ each.items()))
    return f"neither: {sorted(now.items() ^ near.items())[:6]}"


def killed(act: Callable[[], None], stop: int) -> int:
    """Run it in a fork that is killed at this stop; returns the number of stops. 0 kills nothing."""
    waiting, go = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            os.close(go)
            ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(PTRACER_ANY), 0, 0, 0)
            os.read(waiting, 1)
            act()
            status = 0
        finally:
            os._exit(status)
    os.close(waiting)
    command = [str(killat()), str(stop), "-p", str(child)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as tracer:
        assert tracer.stdout
        try:
            assert tracer.stdout.readline() == "ready\n"
        finally:
            os.close(go)  # the fork waits for end of file
        said = tracer.stdout.read()
    _, status = os.waitpid(child, 0)
    if not said.startswith(("killed", "count")) or (said.startswith("count") and status):
        raise AssertionError(f"killat said {said!r}, the fork ended with {status}")
    return int(said.split()[1])


@dataclass
class Tally:
    stops: int = 0
    cases: int = 0
    kills: int = 0  # of commits
    repeats: int = 0  # of recoveries
    old: int = 0
    new: int = 0
    torn: list[str] = field(default_factory=list)

    def note(self, standing: str, when: str) -> None:
        if standing in ("old", "new"):
            setattr(self, standing, getattr(self, standing) + 1)
        else:
            self.torn.append(f"{when}: {standing}")

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            max(self.stops, other.stops),
            self.cases + other.cases,
            self.kills + other.kills,
            self.repeats + other.repeats,
            self.old + other.old,
            self.new + other.new,
            self.torn + other.torn,
        )

    def __str__(self) -> str:
        return (
            f"{self.stops} stops; {self.kills} commits killed, {self.cases} cases whose recovery was killed "
            f"{self.repeats} times; all old {self.old}, all new {self.new}, torn {len(self.torn)}"
        )


def stops_of(bench: Bench) -> int:
    bench.lay()
    return killed(bench.commit, 0)


def kill_commits(bench: Bench, stops: Iterable[int]) -> Tally:
    """After a kill at each of these stops, recovery gives all old or all new, and nothing stray."""
    tally = Tally()
    for stop in stops:
        bench.lay()
        killed(bench.commit, stop)
        bench.recover()
        tally.kills += 1
        tally.note(bench.standing(), f"killed at {stop}")
    return tally


def kill_recoveries(bench: Bench, stops: Iterable[int], step: int, *, distinct: bool = False) -> Tally:
    """The recovery after each of these stops is killed too, at every `step`-th stop of its own, and run again."""
    tally = Tally()
    seen: set[object] = set()
    for stop in stops:
        bench.lay()
        killed(bench.commit, stop)
        bring_back = bench.save(stop)
        if distinct:
            case = bench.case()
            if case in seen:
                continue
            seen.add(case)
            bring_back()
        tally.cases += 1
        for again in range(step, killed(bench.recover, 0) + 1, step):
            bring_back()
            killed(bench.recover, again)
            bench.recover()
            tally.repeats += 1
            tally.note(bench.standing(), f"killed at {stop}, recovery at {again}")
    return tally


BENCHES: dict[str, type[Bench]] = {"set": Bench, "patch": Patching, "command": Commanding, "undo": Undoing}


def worker(part: int, parts: int, full: bool, exchange: bool, kind: str) -> Tally:
    with tempfile.TemporaryDirectory(prefix="crash-") as home:
        bench = BENCHES[kind](Path(home), exchange)
        stops = stops_of(bench)
        # Neighbouring stops are often the same case, so a worker gets a range of them.
        mine = range(1 + part * stops // parts, 1 + (part + 1) * stops // parts)
        tally = kill_commits(bench, mine)
        if full:
            # Every second stop: each is after a call, and the disk does not change until the next call.
            tally += kill_recoveries(bench, mine, 2, distinct=True)
        else:
            tally += kill_recoveries(bench, (stop for stop in mine if stop % 20 == 0), 20)
        tally.stops = stops
        return tally


def worker_of(work: tuple[int, int, bool, bool, str]) -> Tally:
    return worker(*work)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument(
        "--full", action="store_true", help="also kill the recovery at each of its system calls, after every stop"
    )
    arguments.add_argument("--no-exchange", action="store_true", help="behave as on a system without RENAME_EXCHANGE")
    kind = arguments.add_mutually_exclusive_group()
    kind.add_argument(
        "--patch",
        dest="kind",
        action="store_const",
        const="patch",
        help="kill a call of apply_patch instead of a bare commit",
    )
    kind.add_argument(
        "--command",
        dest="kind",
        action="store_const",
        const="command",
        help="kill the commit of a command that changed fifty paths",
    )
    kind.add_argument("--undo", dest="kind", action="store_const", const="undo", help="kill the undo of that command")
    arguments.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    chosen = arguments.parse_args()
    if why := unavailable():
        print(f"skipped: {why}")
        return 0
    began = time.monotonic()
    killat()
    parts = chosen.jobs * 12  # late stops take longer
    tally = Tally()
    with get_context("fork").Pool(chosen.jobs) as pool:
        work = [(part, parts, chosen.full, not chosen.no_exchange, chosen.kind or "set") for part in range(parts)]
        for done in pool.imap(worker_of, work):
            tally += done
            print(f"… {tally}", file=sys.stderr, flush=True)
    print(f"{tally} ({time.monotonic() - began:.0f} s)")
    for line in tally.torn[:20]:
        print(" ", line)
    return bool(tally.torn)


if __name__ == "__main__":
    sys.exit(main())
