"""The exchange: a command's changes are put in place exactly, and undone exactly."""

import os
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handhold.backends.files.commit import effects_swapper, file_ops
from handhold.backends.files.roots import Root
from handhold.backends.files.staging_area import LOCK_FILE, RemovalBudget, StagingArea, remove_tree
from handhold.backends.files.workspace import Workspace
from handhold.backends.state.space_totals import DISK_OVERHEAD
from handhold.backends.state.sqlite import SqliteStore
from handhold.core.errors import ContentDropped, OutsideWorkspace, PermissionDenied, ReadOnly, Stale, ToolError
from handhold.core.plans import DirectoryMetadata, StagedContent
from handhold.core.ports.journal import IncompleteTransaction
from tests.faults.commands import Command, Desk, Make, Snapshot, fifo, file, folder, link, snapshot
from tests.faults.trees import NOBODY, Kept, as_nobody
from tests.scale import examples
from tests.suites.files_suite import journalled
from tests.suites.store_suite import slots_of


@pytest.fixture(params=[True, False], ids=["exchange", "by turns"])
def desk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Desk]:
    desk = Desk(tmp_path, exchange=request.param)
    yield desk
    desk.workspace.close()


def furnish(root: Path) -> None:
    """One entry of each kind."""
    file("old file\n", 0o640)(root / "f")
    os.setxattr(root / "f", "user.note", b"mine")
    link("f")(root / "l")
    fifo(root / "p")
    tree = {"a": file("a"), "b": link("../f"), "run": file("#!/bin/sh\n", 0o755), "in": folder({"deep": file("d")})}
    folder(tree)(root / "d")
    for path in (root / "d/in", root / "d", root):
        os.utime(path, ns=(1_000_000_007, 1_500_000_000_123_456_789))


NEW: dict[str, Make] = {
    "file": file("new\n", 0o755, 1_600_000_000_000_000_001),
    "link": link("elsewhere"),
    "dangling link": link("/nowhere"),
    "fifo": fifo,
    "tree": folder({"x": file("x", 0o600), "y": folder({"z": file("z")}), "l": link("x")}),
    "empty tree": folder(),
}


# --- each kind, applied and undone


@pytest.mark.parametrize("old", ["f", "l", "p", "d", "absent"])
@pytest.mark.parametrize("new", [*NEW, "nothing"])
def test_c92_anything_takes_the_place_of_anything_and_comes_back_as_it_was(desk: Desk, old: str, new: str):
    furnish(desk.root)
    before = snapshot(desk.root)
    command = desk.command()
    if new == "nothing":
        if old == "absent":
            return
        command.removes(old)
    else:
        command.puts(old, NEW[new])
    done = desk.commit(command)
    after = snapshot(desk.root)
    assert after != before
    assert {path: what for path, what in after.items() if path.split("/")[0] not in (old, ".")} == {
        path: what for path, what in before.items() if path.split("/")[0] not in (old, ".")
    }
    assert (old in after) == (new != "nothing")
    undone = desk.undo(done)
    assert snapshot(desk.root) == before
    desk.undo(undone)
    assert snapshot(desk.root) == after
    desk.undo(done)
    assert snapshot(desk.root) == before


def test_a_new_thing_comes_with_its_inode_its_time_and_its_attributes(desk: Desk):
    furnish(desk.root)
    command = desk.command()

    def make(path: Path) -> None:
        file("new\n", 0o750, 77)(path)
        os.setxattr(path, "user.made", b"by it")

    command.puts("f", make)
    made = command.changes[0].after
    assert isinstance(made, StagedContent)
    desk.commit(command)
    found = os.stat(desk.root / "f")
    assert (found.st_dev, found.st_ino) == made.inode
    assert found.st_mtime_ns == 77
    assert stat.S_IMODE(found.st_mode) == 0o750
    assert os.getxattr(desk.root / "f", "user.made") == b"by it"


