"""C-92: taking back is a three-way merge. What came later stays; where both touch the same lines, a person chooses."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from handhold import Target, Toolbox
from handhold.core.results import UndoResult
from tests.suites.machine import has_shadows

BEFORE = "one\ntwo\nthree\nfour\nfive\n"
CHANGED = "ONE\ntwo\nthree\nfour\nfive\n"  # by the agent
LATER = "ONE\ntwo\nthree\nfour\nfive\nsix\n"  # by a person
REVERSED = "one\ntwo\nthree\nfour\nfive\nsix\n"


class Bed:
    """A workspace, and the agent's ways to change a text in it."""

    def __init__(self, root: Path, box: Toolbox, how: str) -> None:
        self.root, self.box, self.how = root, box, how

    def change(self, old: str = "one", new: str = "ONE", name: str = "a", **options: str) -> None:
        if self.how == "edit":
            self.box.call("read_file", {"path": name})
            arguments = {"path": name, "old": old, "new": new}
            reply = self.box.call("edit_file", arguments, **options)  # pyright: ignore[reportArgumentType]
        else:
            reply = self.box.call("bash", {"command": f"sed -i s/{old}/{new}/ {name}"}, **options)  # pyright: ignore[reportArgumentType]
        assert reply.ok, reply.text

    def write(self, text: str, name: str = "a") -> None:
        (self.root / name).write_text(text)

    def read(self, name: str = "a") -> str:
        return (self.root / name).read_text()


@pytest.fixture(params=["edit", "command"])
def bed(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Bed]:
    if request.param == "command" and not has_shadows():
        pytest.skip("no overlay on this machine")
    root = tmp_path / "ws"
    root.mkdir()
    (root / "a").write_text(BEFORE)
    with Toolbox.open(root, state=tmp_path / "state", policy="open", settings=False) as box:
        yield Bed(root, box, request.param)


BY = pytest.mark.parametrize("target", [None, Target.call("c"), Target.session()], ids=["last", "call", "session"])


@BY
def test_n7_a_line_that_a_person_added_stays_and_the_rest_is_undone_and_redone(bed: Bed, target: Target | None):
    bed.change(call_id="c")
    bed.write(LATER)
    undone = bed.box.undo(target)
    assert undone.ok, undone.text
    assert isinstance(undone.result, UndoResult)
    assert list(undone.result.kept_lines.values()) == [1]
    assert "Kept 1 later line in a." in undone.text
    assert bed.read() == REVERSED
    bed.write(REVERSED.replace("three", "3"))
    assert bed.box.redo().ok
    assert bed.read() == LATER.replace("three", "3")
    assert bed.box.undo(target).ok
    assert bed.read() == REVERSED.replace("three", "3")


def test_c92_calls_are_undone_in_any_order(bed: Bed):
    bed.change(call_id="first")
    bed.change("five", "FIVE", call_id="second")
    bed.change("three", "THREE", call_id="third")
    for call, text in (("first", "one\ntwo\nTHREE\nfour\nFIVE\n"), ("third", "one\ntwo\nthree\nfour\nFIVE\n")):
        reply = bed.box.undo(Target.call(call))
        assert reply.ok, reply.text
        assert bed.read() == text
    assert bed.box.undo().ok
    assert bed.read() == BEFORE


def test_c92_what_another_session_did_in_between_stays(bed: Bed, tmp_path: Path):
    bed.change(turn="t")
    with Toolbox.open(bed.root, state=tmp_path / "state", policy="open", settings=False, session="theirs") as box:
        Bed(bed.root, box, bed.how).change("five", "FIVE")
    bed.change("three", "THREE", turn="t")
    reply = bed.box.undo(Target.turn("t"))
    assert reply.ok, reply.text
    assert bed.read() == "one\ntwo\nthree\nfour\nFIVE\n"


