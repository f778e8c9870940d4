"""What a rollback leaves: others' work stays, and one thing that cannot be restored does not keep the rest from it."""

import fcntl
import os
import resource
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Thread

import pytest

from handhold.backends.files.commit import recovery
from handhold.backends.files.staging_area import UNDO_LOG
from handhold.core.errors import NotRestored, SystemFailure
from handhold.core.plans import Effects
from handhold.core.requests import Run
from handhold.toolbox import Toolbox
from tests.backends.shell.forked import NOBODY, as_user
from tests.backends.shell.shadows import seen
from tests.backends.shell.shells import Bench, bench

WAIT = "; while [ ! -e stop ]; do sleep 0.01; done"  # for somebody else to do something


@pytest.fixture
def shell(tmp_path: Path):
    with bench(tmp_path, mode="brokered") as opened:
        yield opened


def roll_back(shell: Bench, command: str, meanwhile: Callable[[], object]) -> Effects:
    """Run a command, of which nothing is applied; `meanwhile` is what somebody else does before it ends."""

    def act(_output: str) -> None:
        meanwhile()
        (shell.ws / "stop").touch()

    with shell.shell.run(Run(f"{command}; echo ready{WAIT}", 20, chars=1000), on_output=act) as finished:
        assert finished.effects
    (shell.ws / "stop").unlink()
    return finished.effects


def test_what_others_put_into_a_folder_of_the_command_stays(shell: Bench):
    (shell.ws / "theirs").mkdir()
    (shell.ws / "theirs/f").write_text("theirs\n")
    new = shell.ws / "new"

    def meanwhile() -> None:
        (new / "mine").write_text("mine\n")
        (shell.ws / "theirs").rename(new / "deep/theirs")

    effects = roll_back(shell, "mkdir -p new/deep/more other; echo 1 >new/x; echo 2 >new/deep/more/y", meanwhile)
    assert sorted(str(path.relative_to(new)) for path in new.rglob("*")) == [
        "deep",
        "deep/theirs",
        "deep/theirs/f",
        "mine",
    ]
    assert sorted(os.listdir(shell.ws)) == ["new"]
    assert [clash.path for clash in effects.conflicts] == [str(new)]
    created = [str(shell.ws / name) for name in ("new/deep/more", "new/x", "other")]
    assert [change.path for change in effects.files] == created


def test_they_stay_also_if_the_command_was_cancelled(shell: Bench):
    def meanwhile(_output: str) -> None:
        (shell.ws / "new/mine").write_text("mine\n")
        assert shell.shell.interrupt()

    shell("mkdir new; echo 1 >new/x; echo ready; sleep 20", watch=meanwhile)
    assert os.listdir(shell.ws / "new") == ["mine"]


def test_a_file_that_somebody_else_appended_to_keeps_their_time(shell: Bench):
    path = shell.ws / "a"
    path.write_text("old\n")
    path.chmod(0o644)
    os.utime(path, (1, 1))

    def append() -> None:
        with path.open("a") as file:
            file.write("theirs\n")

    roll_back(shell, "chmod 600 a", append)
    assert path.read_text() == "old\ntheirs\n"
    assert path.stat().st_mode & 0o777 == 0o644
    assert path.stat().st_mtime > 1


# --- what cannot be restored


def test_one_file_that_cannot_be_restored_does_not_keep_the_others_from_it(shell: Bench):
    content = os.urandom(1 << 20)
    for name in ("a", "b", "d"):
        (shell.ws / name).write_bytes(content if name == "b" else b"old\n")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (500_000, limits[1]))
    try:
        with pytest.raises(NotRestored) as caught:
            roll_back(shell, "echo new >a; echo new >b; mv d e; mkdir c; echo new >c/x", limit)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    (shell.ws / "stop").unlink()
    assert caught.value.paths == (str(shell.ws / "b"),)
    assert [Path(copy).read_bytes() for copy in caught.value.kept] == [content]
    assert sorted(os.listdir(shell.ws)) == ["a", "b", "d"]
    assert (shell.ws / "a").read_text() == (shell.ws / "d").read_text() == "old\n"
    assert shell.shows("cat a") == "old\n"
    area = shell.files.get_staging_area(shell.files.open_roots[0])
    assert area
    area.sweep(lambda _commands: ())
    assert Path(caught.value.kept[0]).exists()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
