"""Undo records that a broker could leave if it was killed at the worst moment."""

import os
import time
from pathlib import Path

import pytest

from handhold.backends.files.commit.rollback import Rollback
from handhold.backends.files.undo_log import RecordKind, UndoRecord


class Undo:
    """A workspace, and a rollback in it."""

    def __init__(self, place: Path) -> None:
        self.ws = place / "ws"
        self.command = place / "command"
        self.ws.mkdir()
        self.command.mkdir()
        self.started_ns = 0

    def record(self, kind: RecordKind, name: str, second: str = "", inode: tuple[int, int] = (0, 0)) -> UndoRecord:
        return UndoRecord(kind, inode, 0, 0, 0, 0, 0, 0, str(self.ws / name), second, b"")

    def start(self) -> None:
        time.sleep(0.02)  # more than the kernel's clock ticks
        self.started_ns = time.time_ns()
        time.sleep(0.02)

    def __call__(self, *records: UndoRecord) -> list[str]:
        rollback = Rollback(records, [self.command], started_ns=self.started_ns, is_alone=True)
        rollback.run()
        return [os.path.relpath(path, self.ws) for path in rollback.conflicts]


@pytest.fixture
def undo(tmp_path: Path) -> Undo:
    return Undo(tmp_path)


def inode_of(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_dev, found.st_ino


def test_a_name_that_was_about_to_appear_is_taken_away_if_it_is_new(undo: Undo):
    undo.start()
    (undo.ws / "new").write_text("")
    assert undo(undo.record("create", "new")) == []
    assert not (undo.ws / "new").exists()


def test_one_in_a_folder_of_the_command_is_taken_away_with_it(undo: Undo):
    undo.start()
    (undo.ws / "new").mkdir()
    (undo.ws / "new/x").touch()
    created = undo.record("created", "new", inode=inode_of(undo.ws / "new"))
    assert undo(undo.record("create", "new"), created, undo.record("create", "new/x")) == []
    assert os.listdir(undo.ws) == []


def test_what_is_older_than_the_log_stays(undo: Undo):
    (undo.ws / "old").write_text("old")
    (undo.ws / "empty").mkdir()
    undo.start()
    assert undo(undo.record("create", "old")) == ["old"]
    assert undo(undo.record("create", "empty")) == ["empty"]
    assert (undo.ws / "old").read_text() == "old"
    assert (undo.ws / "empty").exists()


def test_a_folder_with_something_in_it_stays(undo: Undo):
    undo.start()
    (undo.ws / "src").mkdir()
    (undo.ws / "src/main.c").write_text("precious")
    assert undo(undo.record("create", "src")) == ["src"]
    assert (undo.ws / "src/main.c").read_text() == "precious"


def test_a_hard_link_that_was_there_before_stays(undo: Undo):
    (undo.ws / "a").write_text("old")
    (undo.ws / "b").hardlink_to(undo.ws / "a")
    undo.start()
    assert undo(undo.record("link", "b", str(undo.ws / "a"), inode_of(undo.ws / "a"))) == ["b"]
    assert (undo.ws / "b").exists()


def test_the_only_name_of_a_file_stays(undo: Undo):
    undo.start()
    (undo.ws / "a").write_text("old")
    (undo.ws / "b").hardlink_to(undo.ws / "a")
    link = undo.record("link", "b", str(undo.ws / "a"), inode_of(undo.ws / "a"))
    (undo.ws / "a").unlink()  # by somebody else
    assert undo(link, undo.record("ended", "")) == ["b"]
    assert (undo.ws / "b").read_text() == "old"


def test_folders_that_were_exchanged_and_then_removed_are_exchanged_back(undo: Undo):
    for name in ("a", "b"):
        (undo.ws / name).mkdir()
        (undo.ws / name).chmod(0o700 if name == "a" else 0o750)
    one, other = inode_of(undo.ws / "a"), inode_of(undo.ws / "b")
    exchange = undo.record("exchange", "a", str(undo.ws / "b"), one)
    exchanged = undo.record("exchanged", "b", str(undo.ws / "a"), other)
    saves = [
        undo.record("save", "a", inode=one)._replace(mode=0o40700, owner=os.geteuid(), group=os.getegid()),
        undo.record("save", "b", inode=other)._replace(mode=0o40750, owner=os.geteuid(), group=os.getegid()),
    ]
    removes = [undo.record("remove", "a", inode=other), undo.record("remove", "b", inode=one)]
    opened = [os.open(undo.ws / name, os.O_RDONLY) for name in ("a", "b")]  # so their numbers are not used again
    for name in ("a", "b"):
        (undo.ws / name).rmdir()
    assert undo(*saves, exchange, exchanged, *removes, undo.record("ended", "")) == []
    for fd in opened:
        os.close(fd)
    assert [(undo.ws / name).stat().st_mode & 0o777 for name in ("a", "b")] == [0o700, 0o750]