def test_c92_a_preview_shows_the_merge_and_writes_nothing(bed: Bed):
    bed.change()
    bed.write(LATER)
    shown = bed.box.undo(preview=True)
    assert shown.ok
    assert "-ONE" in shown.ui_extra
    assert "six" not in [line[1:] for line in shown.ui_extra.splitlines() if line[:1] in "+-"]
    assert bed.read() == LATER


TOUCHING = "uno\ntwo\nthree\nfour\nfive\nsix\n"
TAKEN = {
    "old": (REVERSED, None),
    "mine": (TOUCHING, None),
    "save": (TOUCHING, BEFORE),
    "skip": (TOUCHING, None),
}


@pytest.mark.parametrize("take", [None, "old", "mine", "save", "skip"])
def test_c92_where_lines_touch_a_person_chooses(bed: Bed, take: str | None):
    (bed.root / "b").write_text(BEFORE)
    bed.change(name="a", turn="t")
    bed.change(name="b", turn="t")
    bed.write(TOUCHING)
    reply = bed.box.undo(Target.turn("t"), take=take)  # pyright: ignore[reportArgumentType]
    if take is None:
        assert reply.code == "UNDO_CONFLICT"
        assert reply.data["paths"] == [str(bed.root / "a")]
        assert reply.data["reasons"] == ["the same lines were changed since"]
        assert "<<<<<<< now\nuno\n" in reply.data["texts"][0]
        assert all(f'"{each}"' in reply.text for each in TAKEN)
        assert (bed.read(), bed.read("b")) == (TOUCHING, CHANGED)
    else:
        assert reply.ok, reply.text
        saved = bed.root / "a.old"
        assert (bed.read(), saved.read_text() if saved.exists() else None) == TAKEN[take]
        assert bed.read("b") == BEFORE
        assert bed.box.redo(take="old").ok
        assert bed.read("b") == CHANGED


def test_c92_what_was_skipped_can_be_undone_after_a_redo(bed: Bed):
    bed.change()
    bed.write(TOUCHING)
    assert bed.box.undo(take="skip").ok
    assert bed.box.redo().ok
    assert bed.read() == TOUCHING
    bed.write(CHANGED)
    assert bed.box.undo().ok
    assert bed.read() == BEFORE


def test_c92_mine_still_reverses_what_does_not_touch(bed: Bed):
    if bed.how == "edit":
        bed.box.call("read_file", {"path": "a"})
        text = CHANGED.replace("five", "FIVE")
        assert bed.box.call("write_file", {"path": "a", "content": text}).ok
    else:
        assert bed.box.call("bash", {"command": "sed -i 's/one/ONE/; s/five/FIVE/' a"}).ok
    bed.write("uno\ntwo\nthree\nfour\nFIVE\n")
    assert bed.box.undo().code == "UNDO_CONFLICT"
    assert bed.box.undo(take="mine").ok
    assert bed.read() == "uno\ntwo\nthree\nfour\nfive\n"


def delete(path: Path) -> None:
    path.unlink()


def move(path: Path) -> None:
    path.rename(path.with_name("moved"))


def recreate(path: Path) -> None:
    path.unlink()
    path.write_text("something else\n")


def make_binary(path: Path) -> None:
    path.write_bytes(b"\0\1")


def replace_by_link(path: Path) -> None:
    path.rename(path.with_name("target"))
    path.symlink_to("target")


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "inside").write_text("theirs")


# What a person did, and whether the undo is a conflict.
CASES: dict[Callable[[Path], None], str] = {
    delete: "deleted or moved since",
    move: "deleted or moved since",
    recreate: "the same lines were changed since",
    make_binary: "changed since, and not a text",
    replace_by_link: "changed since, and not a regular file",
    replace_by_folder: "changed since, and not a regular file",
}


