"""A process with commands in the background is killed: nothing that the user did not make is left in the workspace."""

import os
import signal
import time
from pathlib import Path

import pytest

from handhold import Toolbox
from handhold.backends.shell.orphans import kill_orphans
from tests.backends.shell.shells import alive, gone, marked
from tests.scale import scaled
from tests.suites.machine import has_shadows

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine"),
]
SPAN = 0.8  # seconds after the first command, in which others begin and end
ROUNDS = scaled(3, 200)


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def work(place: Path, seconds: str, opened: int) -> None:
    """Until it is killed."""
    with Toolbox.open(place / "ws", state=place / "state", settings=False, policy="open") as box:
        box.call("bash", {"command": "true"})
        os.write(opened, b"opened")
        while True:
            job = box.call("bash", {"command": f"sleep {seconds}", "background": True}).data["job"]
            box.call("bash", {"command": "cat a.txt >>a.txt.copy; rm a.txt.copy"})
            box.call("bash_stop", {"job": job})


@pytest.mark.timeout(900)
def test_e4_nothing_is_left_in_the_workspace_of_a_process_that_is_killed(tmp_path: Path):
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws/a.txt").write_text("a\n")
    seconds, met = marked(), 0
    for number in range(6 * ROUNDS):
        if number >= ROUNDS and met:
            break
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                work(tmp_path, seconds, writer)
            finally:
                os._exit(1)
        os.close(writer)
        assert os.read(reader, 6) == b"opened"
        os.close(reader)
        # On a busy machine the command may begin late: then there are more rounds, which wait longer.
        until = time.monotonic() + SPAN * (number + 1) / ROUNDS
        while time.monotonic() < until:
            assert names(tmp_path / "ws") in (["a.txt"], ["a.txt", "a.txt.copy"])
            time.sleep(0.01)
        met += bool(alive(seconds))
        os.kill(child, signal.SIGTERM if number % 2 else signal.SIGKILL)
        os.waitpid(child, 0)
        kill_orphans()  # as the next shell does: a sandbox that is killed while it is being made may wait for that
        assert gone(seconds)
        assert names(tmp_path / "ws") == ["a.txt"]
    assert met, "none was killed while its command ran"
