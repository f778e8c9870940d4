"""Kill a merge at system calls: the workspace is as before or merged, the fork is there until it is, and nothing is left."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from handhold import Toolbox
from tests.faults import crash
from tests.faults.trees import Tree, tree
from tests.scale import scaled

pytestmark = pytest.mark.skipif(bool(crash.unavailable()), reason=crash.unavailable() or "killat works")
STOPS = scaled(10, 10_000)  # how many stops are tried, evenly spread; at night every twentieth
MERGE = """
import os, sys
sys.path[:0] = {path!r}
from handhold import Toolbox
with Toolbox.open({root!r}, state={state!r}, session="s") as box:
    fork = box.forks.get("try")
    os.access({mark!r}, os.F_OK)
    fork.merge(take="fork")
    os.access({mark!r}, os.F_OK)
"""
SCRIPT = (
    "echo fork >>both; echo new >new; rm -r old; mkdir old; echo x >old/x; ln -s to link; chmod 700 folder; rm gone"
)


def lay(home: Path) -> Path:
    root = home / "root"
    (root / "old/deep").mkdir(parents=True)
    (root / "folder").mkdir()
    for name in ("both", "gone", "old/1", "old/deep/2", "stays"):
        (root / name).write_text(f"{name}\n")
    with Toolbox.open(root, state=home / "state") as box:
        assert box.fork("try").run(["sh", "-c", f"set -e; {SCRIPT}"]) == 0
    (root / "both").write_text("base\nboth\n")
    return root


def merge(home: Path, stop: int) -> str:
    root, state = str(home / "root"), str(home / "state")
    program = MERGE.format(path=sys.path, root=root, state=state, mark=crash.MARK)
    command = [str(crash.killat()), str(stop), os.path.realpath(sys.executable), "-c", program]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, capture_output=True, text=True, check=not stop, env=environment).stdout


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_merge_killed_at_any_moment_loses_nothing(tmp_path: Path):
    first = tmp_path / "first"
    first.mkdir()
    old = tree(lay(first))
    counted = merge(first, 0)
    assert counted.startswith("count "), counted
    new, count = tree(first / "root"), int(counted.split()[1])
    assert new != old
    step = max(20, count // STOPS)
    kills = 0
    for stop in range(1, count, step):
        home = tmp_path / "home"
        lay(home)
        kills += merge(home, stop).startswith("killed")
        check(home, old, new, stop)
        shutil.rmtree(home)
    assert kills >= min(STOPS, count // step) - 2


def check(home: Path, old: Tree, new: Tree, stop: int) -> None:
    root = home / "root"
    with Toolbox.open(root, state=home / "state", session="s") as box:  # recovers
        assert tree(root) in (old, new), stop
        if tree(root) == old:
            box.forks.get("try").merge(take="fork")
            assert tree(root) == new, stop
        elif "try" in box.forks:
            report = box.forks.get("try").merge(take="fork")
            assert (report.paths, tree(root)) == ([], new), stop
        assert box.undo().ok, stop
        assert tree(root) == old, stop
        box.fork("other").drop()  # which sweeps what was left
    left = [path.name for path in (home / "state").rglob("*") if ".temporary-" in path.name]
    assert left == [], stop
