"""Random histories of a workspace and two forks: each merge equals an independent model, or both report a conflict.

The workspace also changes while programs run in the forks. Then nobody knows what a fork started from, and there may be
conflicts that the model does not have; and a file that the fork replaced while the workspace deleted it comes back.
"""

import os
import shutil
import stat
import subprocess
import time
from pathlib import Path
from random import Random

import pytest

from handhold import Toolbox
from handhold.backends.forks.fork_mount import RunningProgram
from handhold.core.errors import MergeConflict
from tests.backends.forks.model import Conflict, ModelFork, Operations, Tree
from tests.backends.shell.forked import as_user
from tests.faults.trees import tree
from tests.scale import scaled

HISTORIES = scaled(12, 1000)
BATCH = scaled(6, 50)
STEPS = 14


def read(root: Path) -> Tree:
    found: Tree = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(folder, name)
            rel, status = str(path.relative_to(root)), path.lstat()
            mode = stat.S_IMODE(status.st_mode)
            if path.is_symlink():
                found[rel] = "link", os.readlink(path), mode
            elif path.is_dir():
                found[rel] = "folder", "", mode
            else:
                found[rel] = "file", tuple(path.read_text().splitlines()), mode
    return found


class History:
    def __init__(self, seed: int, place: Path) -> None:
        self.random = Random(seed)
        self.operations = Operations(self.random)
        self.root = place / f"work-{seed}"
        self.state = place / f"state-{seed}"
        self.base: Tree = {}
        self.forks: dict[str, ModelFork] = {}
        self.unsure: set[str] = set()  # forks that were in use while the workspace changed
        self.deleted: dict[str, set[str]] = {"one": set(), "two": set()}  # by the workspace, meanwhile
        self.merged = self.conflicts = self.false_conflicts = self.revived = 0

    def play(self) -> None:
        self.root.mkdir()
        with Toolbox.open(self.root, state=self.state) as box:
            self.change_base(8)
            for _ in range(STEPS):
                step = self.random.choice((self.change_base, self.run_fork, self.run_fork, self.merge))
                step(box)  # pyright: ignore[reportArgumentType]
                assert read(self.root) == self.base
            for name in list(self.forks):
                self.merge(box, name)
                if name in self.forks:
                    box.fork(name).drop()
            left = [path for path in self.state.rglob("*") if "fork" in path.name]
            assert [str(each.relative_to(self.state)) for each in left if each.name != "fork-marker"] == []

    def change_base(self, count: object = None) -> None:
        for _ in range(count if isinstance(count, int) else self.random.randint(1, 3)):
            operation = self.operations.make(self.base)
            subprocess.run(["sh", "-c", f"umask 022; set -e; {operation.command}"], cwd=self.root, check=True)
            operation.apply(self.base)

    def run_fork(self, box: Toolbox) -> None:
        name = self.random.choice(("one", "two"))
        fork = self.forks.setdefault(name, ModelFork())
        view = fork.view(self.base)
        chosen = []
        for _ in range(self.random.randint(1, 4)):
            chosen.append(self.operations.make(view))
            chosen[-1].apply(view)
        script = "\n".join(("umask 022", "set -e", *(each.command for each in chosen)))
        before, run = dict(self.base), box.fork(name).run
        if self.random.random() < 0.3:
            assert run(["sh", "-c", f"{script}\n{self.wait_in_fork}"], wait=self.change_while_running) == 0, script
            self.unsure.add(name)
        else:
            assert run(["sh", "-c", script]) == 0, script
        known = {*fork.own}
        fork.run(before, chosen)
        deleted = (before.keys() - self.base.keys()) & fork.own.keys() - known
        self.deleted[name] |= {path for path in deleted if fork.own[path] is not None}
        fork.ancestors |= {path: None for path in deleted if fork.own[path] is None}  # in both

    @property
    def ready(self) -> Path:
        return self.state.with_name(f"{self.state.name}-ready")

    @property
    def wait_in_fork(self) -> str:
        return f"touch {self.ready}; while test -e {self.ready}; do sleep 0.01; done"

    def change_while_running(self, program: RunningProgram) -> int:
        while not self.ready.exists():
            time.sleep(0.005)
        self.change_base()
        self.ready.unlink()
        return program.wait()

    def merge(self, box: Toolbox, name: str = "") -> None:
        if not self.forks:
            return
        name = name or self.random.choice(list(self.forks))
        before = tree(self.root)
        try:
            expected = self.forks[name].merge(self.base)
        except Conflict:
            expected = None
        try:
            report = box.fork(name).merge()
        except MergeConflict:
            assert tree(self.root) == before
            self.conflicts += 1
            self.false_conflicts += expected is not None
            assert expected is None or name in self.unsure, "a conflict, where the model has none"
            return
        if expected is None:
            self.revived += 1
            expected = self.revive(name)
        assert read(self.root) == expected
        assert report.dropped
        self.merged += 1
        if report.paths:
            assert box.undo().ok
            assert tree(self.root) == before
            assert box.redo().ok
            assert read(self.root) == expected
        self.base = expected
        del self.forks[name]
        self.unsure.discard(name)
        self.deleted[name].clear()

    def revive(self, name: str) -> Tree:
        """The merge, if nothing was where the fork has something and the workspace deleted it."""
        assert name in self.unsure, "merged, where the model has a conflict"
        fork = self.forks[name]
        fork.ancestors |= dict.fromkeys(self.deleted[name] & fork.own.keys())
        return fork.merge(self.base)


@pytest.mark.skipif(not shutil.which("git"), reason="texts are merged by git")
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", range(0, HISTORIES, BATCH))
def test_random_histories(who: str, place: Path, first: int):
    def work() -> None:
        histories = [History(seed, place) for seed in range(first, first + BATCH)]
        for history in histories:
            history.play()
            shutil.rmtree(history.root)
            shutil.rmtree(history.state)
        merged = sum(each.merged for each in histories)
        false_conflicts = sum(each.false_conflicts for each in histories)
        print(
            f"{merged} merged, {sum(each.conflicts for each in histories)} conflicts, {false_conflicts} of them false,"
            f" {sum(each.revived for each in histories)} with a file that came back"
        )
        assert merged
        assert false_conflicts <= merged / 2, "too many conflicts that are none"

    as_user(who, work)
