"""Toolboxes on one workspace share what is large; a session is small. Counted for 2 and for 20 of them (G-1)."""

import gc
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from handhold import Rule, Toolbox
from handhold.core.errors import NotFound, SettingsBroken
from handhold.shared_workspaces import workspaces
from tests.counting import system_calls
from tests.scale import scaled

READ = ("read_file", {"path": "a.txt"})


class Place:
    """A root, a state folder, and the toolboxes that were opened there."""

    def __init__(self, folder: Path) -> None:
        self.root, self.state = folder / "root", folder / "state"
        self.root.mkdir()
        (self.root / "a.txt").write_text("one\n")
        self.stack = ExitStack()

    def open(self, **more: Any) -> Toolbox:
        return self.stack.enter_context(Toolbox.open(self.root, **{"state": self.state, "settings": False, **more}))


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    with place.stack:
        yield place


def descriptors() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def reads(box: Toolbox) -> str:
    reply = box.call(*READ)
    assert reply.ok, reply.text
    return reply.text


def shares(one: Toolbox, other: Toolbox) -> bool:
    assert (one.files is other.files) == (one.store is other.store)
    return one.files is other.files


def traced(box: Toolbox) -> list[str]:
    """The SQL statements of everybody who shares this connection, from now on."""
    statements = list[str]()
    with box.store._database.connection as connection:  # pyright: ignore[reportAttributeAccessIssue]
        connection.set_trace_callback(statements.append)
    return statements


# --- the cost of one more


def test_g1_twenty_sessions_have_as_many_descriptors_as_two(place: Place):
    for box in (place.open(), place.open()):
        reads(box)
    two = descriptors()
    for _ in range(18):
        reads(place.open())
    assert descriptors() == two


