"""Calls in an event loop itself: the same reply as ever, or none and at once; nobody is waited for."""

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic

import pytest

from handhold import Rule, Toolbox
from handhold.core.facts import Beginning
from handhold.world.state.database import MOST_HURRIED
from tests.road.conftest import Ground

Make = Callable[[dict[str, str | bytes]], Ground]

LONG = 0.5  # seconds; what does not wait takes some thousandths
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20
SMALL = {
    "a.py": "x = 1\n",
    "empty": "",
    "crlf.txt": b"one\r\ntwo\r\n",
    "latin.txt": "gr\u00fc\u00df\n".encode("latin-1"),
    "binary": b"\x7fELF\0\0",
}
OTHERS = {"large.txt": "a line\n" * 10_000, "picture.png": PNG, "misnamed.txt": PNG, "book.ipynb": "{}"}


def at_once(box: Toolbox, path: str = "a.py", call_id: str = "", **more: object):
    return box.at_once("read_file", {"path": path, **more}, call_id=call_id)


def told(box: Toolbox) -> list[tuple[str, str | None]]:
    return [(entry.call.arguments, entry.outcome and entry.outcome.status) for entry in box.log()]


@pytest.mark.parametrize("path", SMALL)
def test_a_small_text_is_answered_as_by_any_call_and_is_in_the_journal(ground: Make, path: str):
    here = ground({**SMALL})
    box, other = here.open(), here.open(session="other")
    hurried, called = at_once(box, path), other.call("read_file", {"path": path})
    assert hurried is not None
    assert replace(hurried, data={**hurried.data, "time_ms": 0}) == replace(called, data={**called.data, "time_ms": 0})
    assert told(box) == told(other)
    written = box.call("write_file", {"path": path, "content": "x = 2\n"})
    assert (written.status == "error") == (called.status == "error")


@pytest.mark.parametrize("path", [*OTHERS, ".", "absent", "../outside", ""])
def test_whatever_may_take_longer_is_left_to_others_and_nothing_is_done_of_it(ground: Make, path: str):
    box = ground({**OTHERS}).open()
    assert at_once(box, path) is None
    assert told(box) == []


def test_no_other_tool_and_no_wrong_argument_is_answered_at_once(ground: Make):
    box = ground({"a.py": "x = 1\n"}).open()
    assert box.at_once("write_file", {"path": "b.py", "content": ""}) is None
    assert box.at_once("bash", {"command": "true"}) is None
    assert box.at_once("grep", {"pattern": "x"}) is None
    assert box.at_once("read_file", {"path": 7, "offset": "x"}) is None
    assert box.at_once("no_such_tool", {}) is None
    assert told(box) == []


def test_what_may_not_be_read_is_refused_and_a_second_name_is_left_to_others(tmp_path: Path):
    root = tmp_path / "ws"
    root.mkdir()
    (root / "secret.txt").write_text("1234\n")
    (root / "two.txt").write_text("two\n")
    os.link(root / "two.txt", root / "names.txt")
    rule = Rule("secret", "deny", ["read"], "it is secret", ["secret.txt"], ["a.txt"], paths=["secret.txt"])
    with Toolbox.open(root, state=tmp_path / "state", rules=[rule], settings=False) as box:
        refused = at_once(box, "secret.txt")
        assert refused is not None
        assert (refused.code, "1234" in refused.text) == ("DENIED", False)
        assert at_once(box, "names.txt") is None
        assert box.call("read_file", {"path": "names.txt"}).status == "success"


def test_a_call_id_is_done_once_and_one_that_is_under_way_is_not_waited_for(ground: Make):
    here = ground({"a.py": "x = 1\n"})
    box = here.open()
    first = at_once(box, call_id="c1")
    here.write("a.py", b"x = 2\n")
    again = at_once(box, call_id="c1")
    assert first is not None
    assert again == replace(first, replayed=True)
    with box._under_way.alone(("", "c2")):  # pyright: ignore[reportPrivateUsage]
        began = monotonic()
        assert at_once(box, call_id="c2") is None
        assert monotonic() - began < LONG


@contextmanager
def held(state: Path) -> Iterator[None]:
    """Another process writes the journal."""
    writer = sqlite3.connect(next(state.rglob("*.db")), isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        writer.execute("ROLLBACK")
        writer.close()


def test_another_process_that_writes_the_journal_is_not_waited_for(tmp_path: Path):
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws/a.py").write_text("x = 1\n")
    with Toolbox.open(tmp_path / "ws", state=tmp_path / "state") as box:
        assert at_once(box)
        with held(tmp_path / "state"):
            began = monotonic()
            assert [at_once(box) for _ in range(20)] == [None] * 20
            assert monotonic() - began < LONG
        assert at_once(box)
        assert [status for _, status in told(box)] == ["success", "success"]


def test_another_thread_that_writes_the_journal_is_not_waited_for_but_a_call_is_patient(tmp_path: Path):
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws/a.py").write_text("x = 1\n")
    with Toolbox.open(tmp_path / "ws", state=tmp_path / "state") as box:
        writing, enough = threading.Event(), threading.Event()

        def write() -> None:
            with box.store._database.writing():  # type: ignore[attr-defined]
                writing.set()
                enough.wait(30)

        writer = threading.Thread(target=write)
        writer.start()
        assert writing.wait(30)
        began = monotonic()
        assert [at_once(box) for _ in range(100)] == [None] * 100
        assert monotonic() - began < LONG
        threading.Timer(LONG, enough.set).start()
        assert box.call("read_file", {"path": "a.py"}).status == "success"
        writer.join()


def test_a_file_that_is_another_one_by_then_is_left_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    root = tmp_path / "ws"
    root.mkdir()
    (root / "a.py").write_text("x = 1\n")
    with Toolbox.open(root, state=tmp_path / "state") as box:
        begun = type(box.files).begun

        def swapped(files: object, path: str, count: int) -> Beginning:
            found = begun(files, path, count)  # type: ignore[arg-type]
            (root / "a.py").unlink(missing_ok=True)
            (root / "a.py").mkdir()
            return found

        monkeypatch.setattr(type(box.files), "begun", swapped)
        assert at_once(box) is None
        monkeypatch.undo()
        assert box.call("read_file", {"path": "a.py"}).text == "There is nothing in a.py."


def test_the_log_of_the_journal_is_written_back_however_many_are_in_a_hurry(tmp_path: Path):
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws/a.py").write_text("x = 1\n")
    with Toolbox.open(tmp_path / "ws", state=tmp_path / "state") as box:
        for _ in range(MOST_HURRIED * 30):  # now and then somebody writes it back just now
            assert at_once(box) or box.call("read_file", {"path": "a.py"}).status == "success"
        log = next((tmp_path / "state").rglob("*.db-wal"))
        assert log.stat().st_size < 32 * 1024 * 1024
        assert [status for _, status in told(box)].count("success") == MOST_HURRIED * 30
    assert not log.exists()