def test_many_things_at_once(desk: Desk):
    furnish(desk.root)
    before = snapshot(desk.root)
    command = desk.command()
    command.puts("f", file("new\n")).removes("l").puts("d/in", file("now a file")).puts("d/n", NEW["tree"])
    command.puts("d/a", link("b")).removes("d/b").puts("p", folder()).chmods("d", 0o700).chmods("", 0o711)
    done = desk.commit(command)
    after = snapshot(desk.root)
    assert {path: what[5] for path, what in after.items()} == {
        ".": None,
        "f": b"new\n",
        "p": None,
        "d": None,
        "d/in": b"now a file",
        "d/a": "b",
        "d/run": b"#!/bin/sh\n",
        "d/n": None,
        "d/n/x": b"x",
        "d/n/y": None,
        "d/n/y/z": b"z",
        "d/n/l": "x",
    }
    assert stat.S_IMODE(os.stat(desk.root / "d").st_mode) == 0o700
    undone = desk.undo(done)
    assert snapshot(desk.root) == before
    desk.undo(undone)
    assert snapshot(desk.root) == after


def test_only_a_mode(desk: Desk):
    furnish(desk.root)
    before = snapshot(desk.root)
    done = desk.commit(desk.command().chmods("d", 0o1777))
    assert stat.S_IMODE(os.stat(desk.root / "d").st_mode) == 0o1777
    desk.undo(done)
    assert snapshot(desk.root) == before


def test_nothing_happens_before_perform_and_what_was_performed_can_be_taken_back(desk: Desk):
    furnish(desk.root)
    before = snapshot(desk.root)
    command = desk.command().puts("f", file("new")).removes("d").puts("n", folder()).chmods("", 0o755)
    with desk.open(command.changes) as transaction:
        assert snapshot(desk.root) == before
        transaction.apply()
        assert snapshot(desk.root) != before
        transaction.roll_back()
        assert snapshot(desk.root) == before
    desk.commit(command.changes)
    assert sorted(os.listdir(desk.root)) == ["f", "l", "n", "p"]


def test_two_commands_are_taken_back_one_after_the_other(desk: Desk):
    furnish(desk.root)
    states = [snapshot(desk.root)]
    done = []
    for n in range(3):
        command = desk.command().puts("f", file(f"{n}")).puts(f"new{n}", NEW["tree"])
        if n:
            command.puts(f"new{n - 1}/x", file(f"changed by {n}"))
        done.append(desk.commit(command))
        states.append(snapshot(desk.root))
    for n in (2, 1, 0):
        done[n] = desk.undo(done[n])
        assert snapshot(desk.root) == states[n]
    for n in (0, 1, 2):
        desk.undo(done[n])
        assert snapshot(desk.root) == states[n + 1]


def test_two_names_of_one_file_stay_two_names(desk: Desk):
    file("old")(desk.root / "a")
    before = snapshot(desk.root)
    command = desk.command().puts("a", file("one file"))
    made = desk.shelf.path(f"{command.id}/1")
    command.changes.clear()
    command._last = 0
    os.rename(made, f"{made}.kept")
    command.puts("a", lambda path: os.rename(f"{made}.kept", path))
    command.puts("b", lambda path: os.link(made, path))
    done = desk.commit(command)
    assert os.stat(desk.root / "a").st_ino == os.stat(desk.root / "b").st_ino
    desk.undo(done)
    assert snapshot(desk.root) == before


# --- refusals


CHANGED: dict[str, Make] = {
    "f": lambda path: path.write_text("theirs"),
    "d": lambda path: (path / "a").write_text("theirs"),
    "d/in": lambda path: (path / "more").write_text("theirs"),
    "l": lambda path: (path.unlink(), path.symlink_to("theirs")),
    "p": lambda path: path.unlink(),
}