@pytest.mark.parametrize("filler", ["the command", "others"])
def test_the_workspace_is_restored_on_a_full_disk(tmp_path: Path, filler: str):
    disk = tmp_path / "disk"
    disk.mkdir()

    def mount() -> None:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", disk], check=True)

    def fill_disk(ws: Path) -> None:
        while (ws / "a").stat().st_size:
            time.sleep(0.01)
        with suppress(OSError), open(disk / "theirs", "wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
        (ws / "stop").touch()

    def work() -> None:
        ws = disk / "ws"
        ws.mkdir()
        (ws / "a").write_bytes(content := os.urandom(4_000_000))
        (ws / "b").write_text("old\n")
        before = seen(ws)
        thread = Thread(target=fill_disk, args=[ws])
        with Toolbox.open(ws, state=tmp_path / "state", shell="brokered", policy="open", settings=False) as box:
            if filler == "others":
                thread.start()
                reply = box.call("bash", {"command": f"echo z >b; echo y >>b; : >a{WAIT}"})
                (ws / "stop").unlink()
                (disk / "theirs").unlink()
            else:
                reply = box.call("bash", {"command": "echo z >b; : >a; cat /dev/zero >big"})
            assert reply.code == "NO_SPACE", reply.text
            assert seen(ws) == before
            assert (ws / "a").read_bytes() == content
            assert os.statvfs(disk).f_bavail * 4096 > 10_000_000
            assert box.call("bash", {"command": "echo z >b"}).status == "success"

    as_user("ourselves", work, first=mount)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as two users")
@pytest.mark.parametrize("who", ["nobody"])
def test_files_and_folders_of_another_user_keep_nothing_from_being_restored(who: str, place: Path):
    ws = place / "ws"
    (ws / "gone").mkdir(parents=True)
    (ws / "gone/f").write_text("old\n")
    (ws / "mine").write_text("old\n")
    for path in (ws / "gone", ws / "gone/f", ws / "mine"):
        os.chown(path, NOBODY, NOBODY)
    for name in ("theirs", "moved", "linked"):
        (ws / name).write_text("theirs\n")
        (ws / name).chmod(0o666)
    ws.chmod(0o777)

    def work() -> None:
        with Toolbox.open(ws, state=place / "state", shell="brokered", policy="open", settings=False) as box:
            command = (
                "echo new >mine; rm -r gone; echo x >>theirs; mkdir new; mv moved new/; ln linked link; echo x >other"
            )
            reply = box.call("bash", {"command": command})
            assert reply.status == "partial", reply.text
            assert sorted(os.listdir(ws)) == ["linked", "mine", "moved", "other", "theirs"]
            assert (ws / "mine").read_text() == "new\n"
            assert {(ws / name).read_text() for name in ("theirs", "moved", "linked")} == {"theirs\n"}
            assert "theirs belongs to another user, so what the command did to it was discarded" in reply.text
            assert box.undo().status == "success"
            assert (ws / "gone/f").read_text() == (ws / "mine").read_text() == "old\n"

    as_user(who, work)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_what_a_command_created_in_a_root_on_another_file_system_is_taken_away(tmp_path: Path):
    roots = [tmp_path / name / "ws" for name in ("one", "two")]
    roots[1].parent.mkdir()

    def mount() -> None:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", roots[1].parent], check=True)

    def work() -> None:
        for root in roots:
            root.mkdir(parents=True)
            (root / "old").write_text("old\n")
        before = [seen(root) for root in roots]
        with Toolbox.open(roots, state=tmp_path / "state", shell="brokered", policy="open", settings=False) as box:
            command = " ".join(f"cd {root}; ln old more; echo new >new; mkdir -p d/e; mv old d;" for root in roots)
            reply = box.call("bash", {"command": command, "preview": True})
            assert reply.status == "success", reply.text
            assert [seen(root) for root in roots] == before

    as_user("ourselves", work, first=mount)


def test_an_interrupted_command_that_cannot_be_rolled_back_yet_keeps_only_commands_from_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(recovery, "BROKER_TIMEOUT_SECONDS", 0.05)
    with bench(tmp_path, mode="brokered") as shell:
        area = shell.files.get_staging_area(shell.files.open_roots[0])
        assert area
        command = area.create_folder()
        log = Path(area.path(command), UNDO_LOG)
        area.abandon(command)
    with open(log, "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with bench(tmp_path, mode="brokered") as shell, pytest.raises(SystemFailure, match="does not end"):
            shell("true")
    with bench(tmp_path, mode="brokered") as shell:
        assert not log.exists()
        assert shell("true").exit_status.code == 0


# --- what the command did


METADATA = {
    "a mode before content": ("chmod 755 a; : >>a", "mode"),
    "an attribute": ("setfattr -n user.x -v 1 a", "user.x"),
    "an access list": ("setfacl -m u:1000:r a", "system.posix_acl_access"),
    "a group": ("chgrp 4 a", "group"),
}


@pytest.mark.parametrize(("command", "changed"), METADATA.values(), ids=METADATA.keys())
def test_metadata_that_a_command_changes_is_applied_and_undone(tmp_path: Path, command: str, changed: str):
    if changed == "group" and os.geteuid() != 0:
        pytest.skip("only root can give a file to any group")
    ws = tmp_path / "ws"
    ws.mkdir()
    (ws / "a").write_text("old\n")
    before = read_metadata(ws / "a")
    with Toolbox.open(ws, state=tmp_path / "state", shell="brokered", policy="open", settings=False) as box:
        reply = box.call("bash", {"command": command})
        if not reply.text.startswith("[No output. Exit status 0"):
            pytest.skip("not supported by this file system")
        after = read_metadata(ws / "a")
        assert {name for name in before | after if before.get(name) != after.get(name)} - {"mode"} | {changed} == {
            changed
        }
        assert after.get(changed) != before.get(changed)
        assert box.undo().status == "success"
    assert read_metadata(ws / "a") == before


def read_metadata(path: Path) -> dict[str, object]:
    found = path.stat()
    attributes = {name: os.getxattr(path, name) for name in os.listxattr(path)}
    return {"mode": found.st_mode, "group": found.st_gid, "owner": found.st_uid, **attributes}