def test_g1_a_further_toolbox_makes_no_connection_asks_the_database_nothing_and_compiles_no_rule(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    first = place.open()
    reads(first)
    statements = traced(first)
    monkeypatch.setattr(sqlite3, "connect", lambda *_, **__: pytest.fail("another connection"))
    for _ in range(3):
        box = place.open()
        assert shares(box, first)
        assert box.policy is first.policy
        assert box.hidden_paths is first.hidden_paths
    assert statements == []


def test_g1_the_cost_of_opening_and_of_a_call_does_not_depend_on_how_many_there_are(place: Place):
    def costs() -> tuple[int, int, int]:
        opening = system_calls(place.open)
        box = place.open()
        reads(box)
        statements = traced(box)
        calls = system_calls(lambda: reads(box))
        return opening, calls, len(statements)

    place.open()
    two = costs()
    for _ in range(18):
        reads(place.open())
    twenty = costs()
    print(f"opening, calls and SQL of a read: {two} with 2, {twenty} with 20")
    assert all(many <= few for few, many in zip(two, twenty, strict=True))


# --- who shares


def test_what_shapes_a_workspace_keeps_toolboxes_apart(place: Place, tmp_path: Path):
    (tmp_path / "more").mkdir()
    (tmp_path / "link").symlink_to("root")
    options: list[dict[str, Any]] = [
        {"state": tmp_path / "other"},
        {"read_only": tmp_path / "more"},
        {"encodings": {"*.txt": "cp1251"}},
        {"undo_bytes": 10**9},
    ]
    boxes = [place.open(), *(place.open(**more) for more in options)]
    boxes.append(place.stack.enter_context(Toolbox.open(tmp_path / "link", state=place.state, settings=False)))
    for one in boxes:
        reads(one)
        assert [other for other in boxes if shares(one, other)] == [one]


def test_what_belongs_to_a_session_does_not(place: Place):
    rule = Rule("no", "deny", ["read"], "no", ["b.txt"], ["a.txt"], paths=["b.txt"])
    options: list[dict[str, Any]] = [
        {"session": "s"},
        {"dialect": "claude"},
        {"policy": "read-only"},
        {"rules": rule},
        {"network": True, "memory": 10**9},
    ]
    boxes = [place.open(), *(place.open(**more) for more in options)]
    assert all(shares(boxes[0], box) for box in boxes)
    (place.root / "b.txt").write_text("two\n")
    assert boxes[0].call("read_file", {"path": "b.txt"}).ok
    assert boxes[4].call("read_file", {"path": "b.txt"}).code == "DENIED"
    assert boxes[3].call("write_file", {"path": "c.txt", "content": "x"}).code == "DENIED"


def test_what_one_session_read_another_did_not(place: Place):
    one, other = place.open(), place.open()
    reads(one)
    edit = {"path": "a.txt", "content": "two\n"}
    assert other.call("write_file", edit).code == "UNREAD"
    assert one.call("write_file", edit).ok


# --- folders and files that change


def test_a_state_folder_that_was_removed_is_not_served_from_memory(place: Place):
    old = place.open()
    reads(old)
    for _ in range(2):  # the inodes of what was removed may be used again
        shutil.rmtree(place.state)
        new = place.open(session="new")
        assert not shares(old, new)
        reads(new)
        assert [entry.call.session for entry in new.log(everyone=True)] == ["new"]
        old = new


def test_a_database_that_was_replaced_is_not_served_from_memory(place: Place, tmp_path: Path):
    old = place.open()
    reads(old)
    (state,) = place.state.iterdir()
    for file in state.glob("state.db*"):
        file.rename(tmp_path / file.name)
    new = place.open()
    assert not shares(old, new)
    assert new.log(everyone=True) == []


def test_a_database_that_was_replaced_while_it_was_closed_is_refused(place: Place, tmp_path: Path):
    box = place.open()
    reads(box)
    box.store.close()
    (state,) = place.state.iterdir()
    (state / "state.db").rename(tmp_path / "state.db")
    reply = box.call(*READ)
    assert (reply.code, "another file" in reply.text) == ("IO_ERROR", True), reply.text
    assert not (state / "state.db").exists()
    (tmp_path / "state.db").rename(state / "state.db")
    reads(box)


def test_a_root_that_was_replaced_is_another_workspace(place: Place, tmp_path: Path):
    old = place.open()
    place.root.rename(tmp_path / "moved")
    with pytest.raises(NotFound):
        place.open()
    place.root.mkdir()
    (place.root / "a.txt").write_text("another\n")
    new = place.open()
    assert not shares(old, new)
    assert "one" in reads(old)
    assert "another" in reads(new)


def test_settings_apply_to_the_next_toolbox_and_broken_ones_refuse_it(place: Place, tmp_path: Path):
    settings = tmp_path / "handhold.toml"
    settings.write_text("")
    before = place.open(settings=settings)
    for mode in ("read-only", "edit"):  # as long as each other is not needed to be noticed
        settings.write_text(f'mode = "{mode}"\n')
        assert place.open(settings=settings).policy.name == mode
    (place.root / "handhold.toml").write_text('mode = "ask"\n')
    assert place.open(settings=settings).policy.name == "ask"
    settings.write_text("mode = \n")
    with pytest.raises(SettingsBroken):
        place.open(settings=settings)
    assert before.policy.name == "edit"
    assert shares(before, place.open())


# --- closing


def test_the_last_toolbox_closes_the_workspace(place: Place):
    before = descriptors()
    boxes = [place.open() for _ in range(5)]
    for box in boxes:
        reads(box)
    for box in boxes:
        assert descriptors() > before
        reads(box)
        box.close()
        box.close()
    assert descriptors() == before
    reads(place.open())


def test_a_toolbox_on_the_parts_of_another_closes_only_itself(place: Place):
    box = place.open()
    with Toolbox.on(box.files, box.store) as other:
        reads(other)
        assert shares(box, place.open())
    reads(box)


def test_closing_a_toolbox_does_not_disturb_a_call_of_another(place: Place):
    asked, go_on = threading.Event(), threading.Event()

    def approve(_: object) -> bool:
        asked.set()
        return go_on.wait(20)

    waiting = place.open(approver=approve, policy="ask")
    others = [place.open() for _ in range(3)]
    with ThreadPoolExecutor(1) as thread:
        call = thread.submit(waiting.call, "write_file", {"path": "new.txt", "content": "x"})
        assert asked.wait(20)
        for other in others:
            other.close()
        go_on.set()
        assert call.result(20).ok
    assert waiting.undo().ok


def test_threads_that_open_call_and_close_lose_nothing(place: Place):
    before = descriptors()

    def work(worker: int) -> None:
        for n in range(scaled(8, 40)):
            with Toolbox.open(place.root, state=place.state, settings=False, session=f"{worker}") as box:
                reads(box)
                assert box.call("write_file", {"path": f"{worker}-{n}", "content": "x"}).ok

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(work, range(6)))
    assert descriptors() == before
    box = place.open()
    entries = box.log(everyone=True)
    assert len(entries) == 6 * scaled(8, 40) * 2
    assert box.store.verify().problem is None  # pyright: ignore[reportAttributeAccessIssue]
    assert sum(key.roots[0].given == str(place.root) for key in workspaces._entries) == 1