@pytest.mark.parametrize("name", CHANGED)
@pytest.mark.parametrize("replaced", [True, False])
def test_c12_what_somebody_changed_before_the_commit_is_stale_and_nothing_changes(
    desk: Desk, name: str, replaced: bool
):
    furnish(desk.root)
    command = desk.command().puts("new", NEW["tree"])
    if replaced:
        command.puts(name, NEW["file"])
    else:
        command.removes(name)
    command.chmods("", 0o755)
    CHANGED[name](desk.root / name)
    before = snapshot(desk.root)
    with pytest.raises(Stale) as refused:
        desk.commit(command)
    assert refused.value.path == str(desk.root / name)
    assert snapshot(desk.root) == before


def test_c12_a_path_that_was_free_and_is_taken_now_is_stale(desk: Desk):
    command = desk.command().puts("a", file("mine")).puts("b", folder())
    file("theirs")(desk.root / "b")
    before = snapshot(desk.root)
    with pytest.raises(Stale):
        desk.commit(command)
    assert snapshot(desk.root) == before


def test_nasty_40_what_changes_behind_an_open_transaction_stays(desk: Desk):
    furnish(desk.root)
    command = desk.command().puts("l", file("mine")).puts("f", file("mine")).puts("new", file("mine"))
    for name, theirs in (("f", b"theirs"), ("new", b"theirs")):
        with desk.open(command.changes) as transaction:
            (desk.root / name).write_bytes(theirs)
            before = snapshot(desk.root)
            with pytest.raises(Stale):
                transaction.apply()
            assert snapshot(desk.root) == before
        (desk.root / "f").unlink(missing_ok=True)
        furnished = desk.command().puts("f", file("again"))
        desk.commit(furnished)
        command = desk.command().puts("l", file("mine")).puts("f", file("mine")).puts("new", file("mine"))


def test_a_file_that_was_written_again_with_the_same_bytes_is_the_same(desk: Desk):
    file("same\n", 0o600)(desk.root / "f")
    command = desk.command().puts("f", file("new\n", 0o600))
    (desk.root / "f").unlink()
    file("same\n", 0o600)(desk.root / "f")
    done = desk.commit(command)
    (desk.root / "f").write_text("new\n")
    desk.undo(done)
    assert (desk.root / "f").read_text() == "same\n"


def test_c92_taking_back_is_refused_after_a_later_change(desk: Desk):
    furnish(desk.root)
    done = desk.commit(desk.command().puts("f", file("new")).puts("t", NEW["tree"]).removes("d"))
    (desk.root / "t/y/z").write_text("later")
    before = snapshot(desk.root)
    with pytest.raises(Stale) as refused:
        desk.undo(done)
    assert refused.value.path == str(desk.root / "t")
    assert snapshot(desk.root) == before


def test_slots_that_had_to_go_are_said_and_nothing_changes(desk: Desk):
    furnish(desk.root)
    command = desk.command().puts("f", file("new"))
    done = desk.commit(command)
    before = snapshot(desk.root)
    desk.kept.drop_slots()
    desk.commit(desk.command().puts("other", file("sweeps")))
    assert not os.path.lexists(desk.shelf.path(command.id))
    with pytest.raises(ContentDropped):
        desk.undo(done)
    (desk.root / "other").unlink()
    os.utime(desk.root, ns=(0, int(str(before["."][4]))))
    assert snapshot(desk.root) == before


def test_c2_a_change_outside_or_of_what_is_only_read_is_refused(tmp_path: Path):
    desk = Desk(tmp_path)
    (tmp_path / "other").mkdir()
    command = desk.command()
    command.root = tmp_path / "other"
    command.puts("f", file("x"))
    with pytest.raises(OutsideWorkspace):
        desk.commit(command)
    workspace = Workspace([desk.root], Kept(), read_only=[tmp_path / "other"], state=desk.state)
    with pytest.raises(ReadOnly), workspace.transaction(command.changes):
        pass
    assert os.listdir(tmp_path / "other") == []


def test_no_link_is_followed_on_the_way(desk: Desk, tmp_path: Path):
    folder({"f": file("old")})(desk.root / "d")
    command = desk.command().puts("d/f", file("new"))
    os.rename(desk.root / "d", tmp_path / "outside")
    (desk.root / "d").symlink_to(tmp_path / "outside")
    with pytest.raises(ToolError):
        desk.commit(command)
    assert (tmp_path / "outside/f").read_text() == "old"


