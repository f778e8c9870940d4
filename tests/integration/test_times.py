"""Times of files, after a command and after undo: what `make` goes by."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from handhold import Target, Toolbox
from tests.suites.machine import has_shadows

pytestmark = pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")

LONG_AGO = 1_000_000_000


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    ws = tmp_path / "ws"
    ws.mkdir()
    for name in ("source", "other"):
        (ws / name).write_text("1\n")
        os.utime(ws / name, (LONG_AGO, LONG_AGO))
    (ws / "Makefile").write_text("built: source\n\tcat source >built\n")
    return ws


@pytest.fixture
def box(tmp_path: Path, ws: Path) -> Iterator[Toolbox]:
    with Toolbox.open(ws, state=tmp_path / "state", policy="open") as box:
        yield box


def run(box: Toolbox, command: str) -> str:
    reply = box.call("bash", {"command": command})
    assert reply.data["exit_status"] == 0, reply.text
    return reply.text


def test_e16_what_was_built_from_the_contents_that_go_is_built_again(box: Toolbox, ws: Path):
    first = box.call("bash", {"command": "echo 2 >source; rm other"}, call_id="first")
    assert first.status == "success"
    run(box, "make -s")
    assert box.undo(Target.call("first")).status == "success"
    assert run(box, "make -s; cat built").startswith("1\n")
    assert (ws / "other").stat().st_mtime == LONG_AGO, "it came back as it was"
    assert box.redo().status == "success"
    assert run(box, "make -s; cat built").startswith("2\n")


def test_e16_times_are_kept_if_that_is_asked_for(box: Toolbox, ws: Path):
    run(box, "echo 2 >source")
    assert box.undo(keep_times=True).status == "success"
    assert (ws / "source").stat().st_mtime == LONG_AGO


def test_e16_git_still_sees_what_changed_in_the_second_of_its_index(box: Toolbox, ws: Path):
    def git(command: str) -> str:
        return subprocess.run(["bash", "-ec", command], cwd=ws, check=True, stdout=subprocess.PIPE, text=True).stdout

    git("git init -q . && git config user.name x && git config user.email x@x && git add . && git commit -qm First")
    for _ in range(20):  # until both fall into one second
        git("echo 2 >source; git add source; echo 3 >source")
        if int((ws / "source").stat().st_mtime) == int((ws / ".git/index").stat().st_mtime):
            break
    else:
        pytest.fail("the file and the index never fell into one second")
    status = git("git --no-optional-locks status --short")
    assert status == "MM source\n"
    time.sleep(1)
    run(box, "echo 2 >other; git add other")
    assert box.undo().status == "success"
    assert git("git --no-optional-locks status --short") == status


def age(*paths: Path) -> None:
    for path in paths:
        os.utime(path, (LONG_AGO, LONG_AGO))


def test_e12_a_rule_about_a_folder_that_is_only_touched_is_followed_once(box: Toolbox, ws: Path):
    (ws / "Makefile").write_text("deps: source\n\techo installing; touch deps\n")
    (ws / "deps").mkdir()
    age(ws / "deps")
    (ws / "source").touch()
    first = box.call("bash", {"command": "make -s"})
    assert first.text.startswith("installing")
    assert "changed" not in first.text, "a time is no content"
    assert "installing" not in run(box, "make -s")
    assert box.undo().status == "error", "there is nothing to take back"


def test_e12_what_depends_on_a_folder_is_built_once(box: Toolbox, ws: Path):
    (ws / "Makefile").write_text("built/of: deps\n\techo building; touch $@\ndeps: source\n\ttouch deps/one\n")
    for name in ("deps", "built"):
        (ws / name).mkdir()
        age(ws / name)
    (ws / "source").touch()
    assert run(box, "make -s").startswith("building")
    assert "building" not in run(box, "make -s")


def test_e12_times_of_folders_are_undone_and_redone_with_a_command(box: Toolbox, ws: Path):
    (ws / "a" / "b").mkdir(parents=True)
    (ws / "touched").mkdir()
    folders = (ws / "a" / "b", ws / "a", ws / "touched", ws)
    age(*folders)
    run(box, "echo 1 >a/b/new; touch -d @1500000000.25 a/b; touch -d @1400000000 touched; touch -d @900000000 .")
    taken = [path.stat().st_mtime for path in folders]
    assert taken == [1_500_000_000.25, LONG_AGO, 1_400_000_000, 900_000_000]
    assert box.undo().status == "success"
    assert [path.stat().st_mtime for path in folders] == [LONG_AGO] * 4
    assert box.redo().status == "success"
    assert [path.stat().st_mtime for path in folders] == taken


def test_e12_no_time_is_set_where_nothing_may_be_changed(tmp_path: Path, ws: Path):
    (ws / "touched").mkdir()
    age(ws / "touched")
    for policy in ("read-only", "ask"):
        with Toolbox.open(ws, state=tmp_path / policy, policy=policy) as box:
            run(box, "touch touched")
    with Toolbox.open(ws, state=tmp_path / "state", policy="open") as box:
        box.call("bash", {"command": "touch touched", "preview": True})
    assert (ws / "touched").stat().st_mtime == LONG_AGO