def test_a_toolbox_that_cannot_be_opened_leaves_nothing(place: Place, tmp_path: Path):
    before, known = descriptors(), len(workspaces._entries)
    (tmp_path / "broken.toml").write_text("mode = \n")
    for _ in range(3):
        with pytest.raises(SettingsBroken):
            place.open(settings=tmp_path / "broken.toml")
    assert (descriptors(), len(workspaces._entries)) == (before, known)


# --- fork


def test_a_forked_child_shares_neither_the_connection_nor_the_workspace(place: Place):
    box = place.open(session="parent")
    reads(box)
    child = os.fork()
    if not child:
        code = 1
        try:
            inherited = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
            if not any("state.db" in os.readlink(fd) for fd in inherited if os.path.lexists(fd)):
                with Toolbox.open(place.root, state=place.state, settings=False, session="child") as own:
                    code = 0 if own.store is not box.store and own.call(*READ).ok else 3
                    own.call("write_file", {"path": "child.txt", "content": "x"})
        finally:
            os._exit(code)
    reads(box)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    reads(box)
    assert {entry.call.session for entry in box.log(everyone=True)} == {"parent", "child"}
    assert box.store.verify().problem is None  # pyright: ignore[reportAttributeAccessIssue]


def test_a_child_forked_during_a_commit_does_not_keep_the_lock_of_a_root(place: Place):
    reader, writer = os.pipe()
    box = place.open()
    with box.files.exclusive():
        child = os.fork()
        if not child:
            os.close(writer)
            os.read(reader, 1)
            os._exit(0)
    try:
        with box.files.exclusive():
            pass
    finally:
        os.close(writer)
        os.close(reader)
        os.waitpid(child, 0)


# --- many roots

MANY = """
import resource, sys
from pathlib import Path
from handhold import Toolbox
top, count, limit = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
boxes = []
for n in range(count):
    root = top / "roots" / str(n)
    root.mkdir(parents=True)
    (root / "a.txt").write_text(f"this is {n}\\n")
    boxes.append(Toolbox.open(root, state=top / "state", settings=False, session="s"))
for _ in range(2):
    for n, box in enumerate(boxes):
        reply = box.call("read_file", {"path": "a.txt"})
        assert reply.ok and f"this is {n}" in reply.text, (n, reply)
for n, box in enumerate(boxes[::7]):
    assert box.call("write_file", {"path": "new.txt", "content": "x"}).ok
    assert box.undo().ok
for box in boxes:
    box.close()
"""


@pytest.mark.timeout(600)
@pytest.mark.slow
def test_g1_more_toolboxes_on_different_roots_than_descriptors(tmp_path: Path):
    count, limit = scaled(100, 1000), scaled(96, 1024)
    subprocess.run([sys.executable, "-c", MANY, tmp_path, str(count), str(limit)], check=True, timeout=580)


EXHAUSTED = """
import os, resource, sys
from handhold import Toolbox
from handhold.core.errors import ToolError
root, state = sys.argv[1:]
(open(os.path.join(root, "handhold.toml"), "w")).write('mode = "edit"\\n')
with Toolbox.open(root, state=state) as box:  # imports everything
    assert box.call("read_file", {"path": "a.txt"}).ok
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
used = len(os.listdir("/proc/self/fd")) - 1
for room in range(30):
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + room, hard))
    try:
        Toolbox.open(root, state=state).close()
        print("opened")
    except ToolError as error:
        print(error.code, str(getattr(error, "because", "")))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    assert len(os.listdir("/proc/self/fd")) - 1 == used, room
"""


def test_g1_running_out_of_descriptors_is_told_by_its_name(place: Place):
    command = [sys.executable, "-c", EXHAUSTED, place.root, place.state]
    told = subprocess.run(command, check=True, timeout=50, text=True, stdout=subprocess.PIPE).stdout.splitlines()
    assert told.count("IO_ERROR EMFILE: Too many open files") > 2
    assert set(told) == {"opened", "IO_ERROR EMFILE: Too many open files"}
    assert set(told[-10:]) == {"opened"}
