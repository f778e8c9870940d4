"""A command whose time is over is asked to end before it is killed."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from handhold import Reply, Toolbox
from handhold.backends.shell import process
from tests.suites.machine import has_shadows

pytestmark = pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")


HOLDS_A_LOCK = """
import os, signal, sys, time

def end(*_):
    time.sleep(0.3)
    os.unlink("lock")
    sys.exit()

open("lock", "w").close()
signal.signal(signal.SIGTERM, end)
time.sleep(100)
"""


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    return tmp_path / "ws"


@pytest.fixture(params=["contained", "unconfined"])
def box(request: pytest.FixtureRequest, tmp_path: Path, ws: Path) -> Iterator[Toolbox]:
    with Toolbox.open(ws, state=tmp_path / "state", policy="open", shell=request.param) as box:
        yield box


def run(box: Toolbox, command: str) -> Reply:
    reply = box.call("bash", {"command": command, "timeout": 1})
    assert reply.data["timed_out"] is True
    return reply


def test_e8_its_traps_run_and_what_they_do_counts(box: Toolbox, ws: Path):
    reply = run(box, "trap 'echo bye; echo 1 >mark; exit 3' TERM; sleep 100")
    assert "bye" in reply.text
    assert (ws / "mark").read_text() == "1\n"


def test_e8_a_program_takes_its_lock_away_before_its_shell_ends(box: Toolbox, ws: Path):
    (ws / "holds.py").write_text(HOLDS_A_LOCK)
    run(box, "cd . && python3 holds.py; echo went on >after")
    assert [each.name for each in ws.iterdir()] == ["holds.py"]


def test_e8_what_ignores_it_is_killed(box: Toolbox, ws: Path):
    reply = run(box, "trap '' TERM; sleep 100")
    assert (
        1_000 * process.TERMINATE_TIMEOUT_SECONDS
        < reply.data["time_ms"]
        < 1_000 * (1 + 2 * process.TERMINATE_TIMEOUT_SECONDS + process.KILL_TIMEOUT_SECONDS)
    )


def test_e8_git_goes_on_working_where_it_was_killed(tmp_path: Path, ws: Path):
    subprocess.run(["git", "init", "-q", ws], check=True)
    with Toolbox.open(ws, state=tmp_path / "state", policy="open") as box:
        reply = run(box, "trap '' TERM; echo 1 >f; git add f; echo 2 >f; touch .git/index.lock; sleep 100")
        assert [note for note in reply.data["notes"] if ".git/index.lock" in note]
        assert (ws / "f").read_text() == "2\n"
        assert box.call("bash", {"command": "git add f && git status --short"}).text.startswith("A  f\n")


def test_e8_git_that_is_asked_to_end_leaves_no_lock(tmp_path: Path, ws: Path):
    subprocess.run(["git", "init", "-q", ws], check=True)
    with Toolbox.open(ws, state=tmp_path / "state", policy="open") as box:
        reply = run(box, "echo 1 >f; git add f; GIT_EDITOR='sleep 100;:' git -c user.name=a -c user.email=b commit -a")
        assert "Left out" not in reply.text
        assert (ws / ".git/index").exists()
        assert not list((ws / ".git").glob("*.lock"))