# --- on the disk


def test_a_few_files_are_synced_one_by_one_and_a_tree_with_its_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    desk = Desk(tmp_path, durable=True)
    furnish(desk.root)
    synced: list[str] = []
    fsync = os.fsync

    def one(fd: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{fd}"))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", one)
    monkeypatch.setattr(file_ops, "sync_file_system", lambda fd: synced.append("all"))
    command = desk.command().puts("f", file("new")).removes("d/a").puts("l", link("new"))
    desk.commit(command)
    assert sorted(synced) == sorted(
        map(str, [desk.root / "f", desk.root, desk.root / "d", desk.shelf.path(command.id)])
    )
    synced.clear()
    desk.commit(desk.command().puts("t", NEW["tree"]))
    desk.commit(desk.command().chmods("d", 0o700))
    assert synced == ["all", "all"]


# --- failures half way


@pytest.mark.parametrize("at", range(6))
def test_c62_an_error_at_any_of_its_steps_leaves_nothing(desk: Desk, at: int, monkeypatch: pytest.MonkeyPatch):
    furnish(desk.root)
    before = snapshot(desk.root)
    command = desk.command().puts("f", file("new")).removes("l").puts("d/in", NEW["tree"]).puts("n", file("n"))
    command.removes("p").puts("d/a", file("a"))
    forth = effects_swapper.EffectsSwapper.swap_in
    count = iter(range(100))

    def failing(self: effects_swapper.EffectsSwapper, step: effects_swapper.SwapStep) -> None:
        forth(self, step)
        if next(count) == at:
            raise KeyboardInterrupt

    monkeypatch.setattr(effects_swapper.EffectsSwapper, "swap_in", failing)
    with pytest.raises(KeyboardInterrupt):
        desk.commit(command)
    assert snapshot(desk.root) == before


# --- recovery


def broken(command: Command, transaction: str, *, settled: bool = False) -> IncompleteTransaction:
    return IncompleteTransaction(1, transaction, tuple(command.changes), settled)


@pytest.mark.parametrize("performed", [0, 1, 2, 3, 4, 5])
def test_c62_recovery_takes_back_as_far_as_it_came(desk: Desk, performed: int, monkeypatch: pytest.MonkeyPatch):
    furnish(desk.root)
    before = snapshot(desk.root)
    command = desk.command().puts("f", file("new")).removes("d").puts("n", NEW["tree"]).puts("l", fifo)
    command.chmods("", 0o700)
    with desk.open(command.changes) as transaction:
        forth = effects_swapper.EffectsSwapper.swap_in
        count = iter(range(100))

        def dying(self: effects_swapper.EffectsSwapper, step: effects_swapper.SwapStep) -> None:
            if next(count) == performed:
                raise SystemExit
            forth(self, step)

        monkeypatch.setattr(effects_swapper.EffectsSwapper, "swap_in", dying)
        monkeypatch.setattr(type(transaction), "roll_back", lambda self: None)
        if performed <= 3:
            with pytest.raises(SystemExit):
                transaction.apply()
        else:
            transaction.apply()
    monkeypatch.undo()
    for _ in range(2):
        with desk.workspace.exclusive():
            assert desk.committer.recover(broken(command, transaction.id)) == ()
        assert snapshot(desk.root) == before


def test_c62_recovery_leaves_what_is_settled(desk: Desk):
    furnish(desk.root)
    command = desk.command().puts("f", file("new")).removes("d")
    desk.commit(command)
    after = snapshot(desk.root)
    with desk.workspace.exclusive():
        assert desk.committer.recover(broken(command, "x", settled=True)) == ()
    assert snapshot(desk.root) == after