@pytest.mark.parametrize("act", CASES)
def test_c92_what_is_not_merged_is_a_conflict_with_its_reason(bed: Bed, act: Callable[[Path], None]):
    bed.change()
    act(bed.root / "a")
    names = sorted(os.listdir(bed.root))
    reply = bed.box.undo()
    assert (reply.code, reply.data.get("reasons")) == ("UNDO_CONFLICT", [CASES[act]])
    assert sorted(os.listdir(bed.root)) == names
    saved = bed.box.undo(take="save")
    assert saved.ok, saved.text
    assert bed.read("a.old") == BEFORE
    assert sorted(os.listdir(bed.root)) == sorted([*names, "a.old"])


def test_c92_the_old_version_replaces_whatever_is_there_now_and_a_redo_brings_that_back(bed: Bed):
    bed.change()
    make_binary(bed.root / "a")
    assert bed.box.undo(take="old").ok
    assert bed.read() == BEFORE
    assert bed.box.redo().ok
    assert (bed.root / "a").read_bytes() == b"\0\1"


def test_c92_a_mode_that_a_person_set_stays(bed: Bed):
    bed.change()
    (bed.root / "a").chmod(0o755)
    reply = bed.box.undo()
    assert reply.ok, reply.text
    assert bed.read() == BEFORE
    assert (bed.root / "a").stat().st_mode & 0o777 == 0o755


def test_c92_a_created_file_that_somebody_changed_is_not_deleted(bed: Bed):
    if bed.how == "edit":
        assert bed.box.call("write_file", {"path": "new", "content": "agent\n"}).ok
    else:
        assert bed.box.call("bash", {"command": "echo agent > new"}).ok
    bed.write("agent\nperson\n", "new")
    reply = bed.box.undo()
    assert (reply.code, reply.data["reasons"]) == ("UNDO_CONFLICT", ["changed since, and this would delete it"])
    assert bed.box.undo(take="old").ok
    assert not (bed.root / "new").exists()
    assert bed.box.redo().ok
    assert bed.read("new") == "agent\nperson\n"


def test_c92_a_deleted_file_that_somebody_created_again_is_not_overwritten(bed: Bed):
    if bed.how == "edit":
        bed.box.call("read_file", {"path": "a"})
        assert bed.box.call("apply_patch", {"patch": "*** Begin Patch\n*** Delete File: a\n*** End Patch\n"}).ok
    else:
        assert bed.box.call("bash", {"command": "rm a"}).ok
    bed.write("theirs\n")
    reply = bed.box.undo()
    assert (reply.code, reply.data["reasons"]) == ("UNDO_CONFLICT", ["created again since"])
    assert bed.box.undo(take="skip").ok
    assert bed.read() == "theirs\n"


def test_c92_what_somebody_reverted_by_hand_is_undone_already(bed: Bed):
    bed.change()
    bed.write(BEFORE)
    assert bed.box.undo().ok
    assert bed.read() == BEFORE


def test_c92_a_wrong_choice_is_refused(bed: Bed):
    bed.change()
    with pytest.raises(ValueError, match="old, mine, save, skip"):
        bed.box.undo(take="theirs")  # pyright: ignore[reportArgumentType]


@pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")
def test_c92_a_command_whose_texts_are_merged_is_undone_exactly_elsewhere(tmp_path: Path):
    root = tmp_path / "ws"
    (root / "d").mkdir(parents=True)
    (root / "a").write_text(BEFORE)
    (root / "d/b").write_text("b")
    os.utime(root / "d/b", (1, 1))
    inode = (root / "d/b").stat().st_ino
    with Toolbox.open(root, state=tmp_path / "state", policy="open", settings=False) as box:
        assert box.call("bash", {"command": "sed -i s/one/ONE/ a; chmod 600 a; rm -r d; mkdir n; echo n > n/n"}).ok
        (root / "a").write_text(LATER)
        reply = box.undo()
        assert reply.ok, reply.text
        assert (root / "a").read_text() == REVERSED
        assert (root / "a").stat().st_mode & 0o777 == 0o644
        assert ((root / "d/b").stat().st_ino, (root / "d/b").stat().st_mtime) == (inode, 1)
        assert not (root / "n").exists()
        assert box.redo().ok
        assert (root / "a").read_text() == LATER
        assert (root / "a").stat().st_mode & 0o777 == 0o600
        assert not (root / "d").exists()


