"""Two who work on one root: what one changed is left alone by the other, and everything else of a command counts."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from handhold import Toolbox
from tests.suites.machine import has_shadows

pytestmark = pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")


@contextmanager
def overtaken(tmp_path: Path, change: Callable[[Path], object]) -> Iterator[tuple[Toolbox, Path]]:
    """A toolbox whose user, when first asked, lets somebody else change the workspace before saying yes."""
    ws = tmp_path / "ws"
    ws.mkdir()
    (ws / "same").write_text("before\n")
    (ws / "folder").mkdir(0o755)
    asked = 0

    def approve(_: object) -> bool:
        nonlocal asked
        asked += 1
        if asked == 1:
            change(ws)
        return True

    with Toolbox.open(ws, state=tmp_path / "state", policy="ask", approver=approve) as box:
        yield box, ws


LATE = {
    "changed": ("echo ours > same", lambda ws: (ws / "same").write_text("theirs\n"), "ours\n"),
    "replaced": (
        "echo ours > same",
        lambda ws: ((ws / "x").write_text("x"), os.replace(ws / "x", ws / "same")),
        "ours\n",
    ),
    "deleted by them": ("echo ours > same", lambda ws: (ws / "same").unlink(), "ours\n"),
    "deleted by us": ("rm same", lambda ws: (ws / "same").write_text("theirs\n"), None),
    "made by both": ("echo ours > both", lambda ws: (ws / "both").write_text("theirs\n"), "ours\n"),
    "a folder made by both": ("mkdir both; echo ours > both/ours", lambda ws: (ws / "both").mkdir(), None),
    "modes": ("chmod 700 folder", lambda ws: (ws / "folder").chmod(0o750), None),
}


@pytest.mark.parametrize("late", LATE)
def test_e17_what_somebody_changed_last_is_left_out_and_the_rest_counts(tmp_path: Path, late: str):
    command, change, ours = LATE[late]
    with overtaken(tmp_path, change) as (box, ws):
        reply = box.call("bash", {"command": f"{command}; echo mine > mine; mkdir tree; echo mine > tree/leaf"})
        theirs = {path.name: path.read_bytes() for path in ws.iterdir() if path.is_file() and path.name != "mine"}
        assert reply.status == "partial", reply.text
        assert (ws / "mine").read_text() == (ws / "tree/leaf").read_text() == "mine\n"
        (conflict,) = reply.data["conflicts"]
        assert b"ours\n" not in theirs.values()
        if ours is not None:
            shown = box.call("read_file", {"path": conflict["kept"]})
            assert "ours" in shown.text
        box.undo()
        assert not (ws / "mine").exists()
        assert not (ws / "tree").exists()
        assert theirs == {path.name: path.read_bytes() for path in ws.iterdir() if path.is_file()}


def test_e17_a_command_of_which_nothing_is_left_changes_nothing(tmp_path: Path):
    with overtaken(tmp_path, lambda ws: (ws / "same").write_text("theirs\n")) as (box, ws):
        reply = box.call("bash", {"command": "echo ours > same; echo printed"})
        assert "printed" in reply.text
        assert (reply.status, len(reply.data["conflicts"])) == ("partial", 1)
        assert (ws / "same").read_text() == "theirs\n"


@pytest.mark.parametrize("states", ["one state", "two states"])
def test_e17_of_two_toolboxes_no_command_is_lost(tmp_path: Path, states: str):
    (tmp_path / "ws").mkdir()

    def work(me: int) -> list[str]:
        state = tmp_path / ("state" if states == "one state" else f"state{me}")
        with Toolbox.open(tmp_path / "ws", state=state, policy="open") as box:
            make = "echo {me} {n} > same; echo {n} > new{me}.{n}; mkdir tree{me}.{n}"
            move = "; mv new{me}.{before} moved{me}.{before}"
            commands = [(make + (move if n else "")).format(me=me, n=n, before=n - 1) for n in range(20)]
            return [reply.status for each in commands if (reply := box.call("bash", {"command": each}))]

    with ThreadPoolExecutor(2) as both:
        statuses = [status for each in both.map(work, range(2)) for status in each]
    assert {*statuses} <= {"success", "partial"}
    trees = {f"tree{me}.{n}" for me in range(2) for n in range(20)}
    moved = {f"moved{me}.{n}" for me in range(2) for n in range(19)}
    assert {*os.listdir(tmp_path / "ws")} == {"same", "new0.19", "new1.19", *trees, *moved}


def test_e17_links_that_a_command_makes_hold(tmp_path: Path):
    ws = tmp_path / "ws"
    (ws / "from/deep").mkdir(parents=True)
    for name in ("from/one", "from/deep/two"):
        (ws / name).write_text(name)
    pairs = [("from/one", "to/one"), ("from/deep/two", "to/deep/two")]
    with Toolbox.open(ws, state=tmp_path / "state", policy="open") as box:
        box.call("bash", {"command": "cp -al from to"})
        assert all(os.path.samefile(ws / one, ws / other) for one, other in pairs)
        box.undo()
        assert [os.lstat(ws / one).st_nlink for one, _ in pairs] == [1, 1]
        box.redo()
        assert all(os.path.samefile(ws / one, ws / other) for one, other in pairs)
        box.call("bash", {"command": "echo more >> to/one"})
        assert (ws / "from/one").read_text() == "from/one"  # docs/concepts/commands.md: links come apart