@pytest.mark.parametrize("name", ["f", "n", "t"])
def test_c62_recovery_leaves_what_somebody_changed_since_and_names_it(desk: Desk, name: str):
    furnish(desk.root)
    command = desk.command().puts("f", file("new")).puts("n", file("n")).puts("t", NEW["tree"]).removes("l")
    desk.commit(command)
    (desk.root / {"t": "t/x"}.get(name, name)).write_text("theirs")
    with desk.workspace.exclusive():
        assert desk.committer.recover(broken(command, "x")) == (str(desk.root / name),)
    assert (desk.root / {"t": "t/x"}.get(name, name)).read_text() == "theirs"
    assert os.readlink(desk.root / "l") == "f"
    desk.kept.drop_slots()
    desk.shelf.sweep(lambda _: ())
    if name == "f":  # the old content is still available
        assert Path(desk.shelf.path(f"{command.id}/1")).read_text() == "old file\n"


# --- checking the current state


def test_what_stands_and_what_lies_on_the_shelf_is_told(desk: Desk):
    furnish(desk.root)
    command = desk.command().puts("f", file("new")).puts("t", NEW["tree"]).puts("l", link("new")).chmods("d", 0o700)
    files = desk.workspace

    def told() -> list[tuple[bool, bool, bool | None, bool | None]]:
        return [
            (
                change.before is not None and files.is_current(change.path, change.before),
                change.after is not None and files.is_current(change.path, change.after),
                files.is_staged(change.before) if isinstance(change.before, StagedContent) else None,
                files.is_staged(change.after) if isinstance(change.after, StagedContent) else None,
            )
            for change in command.changes
        ]

    assert told() == [
        (True, False, False, True),
        (False, False, None, True),
        (True, False, False, True),
        (True, False, None, None),
    ]
    done = desk.commit(command)
    after = [
        (False, True, True, False),
        (False, True, None, False),
        (False, True, True, False),
        (False, True, None, None),
    ]
    assert told() == after
    contents = [
        [
            files.read_staged(each, change.path) if isinstance(each, StagedContent) else None
            for each in (change.before, change.after)
        ]
        for change in done
    ]
    assert contents == [[b"old file\n", b"new"], [None, None], [b"f", b"new"], [None, None]]
    assert files.is_current(str(desk.root), DirectoryMetadata(stat.S_IMODE(desk.root.stat().st_mode)))
    (desk.root / "t/x").write_text("changed")
    (desk.root / "f").write_text("changed")
    assert [each[1] for each in told()] == [False, False, True, True]
    assert files.read_staged(done[0].after, done[0].path) is None  # pyright: ignore[reportArgumentType]


# --- as an unprivileged user


def closed_places(home: Path, exchange: bool) -> None:
    desk = Desk(home, exchange=exchange)
    closed = {"f": file("f", 0o400), "g": file("g", 0o400), "t": folder({"x": file("x")}, 0o555)}
    folder({**closed, "in": folder({"y": file("y", 0o000)}, 0o555)}, 0o555)(desk.root / "ro")
    folder({"z": file("z")})(desk.root / "shut")
    os.utime(desk.root / "ro", ns=(5, 5))
    before = snapshot(desk.root)
    command = desk.command().puts("ro/f", file("new", 0o400)).removes("ro/g").puts("ro/n", folder({}, 0o555))
    command.removes("ro/t").puts("ro/in/y", file("new y", 0o000)).chmods("ro", 0o500)
    command.puts("shut/z", file("zz")).chmods("shut", 0o000)
    done = desk.commit(command)
    after = snapshot(desk.root)
    assert stat.S_IMODE(after["ro"][0]) == 0o500  # pyright: ignore[reportArgumentType]
    assert stat.S_IMODE(after["shut"][0]) == 0  # pyright: ignore[reportArgumentType]
    assert stat.S_IMODE(after["ro/n"][0]) == 0o555  # pyright: ignore[reportArgumentType]
    assert after["ro/f"][5] == b"new"
    undone = desk.undo(done)
    assert snapshot(desk.root) == before
    desk.undo(undone)
    assert snapshot(desk.root) == after
    desk.undo(done)
    assert snapshot(desk.root) == before
    # All of it again, with the process dying at the end.
    with desk.open(command.changes) as transaction:
        transaction.apply()
    with desk.workspace.exclusive():
        assert desk.committer.recover(broken(command, transaction.id)) == ()
    assert snapshot(desk.root) == before


