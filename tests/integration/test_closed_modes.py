"""What a command closes to its owner is undone, redone and undone again."""

from pathlib import Path

import pytest

from handhold import Toolbox
from tests.backends.shell.forked import as_user
from tests.backends.shell.shadows import seen
from tests.suites.held_by import HeldBy, held_by  # noqa: F401 — a fixture

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("held_by")]

COMMANDS = {
    "a file": "chmod 000 keep",
    "a folder": "chmod 0 dir",
    "folders of which one is replaced": "chmod 555 dir; rm -rf dir2; mkdir dir2; chmod 111 dir2",
}


@pytest.mark.parametrize("beside", ["nothing", "a job"])  # then changes are committed as copies
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS.keys())
def test_v13_it_can_be_undone_redone_and_undone(
    who: str,
    place: Path,
    held_by: HeldBy,  # noqa: F811
    command: str,
    beside: str,
):
    def work() -> None:
        ws = place / "ws"
        for name in ("dir", "dir2"):
            (ws / name / "sub").mkdir(parents=True)
            (ws / name / "in").write_text("old\n")
        (ws / "keep").write_text("keep\n")
        before = seen(ws, times=False)

        def opened() -> Toolbox:
            return Toolbox.open(
                ws, state=place / "state", settings=False, policy="open", approver=lambda _: True, session="s"
            )

        with opened() as box:
            if beside == "a job":
                assert box.call("bash", {"command": "sleep 100", "background": True}).status == "success"
            ran = box.call("bash", {"command": command})
            assert ran.status == "success", ran.text
            assert ran.data["exit_status"] == 0, ran.text
            closed = {path.name: path.stat().st_mode for path in ws.iterdir()}
        with opened() as box:
            for act in (box.undo, box.redo, box.undo):
                done = act()
                assert done.status == "success", done.text
                if act == box.undo:
                    assert seen(ws, times=False) == before
                else:
                    assert {path.name: path.stat().st_mode for path in ws.iterdir()} == closed

    as_user(who, work)
