"""C-92: what is in effect of a call after undos and redos decides what the next undo takes back, and nothing else does."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from handhold import Target, Toolbox
from handhold.core.choices import Resolution
from tests.suites.machine import has_shadows


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Toolbox]:
    root = tmp_path / "ws"
    root.mkdir()
    (root / "a").write_text("one\n")
    with Toolbox.open(root, state=tmp_path / "state", policy="open", settings=False) as opened:
        yield opened


def run(box: Toolbox, command: str, call_id: str) -> None:
    reply = box.call("bash", {"command": command}, call_id=call_id)
    assert reply.ok, reply.text


def test_c92_undo_of_a_call_leaves_what_was_redone_with_it_and_again_alone(tmp_path: Path, box: Toolbox):
    for name in ("x", "y"):
        assert box.call("write_file", {"path": name, "content": name}, call_id=name, turn="both").ok
    for target in (Target.turn("both"), Target.call("y")):
        assert box.undo(target).ok
        assert box.redo(target).ok
    assert box.undo(Target.call("x")).ok
    assert not (tmp_path / "ws/x").exists()
    assert (tmp_path / "ws/y").read_text() == "y"
    assert box.redo().ok
    assert box.undo(Target.session()).ok
    assert sorted(path.name for path in (tmp_path / "ws").iterdir()) == ["a"]


@pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")
@pytest.mark.parametrize("take", ["mine", "save", "skip"])
@pytest.mark.parametrize("command", ["sed -i s/one/two/ a", "rm a"])
def test_c92_what_a_redo_left_as_it_was_is_not_undone_and_in_no_undo_s_way(
    tmp_path: Path, box: Toolbox, command: str, take: Resolution
):
    ours = tmp_path / "ws/a"
    run(box, "echo new > n", "first")
    run(box, command, "second")
    assert box.undo().ok
    ours.write_text("mine\n")
    assert box.redo(take=take).ok
    assert ours.read_text() == "mine\n"
    for _ in range(2):
        undone = box.undo(Target.call("second"))
        assert undone.ok, undone.text
        assert box.redo().ok
        assert ours.read_text() == "mine\n"
    undone = box.undo(Target.session())
    assert undone.ok, undone.text
    assert {path.name for path in (tmp_path / "ws").iterdir()} == {"a"}
    assert ours.read_text() == "mine\n"


@pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")
def test_c92_a_redo_that_had_nothing_to_do_is_undone_by_doing_nothing(tmp_path: Path, box: Toolbox):
    root = tmp_path / "ws"
    run(box, "rm a", "removes")
    assert box.undo().ok
    run(box, "mv a b", "moves")
    assert box.redo(Target.call("removes")).ok
    for target in (Target.call("moves"), Target.call("removes")):
        undone = box.undo(target)
        assert undone.ok, undone.text
    assert {path.name: path.read_text() for path in root.iterdir()} == {"a": "one\n"}


def test_c92_a_file_made_twice_by_a_session_and_removed_by_a_person_in_between_is_undone(tmp_path: Path, box: Toolbox):
    for text in ("first\n", "second\n"):
        (tmp_path / "ws/n").unlink(missing_ok=True)
        assert box.call("write_file", {"path": "n", "content": text}).ok
    assert box.undo(Target.session()).ok
    assert not (tmp_path / "ws/n").exists()
    assert box.redo(Target.session()).ok
    assert (tmp_path / "ws/n").read_text() == "second\n"
