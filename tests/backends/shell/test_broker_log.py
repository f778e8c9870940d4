"""The undo log of a brokered command has what a rollback needs, even if the disk is full or a number is used again."""

import os
import subprocess
from pathlib import Path

import pytest

from handhold.backends.shell.brokered_run import BrokeredRun
from tests.backends.shell.forked import as_user
from tests.backends.shell.shadows import Desk, both_without_overlay
from tests.backends.shell.shells import bench
from tests.backends.shell.test_broker_killed import launch

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
