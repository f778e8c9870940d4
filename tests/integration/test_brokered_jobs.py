"""Background commands that the broker holds: undone when they have ended, and beside others while they run."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from handhold import Reply, Toolbox
from handhold.backends.shell.sandbox import create_sandbox
from handhold.core.errors import NoShell
from tests.backends.shell.shadows import seen

pytestmark = [pytest.mark.timeout(120)]
PATIENCE_SECONDS = 50


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    (tmp_path / "ws/d").mkdir(parents=True)
    (tmp_path / "ws/a").write_text("old\n")
    (tmp_path / "ws/d/b").write_text("old\n")
    return tmp_path / "ws"


@pytest.fixture
def box(ws: Path) -> Iterator[Toolbox]:
    try:
        create_sandbox("brokered")
    except NoShell as error:
        pytest.skip(error.because)
    with opened(ws) as box:
        yield box


def opened(ws: Path) -> Toolbox:
    return Toolbox.open(ws, state=ws.parent / "state", settings=False, policy="open", shell="brokered", session="s")


def start(box: Toolbox, command: str) -> str:
    reply = box.call("bash", {"command": command, "background": True})
    assert reply.status == "success", reply.text
    return reply.data["job"]


def wait(box: Toolbox, job: str) -> Reply:
    until = time.monotonic() + PATIENCE_SECONDS
    while (reply := box.call("bash_output", {"job": job, "offset": 0})).data["running"]:
        assert time.monotonic() < until
        time.sleep(0.02)
    return reply


def run(box: Toolbox, command: str) -> Reply:
    reply = box.call("bash", {"command": command})
    assert reply.code is None, reply.text
    assert reply.data["exit_status"] == 0, reply.text
    return reply


def appears(path: Path) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not path.exists():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_an_ended_job_is_undone_and_redone(ws: Path, box: Toolbox):
    before = seen(ws)
    ended = wait(box, start(box, "echo new >a; rm -r d; mkdir -p e/f; echo x >e/f/g; ln -s a l; mv e h; sleep 0.3"))
    assert ended.data["undo"] == "all"
    after = seen(ws)
    assert (ws / "h/f/g").read_text() == "x\n"
    assert box.undo(keep_times=True).status == "success"
    assert seen(ws) == before
    assert box.redo(keep_times=True).status == "success"
    assert seen(ws) == after


def test_while_it_runs_its_changes_stay_and_other_commands_work(ws: Path, box: Toolbox):
    started = box.call("bash", {"command": "echo job >j; : >ready; read x; echo more >>j", "background": True})
    assert "can be undone once it has ended" in started.text
    assert started.data["undo"] == "file tools only"
    appears(ws / "ready")
    assert run(box, "cat j; echo cmd >a; echo cmd >c").text.startswith("job\n")
    assert box.undo().status == "success"  # of the command in the foreground
    assert (ws / "a").read_text() == "old\n"
    assert not (ws / "c").exists()
    assert (ws / "j").read_text() == "job\n"
    box.call("bash_input", {"job": started.data["job"], "text": "go\n"})
    wait(box, started.data["job"])
    assert (ws / "j").read_text() == "job\nmore\n"
    assert box.undo().status == "success"
    assert sorted(path.name for path in ws.iterdir()) == ["a", "d"]


def test_what_a_job_has_open_for_writing_belongs_to_the_job(ws: Path, box: Toolbox):
    job = start(box, "exec 3>>a; echo job >&3; : >ready; read x; echo last >&3")
    appears(ws / "ready")
    inode = (ws / "a").stat().st_ino
    ran = run(box, "echo cmd >>a; echo cmd >b")
    assert any("open for writing" in note for note in ran.data["notes"])
    assert box.undo().status == "success"
    assert not (ws / "b").exists()
    assert (ws / "a").read_text() == "old\njob\ncmd\n"
    assert (ws / "a").stat().st_ino == inode
    box.call("bash_input", {"job": job, "text": "go\n"})
    wait(box, job)
    assert (ws / "a").read_text() == "old\njob\ncmd\nlast\n"
    assert box.undo().status == "success"
    assert (ws / "a").read_text() == "old\n"


def test_a_later_change_of_the_same_file_stays_and_is_said(ws: Path, box: Toolbox):
    job = start(box, "echo job >a; echo job >c; : >ready; read x")
    appears(ws / "ready")
    run(box, "echo cmd >a")
    box.call("bash_input", {"job": job, "text": "go\n"})
    ended = wait(box, job)
    assert "undo does not include it" in ended.text
    assert (ws / "a").read_text() == "cmd\n"
    assert (ws / "c").read_text() == "job\n"
    assert box.undo().status == "success"
    assert (ws / "a").read_text() == "cmd\n"
    assert not (ws / "c").exists()


@pytest.mark.parametrize("way", ["stopped", "closed", "timed out"])
def test_a_job_that_is_ended_can_be_undone(ws: Path, box: Toolbox, way: str):
    before = seen(ws)
    command = "echo new >a; mkdir n; : >n/ready; sleep 100"
    if way == "timed out":
        reply = box.call("bash", {"command": command, "background": True, "timeout": 1})
        wait(box, reply.data["job"])
    else:
        job = start(box, command)
        appears(ws / "n/ready")
        if way == "stopped":
            assert box.call("bash_stop", {"job": job}).data["undo"] == "all"
        else:
            box.close()
    with opened(ws) as again:
        assert (ws / "n/ready").exists()
        assert again.undo(keep_times=True).status == "success"
        assert seen(ws) == before


def test_two_jobs_at_once_are_undone_one_by_one(ws: Path, box: Toolbox):
    one = start(box, "for i in $(seq 30); do echo $i >>one; echo $i >d/one$i; done")
    two = start(box, "for i in $(seq 30); do echo $i >>two; echo $i >d/two$i; done; rm a")
    wait(box, one)
    wait(box, two)
    assert len(list((ws / "d").iterdir())) == 61
    for _ in range(2):
        assert box.undo().status == "success"
    assert {path.name: path.read_text() for path in ws.iterdir() if path.is_file()} == {"a": "old\n"}
    assert [path.name for path in (ws / "d").iterdir()] == ["b"]