def sticky(home: Path) -> None:
    desk = Desk(home)
    theirs = desk.root / "sticky"
    before = snapshot(desk.root)
    command = desk.command().puts("mine", file("x")).removes("sticky/theirs")
    with pytest.raises(PermissionDenied):
        desk.commit(command)
    assert snapshot(desk.root) == before
    desk.commit(desk.command().puts("sticky/mine", file("x")))
    assert (theirs / "mine").read_text() == "x"


@pytest.mark.parametrize("exchange", [True, False])
def test_0400_files_and_0555_folders_come_and_go(tmp_path: Path, exchange: bool):
    closed_places(tmp_path, exchange)


@pytest.mark.root
@pytest.mark.parametrize("exchange", [True, False])
def test_0400_files_and_0555_folders_come_and_go_for_a_plain_user(plain: Path, exchange: bool):
    as_nobody(lambda: closed_places(plain, exchange))


@pytest.mark.root
def test_what_lies_in_a_sticky_folder_is_its_owners(plain: Path):
    folder({"sticky": folder({"theirs": file("x")}, 0o1777)})(plain / "root")
    os.chown(plain / "root", NOBODY, NOBODY)
    as_nobody(lambda: sticky(plain))


# --- the staging area


def test_the_shelf_lies_in_the_state_folder_on_the_same_mount(tmp_path: Path):
    desk = Desk(tmp_path)
    assert desk.shelf.folder == f"{desk.state}/shelf"
    assert stat.S_IMODE(os.stat(desk.shelf.folder).st_mode) == 0o700


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="needs another file system")
def test_the_shelf_lies_beside_the_root_where_the_state_is_elsewhere(tmp_path: Path):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as state:
        desk = Desk(tmp_path, state=Path(state))
        assert os.path.dirname(desk.shelf.folder) == str(tmp_path / ".root.handhold")
        furnish(desk.root)
        before = snapshot(desk.root)
        desk.undo(desk.commit(desk.command().puts("f", file("new")).removes("d")))
        assert snapshot(desk.root) == before


def test_there_is_no_shelf_inside_a_root(tmp_path: Path):
    (tmp_path / "a/b").mkdir(parents=True)
    outer, inner = (Root.open(path, writable=True) for path in (tmp_path / "a", tmp_path / "a/b"))
    state = tmp_path / "a/state"
    state.mkdir(mode=0o700)
    shelf = StagingArea.for_root(inner, state, [outer])
    assert shelf is None
    beside = StagingArea.for_root(outer, state, [inner])
    assert beside
    assert os.path.dirname(beside.folder) == str(tmp_path / ".a.handhold")
    assert StagingArea.for_root(Root.open("/", writable=True), tmp_path) is None
    workspace = Workspace([tmp_path / "a"], Kept())
    assert workspace.get_staging_area(workspace.open_roots[0]) is None
    workspace.close()


def test_a_shelf_that_others_could_reach_is_none(tmp_path: Path):
    for folder_ in ("root", "state"):
        (tmp_path / folder_).mkdir()
    (tmp_path / "state/shelf").mkdir(mode=0o777)
    (tmp_path / "state/shelf").chmod(0o755)
    (tmp_path / ".root.handhold").symlink_to(tmp_path)
    root = Root.open(tmp_path / "root", writable=True)
    assert StagingArea.for_root(root, tmp_path / "state") is None
    assert not os.listdir(tmp_path / "root")


