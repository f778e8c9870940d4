"""C-94: random histories of a recorded workspace, followed by an independent model; and kills at any system call."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from handhold import Target, Toolbox
from handhold.backends import quiet_open
from handhold.backends.files.commit import Committer
from handhold.backends.snapshots import copies
from handhold.backends.snapshots.recorder import Recorder
from handhold.core.ports.recording import Window
from tests.backends.snapshots.histories import History, make_history, write
from tests.backends.snapshots.model import Tree, Violation, check, is_same
from tests.faults.crash import MARK, killed, unavailable
from tests.scale import scaled

LENGTH = 30


def run_history(folder: Path, seed: int) -> History:
    history = History(folder)
    try:
        history.run(make_history(seed, LENGTH))
    except Violation as violation:
        violation.add_note(
            f"seed {seed}; shorten it with `python -m tests.backends.snapshots.histories {seed} {seed} {LENGTH}`"
        )
        raise
    finally:
        history.close()
    return history


@pytest.mark.timeout(scaled(60, 1800))
def test_c94_random_histories_keep_what_entries_promise(tmp_path: Path):
    undone = 0
    for seed in range(scaled(25, 500)):
        folder = tmp_path / "history"
        folder.mkdir()
        undone += run_history(folder, seed).model.undone
        shutil.rmtree(folder)
    assert undone >= scaled(25, 500) // 2, "hardly anything was undone"


def without_shared_blocks(patch: pytest.MonkeyPatch) -> None:
    set_default(patch, copies.Copies.__init__, "share", lambda *_: False)


def without_quiet_reading(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(quiet_open, "NO_ACCESS_TIME", 0)


def without_exchange(patch: pytest.MonkeyPatch) -> None:
    set_default(patch, Committer.__init__, "exchange", False)


def set_default(patch: pytest.MonkeyPatch, function: Any, name: str, value: object) -> None:
    patch.setattr(function, "__kwdefaults__", {**function.__kwdefaults__, name: value})


@pytest.mark.parametrize("turn_off", [without_shared_blocks, without_quiet_reading, without_exchange])
def test_c94_random_histories_need_no_call_that_only_linux_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turn_off: Callable[[pytest.MonkeyPatch], None]
):
    turn_off(monkeypatch)
    for seed in range(scaled(3, 50)):
        folder = tmp_path / "history"
        folder.mkdir()
        run_history(folder, 1000 + seed)
        shutil.rmtree(folder)


# --- kills


class Scene(History):
    """A window `one` that changed everything has ended; another one, `two`, is open, and two files changed in it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.box = self.boxes["s"]
        root = self.root
        os.link(root / "a", root / "second")
        self.begin(self.box, "one", None, self.model.observe())
        with (root / "a").open("ab") as file:
            file.write(b"more")
        shutil.rmtree(root / "sub")
        (root / "new" / "empty").mkdir(parents=True)
        os.unlink(root / "link")
        write(self.place(b"link"), b"no link")
        os.chmod(root / "b.txt", 0o755)
        self.end("one")
        self.begin(self.box, "two", None, self.model.observe())
        write(self.place(b"b.txt"), b"pending\n")
        write(self.place(b"new/file"), b"pending\n")

    def end(self, call: str) -> None:
        disk = self.model.observe()
        self.box.snapshots.end("s", call)
        self.follow(self.box, disk, None)
        self.model.windows.clear()

    def check_after_kill(self, disk: Tree) -> None:
        """`disk` is what was there before. The first thing that happens is a scan, in a process that ran already."""
        self.boxes["t"].snapshots.sweep()
        self.boxes["s"] = self.box = self.open("s")
        self.model.follow(self.box, disk, self.model.observe())
        self.finish()
        self.close()  # the next process that opens the workspace removes what a dead one left
        self.boxes = {name: self.open(name) for name in "st"}
        self.box = self.boxes["s"]
        self.check_slots()
        self.undo(self.box, Target.session(), self.model.observe(), with_foreign=True)
        self.finish()

    def check_slots(self) -> None:
        self.box.snapshots.sweep()
        (folder,) = self.state.rglob("shelf")
        slots = {each.name for each in folder.iterdir()} - {"lock"}
        check(slots == {*self.box.store.needed_slots(slots)}, "slots are left over", slots)
        check(not [*folder.with_name("shelf.open").iterdir()], "commands are left open")


@dataclass(frozen=True)
class Act:
    """What a process is killed in."""

    perform: Callable[[Toolbox], object]
    prepare: Callable[[Scene], None] = lambda _: None
    is_scan: bool = False  # it changes nothing on the disk


def leave_copies_due(scene: Scene) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recorder, "copy_some", lambda _: True)
        scene.end("two")


def undo_two(scene: Scene) -> None:
    scene.end("two")
    scene.undo(scene.box, Target.session(), scene.model.observe(), with_foreign=False)


def write_file(box: Toolbox) -> None:
    path = f"{box.files.roots[0]}/b.txt"
    assert box.call("Read", {"file_path": path}).ok
    mark()
    assert box.call("Write", {"file_path": path, "content": "ours\n"}).ok


def mark() -> None:
    os.access(MARK, os.F_OK)


ACTS = {
    "begin": Act(lambda box: box.snapshots.begin(Window(box.session, "three", "Bash")), is_scan=True),
    "end": Act(lambda box: box.snapshots.end("s", "two"), is_scan=True),
    "sweep": Act(lambda box: box.snapshots.sweep(), is_scan=True),
    "copy": Act(lambda box: box.snapshots.complete(), leave_copies_due, is_scan=True),
    "write": Act(write_file),
    "undo": Act(lambda box: box.undo(Target.call("one"))),
    "undo all": Act(lambda box: box.undo(Target.session()), lambda scene: scene.end("two")),
    "redo": Act(lambda box: box.redo(), undo_two),
}


@pytest.mark.skipif(bool(unavailable()), reason=unavailable())
@pytest.mark.timeout(scaled(60, 900))
@pytest.mark.parametrize("name", ACTS)
def test_c94_a_kill_at_any_system_call_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str):
    monkeypatch.setattr(copies, "UNKNOWN_SECONDS", -1)  # copies of a killed process need not be old to be removed
    stops = run_killed(tmp_path, ACTS[name], 0)
    assert stops > 50
    step = scaled(max(60, stops // 4), 5)
    for stop in range(1 + step // 2, stops, step):
        run_killed(tmp_path, ACTS[name], stop)


def run_killed(folder: Path, act: Act, stop: int) -> int:
    """Kill it at this stop, and check what is left; 0 lets it end. Returns the number of stops."""
    folder = folder / "scene"
    folder.mkdir()
    scene = Scene(folder)
    act.prepare(scene)
    scene.box.close()
    disk = scene.model.observe()

    def run() -> None:
        box = scene.open("s")
        if act.perform is not write_file:
            mark()
        act.perform(box)
        mark()

    stops = killed(run, stop)
    try:
        check(is_same(disk, scene.model.observe()) or not act.is_scan, "a scan changed the disk")
        scene.check_after_kill(disk)
    except Violation as violation:
        violation.add_note(f"killed at {stop} of {stops}")
        raise
    finally:
        scene.close()
        shutil.rmtree(folder)
    return stops
