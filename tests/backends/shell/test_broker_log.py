"""The undo log of a brokered command has what a rollback needs, even if the disk is full or a number is used again."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from handhold.backends.files.commit import rollback
from handhold.backends.files.undo_log import InodeKeys
from handhold.backends.shell import brokered_changes
from handhold.backends.shell.brokered_run import BrokeredRun
from handhold.core.requests import Run
from tests.backends.shell.forked import as_user
from tests.backends.shell.shadows import Desk, both_without_overlay
from tests.backends.shell.shells import bench
from tests.backends.shell.test_broker_killed import launch, wait_for
from tests.faults.disks import disk

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")


@both_without_overlay
def test_a_name_that_exists_is_never_recorded_as_one_that_will_appear(desk: Desk):
    """If the broker is killed then, whatever has the name would be taken for the command's."""
    (desk.ws / "src").mkdir()
    (desk.ws / "a").touch()
    os.link(desk.ws / "a", desk.ws / "linked")
    run = BrokeredRun.create(desk.files.open_roots, desk.files.get_staging_area, scratch=desk.scratch)
    script = "for name in src linked; do mkdir $name; mkfifo $name; ln -T a $name; ln -sT a $name; done; : >new"
    launch(desk, run, script).wait(30)
    log = Path(run.mounts[0].work).read_bytes()
    run.discard()
    assert os.fsencode(desk.ws / "new") in log
    assert os.fsencode(desk.ws / "src") not in log
    assert os.fsencode(desk.ws / "linked") not in log


@both_without_overlay
def test_what_others_put_in_place_of_a_renamed_file_stays_if_the_broker_is_killed(desk: Desk):
    run = BrokeredRun.create(desk.files.open_roots, desk.files.get_staging_area, scratch=desk.scratch)
    broker = launch(desk, run, "echo x >t; mv t new; : >ready; sleep 30")
    wait_for(desk.ws / "ready")  # then the rename is recorded
    (desk.ws / "theirs").write_text("theirs\n")
    (desk.ws / "theirs").rename(desk.ws / "new")
    broker.kill()
    broker.wait()
    run.discard()
    assert (desk.ws / "new").read_text() == "theirs\n"


@needs_root
@pytest.mark.root
def test_what_is_created_while_the_log_fills_the_disk_is_rolled_back(tmp_path: Path):
    """A record says that a file was created; there must be room for it before the file is."""
    program = (
        "import os, sys\n"
        "for number in range(2000):\n"
        "    try: os.close(os.open(str(number).zfill(int(sys.argv[1])), os.O_CREAT | os.O_WRONLY))\n"
        "    except OSError as error: print(error.strerror, number > 100); break\n"
    )

    def mount() -> None:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", tmp_path], check=True)

    def work() -> None:
        with bench(tmp_path, mode="brokered") as shell:
            (shell.ws / "create.py").write_text(program)
            for length in range(200, 248, 8):  # for some of them the log would be full at that very moment
                ran = shell(f"cat /dev/zero >big 2>/dev/null; python3 create.py {length}")
                assert ran.output.head == "No space left on device True\n"
                assert os.listdir(shell.ws) == ["create.py"]

    as_user("ourselves", work, first=mount)


def test_a_file_that_somebody_else_created_with_the_same_number_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for module in (rollback, brokered_changes):
        monkeypatch.setattr(module, "read_birth", lambda *_: 1)  # as if each file were another by now
    with bench(tmp_path, mode="brokered") as shell:
        (shell.ws / "a").write_text("old\n")
        with shell.shell.run(Run("echo new >new; echo x >>a; mkdir -p d/e", 20, chars=1000)) as finished:
            assert finished.effects
            assert {Path(clash.path).name for clash in finished.effects.conflicts} >= {"new", "a", "d"}
        assert (shell.ws / "new").read_text() == "new\n"
        assert (shell.ws / "a").read_text() == "old\nx\n"


@needs_root
@pytest.mark.parametrize("command", ["rm a", "echo ours >a", "mv a b"])
def test_a_number_that_the_command_had_does_not_make_a_file_its_own(tmp_path: Path, command: str):
    """Somebody else replaces its file, and gets the inode's number, before it changes the file again."""
    numbers: list[int] = []
    with disk(tmp_path) as folder, bench(folder, mode="brokered") as shell:  # where nobody else creates files
        (shell.ws / "a").write_text("old\n")

        def replace_file(_output: str) -> None:
            numbers.append((shell.ws / "a").stat().st_ino)
            while len(numbers) == 1 or (numbers[0] != numbers[-1] and len(numbers) < 200):
                (shell.ws / "theirs").write_text("theirs\n")
                numbers.append((shell.ws / "theirs").stat().st_ino)
                (shell.ws / "theirs").rename(shell.ws / "a")
                time.sleep(0.02)  # until the inode is free
            (shell.ws / "go").touch()

        shell(f"sed -i s/old/ours/ a; echo ready; until [ -e go ]; do sleep 0.01; done; {command}", watch=replace_file)
        assert numbers[0] == numbers[-1]
        assert (shell.ws / "a").read_text() == "theirs\n"


def test_inodes_with_the_same_number_have_different_keys():
    keys = InodeKeys()
    first, second = keys.add((1, 2), 70), keys.add((1, 2), 80)
    assert first == (1, 2)
    assert second not in (first, keys.find((1, 2), lambda: 90))
    assert keys.find((1, 2), lambda: 80) == keys.add((1, 2), 0) == second
    assert keys.find((1, 2), lambda: 70) == keys.find((1, 2), lambda: 0) == first
    assert keys.find((1, 3), lambda: 90) == keys.add((1, 3), 0) == (1, 3)