def test_what_a_dead_process_left_is_swept_and_what_is_needed_or_under_way_is_not(tmp_path: Path):
    shelf = Desk(tmp_path).shelf
    dead, needed, under_way = shelf.create_folder(), shelf.create_folder(), shelf.create_folder()
    for command in (dead, needed):
        folder({"0": file("x"), "deep": folder({"y": file("y", 0)}, 0o000)})(Path(shelf.path(f"{command}/0")))
        shelf.release(command)
    other = StagingArea(shelf.folder)
    other.sweep(lambda _: {needed})
    assert sorted(os.listdir(shelf.folder)) == sorted([needed, under_way, LOCK_FILE])
    shelf.drop(under_way)
    shelf.drop(needed)  # a commit took it over, so the command must not drop it
    assert sorted(os.listdir(shelf.folder)) == sorted([needed, LOCK_FILE])


def test_a_sweep_among_a_few_looks_at_no_others(tmp_path: Path):
    shelf = Desk(tmp_path).shelf
    dead, gone, back, under_way = (
        shelf.create_folder(),
        shelf.create_folder(),
        shelf.create_folder(),
        shelf.create_folder(),
    )
    for command in (dead, gone, back):
        shelf.release(command)
    assert all(shelf.remove(command, RemovalBudget(9)) for command in (gone, "0123456789abcdef"))
    assert sorted(os.listdir(shelf.folder)) == sorted([dead, back, under_way, LOCK_FILE])


def test_what_is_handed_over_while_it_is_looked_at_is_not_swept(tmp_path: Path):
    shelf = Desk(tmp_path).shelf
    command = shelf.create_folder()
    answers = iter([set[str](), {command}])
    shelf.release(command)
    shelf.sweep(lambda _: next(answers))
    assert sorted(os.listdir(shelf.folder)) == sorted([command, LOCK_FILE])