def link_elsewhere(root: Path) -> None:
    os.link(root / "a", root / "other")
    (root / "a").write_text(LATER)


def add_inside(root: Path) -> None:
    (root / "new/theirs").write_text("theirs")


def change_mode(root: Path) -> None:
    (root / "a").chmod(0o755)


def delete_created(root: Path) -> None:
    shutil.rmtree(root / "new")


def write_as_git(root: Path) -> None:
    (root / ".git/COMMIT_EDITMSG").write_text(LATER)


# A command, what a person did then, and the reason of the conflict, if it is one.
COMMAND_CASES: list[tuple[str, Callable[[Path], None], str]] = [
    ("sed -i s/one/ONE/ a", link_elsewhere, "changed since, and a file with several names"),
    ("mkdir new; echo n > new/n", add_inside, "changed since, and this would delete it"),
    ("chmod 600 a", change_mode, "its mode was changed since"),
    ("mkdir new; echo n > new/n", delete_created, ""),
    ("sed -i s/one/ONE/ .git/COMMIT_EDITMSG", write_as_git, "git has changed it since"),
]


@pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")
@pytest.mark.parametrize(("command", "act", "reason"), COMMAND_CASES)
def test_c92_what_is_not_merged_of_a_command(tmp_path: Path, command: str, act: Callable[[Path], None], reason: str):
    root = tmp_path / "ws"
    (root / ".git").mkdir(parents=True)
    (root / "a").write_text(BEFORE)
    (root / ".git/COMMIT_EDITMSG").write_text(BEFORE)
    with Toolbox.open(root, state=tmp_path / "state", policy="open", settings=False) as box:
        assert box.call("bash", {"command": command}).ok
        act(root)
        reply = box.undo()
        assert reply.data.get("reasons", [""]) == [reason], reply.text
        if reason:
            assert box.undo(take="skip").ok


@pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")
def test_c92_one_path_in_conflict_keeps_all_of_a_command_from_being_undone(tmp_path: Path):
    root = tmp_path / "ws"
    root.mkdir()
    for name in "abc":
        (root / name).write_text(BEFORE)
    with Toolbox.open(root, state=tmp_path / "state", policy="open", settings=False) as box:
        assert box.call("bash", {"command": "sed -i s/one/ONE/ a b; rm c"}).ok
        (root / "a").write_text(LATER)
        (root / "b").write_text(TOUCHING)
        shutil.copytree(root, tmp_path / "copy")
        assert box.undo().code == "UNDO_CONFLICT"
        assert {path.name: path.read_text() for path in root.iterdir()} == {
            path.name: path.read_text() for path in (tmp_path / "copy").iterdir()
        }


def test_c92_a_file_that_is_restored_by_itself_keeps_later_lines(bed: Bed):
    bed.change()
    bed.write(LATER)
    (entry,) = (each for each in bed.box.log() if each.changed)
    bed.box.history.restore(entry, [0])
    assert bed.read() == REVERSED
    assert bed.box.undo().ok
    assert bed.read() == LATER


@pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")
def test_c92_a_secret_file_is_merged_and_not_shown(tmp_path: Path):
    root = tmp_path / "ws"
    root.mkdir()
    (root / ".env").write_text(BEFORE)
    with Toolbox.open(root, state=tmp_path / "state", policy="open", settings=False) as box:
        assert box.call("bash", {"command": "sed -i s/one/ONE/ .env"}).ok
        (root / ".env").write_text(TOUCHING)
        reply = box.undo()
        assert reply.code == "UNDO_CONFLICT"
        assert reply.data["texts"] == [""]
        (root / ".env").write_text(LATER)
        reply = box.undo()
        assert reply.ok, reply.text
        assert "six" not in reply.text + reply.ui_extra
        assert (root / ".env").read_text() == REVERSED