def test_a_command_does_not_go_through_what_others_left(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    desk.commit(desk.command().puts("f", file("one")))
    looks = list[object]()
    listdir = os.listdir
    monkeypatch.setattr(os, "listdir", lambda folder: looks.append(folder) or listdir(folder))
    monkeypatch.setattr(desk.kept, "needed_slots", lambda asked: looks.append("slots") or desk.kept.commands)
    desk.commit(desk.command().puts("f", file("two")))
    desk.shelf.drop(desk.command().id)
    assert not looks


@dataclass
class OnDisk:
    files: Workspace
    store: SqliteStore


def test_u8_what_is_kept_of_commands_is_bounded_and_what_had_to_go_is_said(tmp_path: Path):
    root, state = tmp_path / "root", tmp_path / "state"
    root.mkdir()
    (root / "f").write_bytes(bytes(1000))
    block = (root / "f").stat().st_blocks * 512 + DISK_OVERHEAD.slot  # disk space of each
    bound = block * 7 // 2
    with closing(SqliteStore(state, bound=bound)) as store, closing(Workspace([root], store, state=state)) as files:
        shelf = files.get_staging_area(files.open_roots[0])
        assert shelf
        done = []
        for n in range(8):
            command = Command(shelf, root).puts("f", file(bytes([n]) * 1000))
            journalled(OnDisk(files, store), command.changes)
            done.append(command.changes)
            lie = [name for name in os.listdir(shelf.folder) if name != LOCK_FILE]
            assert len(lie) <= 4  # three, and one that the last reply announced as about to be dropped
            assert set(lie) >= slots_of(store)
        kept = [entry.kept for entry in store.entries()]
        assert kept == [False] * 4 + [True] * 4
        for n in (7, 6, 5):
            journalled(OnDisk(files, store), [change.invert() for change in done[n]])
            assert (root / "f").read_bytes() == bytes([n - 1]) * 1000
        with pytest.raises(ContentDropped):
            journalled(OnDisk(files, store), [change.invert() for change in done[4]])
        assert (root / "f").read_bytes() == bytes([4]) * 1000


def test_a_tree_of_any_depth_is_removed(tmp_path: Path):
    fd = os.open(tmp_path, os.O_RDONLY)
    os.mkdir("top", dir_fd=fd)
    below = os.open("top", os.O_RDONLY, dir_fd=fd)
    for _ in range(1500):
        os.mkdir("deeper", dir_fd=below)
        inner = os.open("deeper", os.O_RDONLY, dir_fd=below)
        os.close(below)
        below = inner
    os.close(below)
    remove_tree("top", fd)
    os.close(fd)
    assert os.listdir(tmp_path) == []


def test_nothing_odd_is_left_on_the_shelf(desk: Desk):
    furnish(desk.root)
    command = desk.command().puts("f", file("new")).removes("d").puts("n", file("n"))
    desk.undo(desk.commit(command))
    desk.commit(command)
    assert sorted(os.listdir(desk.shelf.path(command.id))) == ["1", "2", "note"]


# --- properties


@given(st.data())
@settings(max_examples=examples(60), deadline=None)
def test_c92_a_command_is_always_taken_over_whole_and_taken_back_exactly(data: st.DataObject):
    with tempfile.TemporaryDirectory() as home:
        desk = Desk(Path(home), exchange=data.draw(st.booleans(), "exchange"))
        furnish(desk.root)
        states = [snapshot(desk.root)]
        done = []
        for _ in range(data.draw(st.integers(1, 3), "commands")):
            command = desk.command()
            places = data.draw(st.sets(st.sampled_from(["f", "l", "p", "d", "new", "other"]), min_size=1))
            for name in sorted(places):
                new = data.draw(st.sampled_from([*NEW, "nothing"]), name)
                if new != "nothing":
                    command.puts(name, NEW[new])
                elif os.path.lexists(desk.root / name):
                    command.removes(name)
            if not command.changes:
                continue
            done.append(desk.commit(command))
            states.append(snapshot(desk.root))
        for n in reversed(range(len(done))):
            done[n] = desk.undo(done[n])
            assert snapshot(desk.root) == states[n]
        for n in range(len(done)):
            desk.undo(done[n])
            assert snapshot(desk.root) == states[n + 1]
        desk.workspace.close()


# --- in a container


@pytest.mark.root
@pytest.mark.parametrize("exchange", [True, False])
def test_a_folder_of_an_image_layer_is_copied_out_and_comes_back(tmp_path: Path, exchange: bool):
    """On an overlay, a directory of the lower layer cannot be renamed."""
    if os.geteuid() != 0:
        pytest.skip("only root mounts")
    for name in ("lower", "upper", "work", "merged"):
        (tmp_path / name).mkdir()
    image = tmp_path / "lower/root"
    image.mkdir()
    furnish(image)
    (image / "d/large").write_bytes(b"large" * 1_000_000)
    os.link(image / "d/run", image / "d/ran")
    os.chown(image / "d/a", NOBODY, NOBODY)
    layers = f"lowerdir={tmp_path}/lower,upperdir={tmp_path}/upper,workdir={tmp_path}/work,redirect_dir=off"
    mounted = subprocess.run(
        ["mount", "-t", "overlay", "overlay", "-o", layers, tmp_path / "merged"], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"no overlays here: {mounted.stderr.decode()}")
    try:
        desk = Desk(tmp_path / "merged", exchange=exchange)
        with closing(desk.workspace):
            with pytest.raises(OSError, match="cross-device"):
                os.rename(desk.root / "d", desk.state / "d")
            before = snapshot(desk.root)
            for change in ("removed", "replaced"):
                command = desk.command().puts("f", file("new")).puts("n", NEW["tree"])
                if change == "removed":
                    command.removes("d").removes("p")
                else:
                    command.puts("d", file("in its place"))
                done = desk.commit(command)
                assert timeless(snapshot(desk.root)) != timeless(before)
                undone = desk.undo(done)
                assert timeless(snapshot(desk.root)) == timeless(before)
                assert os.stat(desk.root / "d/run").st_nlink == 2
                desk.undo(undone)
                desk.undo(done)
                assert timeless(snapshot(desk.root)) == timeless(before)
    finally:
        subprocess.run(["umount", tmp_path / "merged"], check=True)


def timeless(seen: Snapshot) -> Snapshot:
    """Without inodes, since a copy has its own."""
    return {path: (*what[:3], *what[4:]) for path, what in seen.items()}
