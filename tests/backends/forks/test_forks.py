"""Forks: what a program sees in one, what stays of it, and how it is merged, as root and as a plain user."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

from handhold import Toolbox
from handhold.backends.forks import fork_folder, fork_store
from handhold.backends.forks.entries import TreeReader
from handhold.backends.forks.fork_mount import RunningProgram, find_fork_bubblewrap
from handhold.backends.forks.fork_store import ForkStore
from handhold.core.errors import Denied, ForkUnavailable, MergeConflict, NotApproved
from handhold.core.policy.rules import Rule
from tests.backends.shell.forked import as_user
from tests.faults.trees import tree

needs_git = pytest.mark.skipif(not shutil.which("git"), reason="texts are merged by git")
TEXT = "".join(f"line {n}\n" for n in range(1, 10))


def lay(place: Path) -> Path:
    root = place / "work"
    (root / "src").mkdir(parents=True)
    (root / "old/deep").mkdir(parents=True)
    (root / "src/a.txt").write_text(TEXT)
    (root / "b.txt").write_text("b\n")
    (root / "old/one").write_text("1\n")
    (root / "old/deep/two").write_text("2\n")
    return root


def open_box(place: Path, **options: object) -> Toolbox:
    return Toolbox.open(place / "work", state=place / "state", **options)  # pyright: ignore[reportArgumentType]


def sh(box: Toolbox, name: str, script: str) -> int:
    return box.fork(name).run(["sh", "-c", f"set -e; {script}"])


def run(who: str, place: Path, work: Callable[[Toolbox, Path], None]) -> None:
    def do() -> None:
        root = lay(place)
        with open_box(place) as box:
            work(box, root)

    as_user(who, do)


def leftovers(place: Path) -> list[str]:
    return [str(path.relative_to(place)) for path in (place / "state").rglob("*") if "fork" in path.name]


# --- one fork


def test_a_program_in_a_fork_changes_nothing_outside_until_the_merge_and_one_undo_takes_it_back(who: str, place: Path):
    def work(box: Toolbox, root: Path) -> None:
        before = tree(root)
        script = "sed -i s/2$/two/ src/a.txt; rm -r old; mkdir old; echo 3 >old/three; rm b.txt; ln -s src link; chmod 700 src"
        assert sh(box, "try", script) == 0
        assert tree(root) == before
        assert "+line two" in box.forks.get("try").diff()
        report = box.forks.get("try").merge()
        assert report.dropped
        assert (root / "src/a.txt").read_text() == TEXT.replace("line 2\n", "line two\n")
        assert sorted(os.listdir(root)) == ["link", "old", "src"]
        assert os.listdir(root / "old") == ["three"]
        assert (root / "src").stat().st_mode & 0o777 == 0o700
        assert leftovers(place) == []
        assert box.undo().ok
        assert tree(root) == before
        assert [entry.call.tool for entry in box.log()] == ["merge", "undo"]

    run(who, place, work)


def test_a_fork_has_the_exit_status_the_home_and_the_path_of_the_workspace(who: str, place: Path):
    def work(box: Toolbox, root: Path) -> None:
        home = place / "home"
        home.mkdir()
        os.environ["HOME"] = str(home)
        assert sh(box, "try", 'pwd >where; echo "$HANDHOLD_FORK" >name; echo kept >"$HOME/file"; exit 7') == 7
        assert (home / "file").read_text() == "kept\n"
        box.fork("try").merge()
        assert ((root / "where").read_text(), (root / "name").read_text()) == (f"{root}\n", "try\n")

    run(who, place, work)


def test_a_fork_lasts_from_one_program_to_the_next_and_dropping_it_leaves_no_trace(who: str, place: Path):
    def work(box: Toolbox, root: Path) -> None:
        assert sh(box, "try", "echo 1 >new; chmod 000 new; mkdir closed; chmod 500 closed") == 0
        (root / "later").write_text("from the base\n")
        assert sh(box, "try", "test -e new; cat later >copy; rm later") == 0
        assert [fork.name for fork in box.forks] == ["try"]
        assert (root / "later").exists()
        box.forks.get("try").drop()
        assert leftovers(place) == []
        with pytest.raises(ForkUnavailable):
            box.forks.get("try")

    run(who, place, work)


def test_background_processes_end_with_the_program(who: str, place: Path):
    def work(box: Toolbox, root: Path) -> None:
        assert sh(box, "try", "(sleep 2; echo late >late) & echo soon >soon") == 0
        box.fork("try").merge()
        time.sleep(2.5)
        assert (root / "soon").exists()
        assert not (root / "late").exists()

    run(who, place, work)


def test_a_fork_in_use_is_neither_merged_nor_dropped_but_shown(who: str, place: Path):
    def work(box: Toolbox, root: Path) -> None:
        fork = box.fork("try")
        ready = place / "ready"

        def wait(program: RunningProgram) -> int:
            while not ready.exists():
                time.sleep(0.01)
            assert fork.is_running
            for act in (fork.merge, fork.drop, lambda: fork.run(["true"])):
                with pytest.raises(ForkUnavailable):
                    act()
            assert "+in the fork" in fork.diff()
            ready.unlink()
            return program.wait()

        script = f"echo in the fork >new; touch {ready}; while test -e {ready}; do sleep 0.02; done"
        assert fork.run(["sh", "-c", script], wait=wait) == 0
        assert not fork.is_running
        fork.merge()
        assert (root / "new").exists()

    run(who, place, work)


@pytest.mark.parametrize("changed", [False, True])
def test_a_killed_fork_keeps_its_work(who: str, place: Path, changed: bool):
    """Neither the program nor we get to record what it started from. Who changes that before the next mount conflicts."""

    def work(box: Toolbox, root: Path) -> None:
        ready = place / "ready"
        box.fork("try")
        child = os.fork()
        if not child:
            try:
                with open_box(place) as own:
                    own.fork("try").run(["sh", "-c", f"echo fork >>src/a.txt; touch {ready}; exec sleep 60"])
            finally:
                os._exit(0)
        while not ready.exists():
            time.sleep(0.01)
        os.kill(child, 9)
        os.waitpid(child, 0)
        while box.fork("try").is_running:  # the kernel ends what ran in it
            time.sleep(0.01)
        if changed:
            (root / "src/a.txt").write_text(f"first\n{TEXT}")
            with pytest.raises(MergeConflict):
                box.fork("try").merge()
        box.fork("try").merge(take="fork" if changed else "")
        assert (root / "src/a.txt").read_text() == f"{TEXT}fork\n"

    run(who, place, work)


# --- both sides changed


@needs_git
def test_changes_to_different_lines_are_merged(who: str, place: Path):
    def work(box: Toolbox, root: Path) -> None:
        assert sh(box, "try", "sed -i s/2$/two/ src/a.txt; chmod 755 src/a.txt") == 0
        (root / "src/a.txt").write_text(TEXT.replace("line 8", "line eight"))
        box.fork("try").merge()
        assert (root / "src/a.txt").read_text() == TEXT.replace("line 2", "line two").replace("line 8", "line eight")
        assert (root / "src/a.txt").stat().st_mode & 0o777 == 0o755

    run(who, place, work)


@needs_git
def test_merging_again_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As after a merge that was killed before it removed the fork."""
    root = lay(tmp_path)
    with open_box(tmp_path) as box:
        assert sh(box, "try", "sed -i s/2$/two/ src/a.txt; rm b.txt; chmod 700 old; chmod 600 old/one") == 0
        (root / "src/a.txt").write_text(TEXT.replace("line 8", "line eight"))
        (root / "old/one").write_text("changed\n")
        monkeypatch.setattr(ForkStore, "remove", lambda _self, _fork: None)
        assert len(box.fork("try").merge().paths) == 4
        before = tree(root)
        monkeypatch.undo()
        report = box.fork("try").merge()
        assert (report.paths, report.dropped) == ([], True)
        assert tree(root) == before


@needs_git
def test_a_conflict_shows_both_sides_and_writes_nothing(who: str, place: Path):
    def work(box: Toolbox, root: Path) -> None:
        assert sh(box, "try", "sed -i s/2$/fork/ src/a.txt; echo new >new; rm b.txt") == 0
        (root / "src/a.txt").write_text(TEXT.replace("line 2", "line base"))
        (root / "b.txt").write_text("changed\n")
        before = tree(root)
        with pytest.raises(MergeConflict) as caught:
            box.fork("try").merge()
        assert caught.value.paths == (str(root / "b.txt"), str(root / "src/a.txt"))
        assert "line fork" in caught.value.texts[1]
        assert "line base" in caught.value.texts[1]
        assert tree(root) == before
        report = box.fork("try").merge(take={"": "base", "src/a.txt": "fork"})
        assert report.dropped
        assert (root / "b.txt").read_text() == "changed\n"
        assert "line fork" in (root / "src/a.txt").read_text()
        assert (root / "new").exists()

    run(who, place, work)


SAME_TIMES = "cp -p {path} {path}.keep; printf other >{path}.new; touch -r {path}.keep {path}.new; mv {path}.new {path}; rm {path}.keep"
CHANGED = {  # what somebody else does to b.txt, which a binary merge cannot resolve
    "rewritten": "printf 'x\\0y' >b.txt",
    "replaced, with the old time": SAME_TIMES.format(path="b.txt"),
    "deleted": "rm b.txt",
    "replaced by a folder": "rm b.txt; mkdir b.txt",
    "replaced by a link": "rm b.txt; ln -s src/a.txt b.txt",
    "written through another name": "ln b.txt ../other; printf other >../other; rm ../other",
    "restored from a snapshot": "printf older >../older; touch -d @1000000 ../older; cp -a ../older b.txt; rm ../older",
}


@pytest.mark.parametrize("how", CHANGED)
def test_what_somebody_else_changed_is_never_overwritten(who: str, place: Path, how: str):
    def work(box: Toolbox, root: Path) -> None:
        assert sh(box, "try", "printf 'from\\0fork' >b.txt") == 0
        subprocess.run(["sh", "-c", CHANGED[how]], cwd=root, check=True)
        before = tree(root)
        with pytest.raises(MergeConflict):
            box.fork("try").merge()
        assert tree(root) == before

    run(who, place, work)


WHILE_MOUNTED = {
    "rewritten": "printf other >src/a.txt",
    "replaced, with the old time": SAME_TIMES.format(path="src/a.txt"),
    "deleted": "rm src/a.txt",
    "in a folder that was swapped for an older one": "mv src gone; mv old src",
    "in a folder that was swapped and written to": "mv src gone; mv old src; touch src/more",
}


@pytest.mark.parametrize("how", WHILE_MOUNTED)
def test_what_changes_while_the_fork_is_mounted_is_never_overwritten(who: str, place: Path, how: str):
    def work(box: Toolbox, root: Path) -> None:
        (root / "old/a.txt").write_text("older\n")
        go, ready = place / "go", place / "ready"

        def wait(program: RunningProgram) -> int:
            while not ready.exists():
                time.sleep(0.01)
            subprocess.run(["sh", "-c", WHILE_MOUNTED[how]], cwd=root, check=True)
            go.touch()
            return program.wait()

        script = f"echo fork >>src/a.txt; touch {ready}; while ! test -e {go}; do sleep 0.02; done"
        assert box.fork("try").run(["sh", "-c", script], wait=wait) == 0
        before = tree(root)
        with pytest.raises(MergeConflict):
            box.fork("try").merge()
        assert tree(root) == before

    run(who, place, work)


@pytest.mark.parametrize("hours", [-3, 3])
def test_a_clock_that_is_set_while_the_fork_is_mounted_hides_no_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours: int
):
    """The file system has the clock's time, too: what is changed after it was set back seems older than the mount."""
    root = lay(tmp_path)
    step, now = hours * 3600 * 1_000_000_000, time.time_ns
    stat_of, is_set = TreeReader.stat, [False]

    def stat_stepped(reader: TreeReader, rel: str) -> os.stat_result | None:
        """What somebody else wrote since has a ctime by the new clock."""
        found = stat_of(reader, rel)
        if found is None or not is_set[0] or rel != "src/a.txt" or b"base" not in (root / rel).read_bytes():
            return found
        values = {name: getattr(found, name) for name in dir(found) if name.startswith("st_")}
        values["st_ctime_ns"] = found.st_ctime_ns + step
        return SimpleNamespace(**values)  # pyright: ignore[reportReturnType]

    def wait(program: RunningProgram) -> int:
        status = program.wait()
        (root / "src/a.txt").write_text(f"base\n{TEXT}")
        is_set[0] = True
        monkeypatch.setattr(time, "time_ns", lambda: now() + step)
        return status

    monkeypatch.setattr(TreeReader, "stat", stat_stepped)
    with open_box(tmp_path) as box:
        assert box.fork("try").run(["sh", "-c", "printf 'from\\0fork' >src/a.txt"], wait=wait) == 0
        with pytest.raises(MergeConflict):
            box.fork("try").merge()
    assert (root / "src/a.txt").read_text() == f"base\n{TEXT}"


def test_what_a_fork_sees_of_a_workspace_that_changes_meanwhile(who: str, place: Path):
    """Pinned, not promised: a file that was not looked at yet is the new one; at the next mount, all are."""

    def work(box: Toolbox, root: Path) -> None:
        go, ready = place / "go", place / "ready"

        def wait(program: RunningProgram) -> int:
            while not ready.exists():
                time.sleep(0.01)
            (root / "b.txt").write_text("new\n")
            (root / "created").write_text("new\n")
            go.touch()
            return program.wait()

        script = f"touch {ready}; while ! test -e {go}; do sleep 0.02; done; cat b.txt created >{place}/seen"
        assert box.fork("try").run(["sh", "-c", script], wait=wait) == 0
        assert (place / "seen").read_text() == "new\nnew\n"
        assert sh(box, "try", f"cat b.txt created >{place}/again") == 0
        assert (place / "again").read_text() == "new\nnew\n"

    run(who, place, work)


def test_the_same_change_in_both_is_no_conflict(who: str, place: Path):
    def work(box: Toolbox, root: Path) -> None:
        assert sh(box, "try", "echo same >b.txt; echo same >new; rm -r old") == 0
        (root / "b.txt").write_text("same\n")
        (root / "new").write_text("same\n")
        shutil.rmtree(root / "old")
        report = box.fork("try").merge()
        assert (report.paths, report.dropped) == ([], True)

    run(who, place, work)


def test_a_folder_that_both_created(who: str, place: Path):
    """What the workspace put there is the fork's ancestor if the fork saw it, and not if the fork had made its own."""

    def work(box: Toolbox, root: Path) -> None:
        assert sh(box, "try", "mkdir new; echo mine >new/own") == 0
        (root / "new").mkdir()
        for name in ("seen", "gone"):
            (root / "new" / name).write_text(TEXT)
        assert sh(box, "try", "echo more >>new/seen; rm new/gone") == 0
        box.fork("try").merge()
        assert (root / "new/seen").read_text() == f"{TEXT}more\n"
        assert sorted(os.listdir(root / "new")) == ["own", "seen"]

        assert sh(box, "try", "mkdir -p other/deep; echo mine >other/deep/own") == 0
        (root / "other/deep").mkdir(parents=True)
        (root / "other/deep/own").write_text("theirs\n")
        assert sh(box, "try", "echo again >>other/deep/own") == 0
        with pytest.raises(MergeConflict):
            box.fork("try").merge()
        assert (root / "other/deep/own").read_text() == "theirs\n"

    run(who, place, work)


def test_files_that_were_added_to_a_deleted_folder_stay(who: str, place: Path):
    def work(box: Toolbox, root: Path) -> None:
        assert sh(box, "try", "rm -r old") == 0
        (root / "old/added").write_text("added\n")
        box.fork("try").merge()
        assert os.listdir(root / "old") == ["added"]

    run(who, place, work)


@pytest.mark.parametrize(
    "second", ["rm -r old", "rm -r old; echo file >old", "mkdir old/deep; echo mine >old/deep/new"]
)
def test_what_the_workspace_adds_where_the_fork_sees_nothing_any_more_is_not_lost(tmp_path: Path, second: str):
    root = lay(tmp_path)
    with open_box(tmp_path) as box:
        assert sh(box, "try", "rm -r old/deep") == 0
        (root / "old/deep/new").write_text("precious\n")
        assert sh(box, "try", second) == 0
        if second == "rm -r old":
            box.fork("try").merge()
        else:
            with pytest.raises(MergeConflict):
                box.fork("try").merge()
    assert (root / "old/deep/new").read_text() == "precious\n"


def test_a_file_that_a_folder_of_the_fork_hid_is_not_replaced(tmp_path: Path):
    root = lay(tmp_path)
    with open_box(tmp_path) as box:
        assert sh(box, "try", "rm -r old") == 0
        (root / "old/deep/new").write_text("precious\n")
        assert sh(box, "try", "mkdir old; echo file >old/deep") == 0
        with pytest.raises(MergeConflict):
            box.fork("try").merge()
    assert (root / "old/deep/new").read_text() == "precious\n"


BASE_TAKEN = {  # what the fork does, what the workspace does, and the path that both have
    "a file where the fork has folders": ("mkdir -p old/d/e; echo 1 >old/d/e/f", "echo precious >old/d", "old/d"),
    "the same at the top": ("mkdir -p d/e; echo 1 >d/e/f", "echo precious >d", "d"),
    "a folder where the fork has a file": ("rm -r old; echo F >old", "echo N >old/new", "old"),
}


@pytest.mark.parametrize("how", BASE_TAKEN)
def test_with_the_workspaces_side_everything_at_and_below_a_path_stays(tmp_path: Path, how: str):
    root, (fork, base, path) = lay(tmp_path), BASE_TAKEN[how]
    with open_box(tmp_path) as box:
        assert sh(box, "try", f"{fork}; echo new >other") == 0
        subprocess.run(["sh", "-c", base], cwd=root, check=True)
        before = tree(root)
        with pytest.raises(MergeConflict) as caught:
            box.fork("try").merge()
        assert caught.value.paths == (str(root / path),)
        assert box.fork("try").merge(take="base").paths == [str(root / "other")]
        (root / "other").unlink()
        assert tree(root) == before


def test_folders_that_cannot_be_entered_are_shown_and_merged_with_their_mode(who: str, place: Path):
    def work(box: Toolbox, root: Path) -> None:
        script = "mkdir -p n/m; echo 1 >n/m/f; chmod 000 n/m; chmod 200 n; mkdir -m 000 empty; echo w >w; chmod 000 w"
        assert sh(box, "try", script) == 0
        seen = box.forks.get("try").inspect()
        assert "n/m/f" in seen.diff
        assert box.forks.get("try").merge(expected_digest=seen.digest).dropped
        modes = [(root / name).stat().st_mode & 0o777 for name in ("n", "empty", "w")]
        (root / "n").chmod(0o700)
        assert [*modes, (root / "n/m").stat().st_mode & 0o777] == [0o200, 0, 0, 0]
        (root / "n/m").chmod(0o700)
        assert (root / "n/m/f").read_text() == "1\n"

    run(who, place, work)


@pytest.mark.root
def test_a_link_with_another_owner_in_the_fork_and_another_target_in_the_workspace_is_a_conflict(tmp_path: Path):
    root = lay(tmp_path)
    (root / "link").symlink_to("b.txt")
    with open_box(tmp_path) as box:
        assert sh(box, "try", "chown -h 1:1 link") == 0
        (root / "link").unlink()
        (root / "link").symlink_to("src")
        with pytest.raises(MergeConflict):
            box.fork("try").merge()
        box.fork("try").merge(take="fork")
    assert ((root / "link").readlink(), (root / "link").lstat().st_uid) == (Path("b.txt"), 1)


def test_a_folder_has_a_new_time_only_if_a_name_came_or_went(tmp_path: Path):
    root = lay(tmp_path)
    with open_box(tmp_path) as box:
        assert sh(box, "try", "echo 1 >src/new; rm old/deep/two; echo more >>old/one") == 0
        for folder in (root / "src", root / "old/deep", root / "old", root):
            os.utime(folder, (1, 1))
        box.fork("try").merge()
    changed = [(root / name).stat().st_mtime != 1 for name in ("src", "old/deep", "old", "")]
    assert changed == [True, True, False, False]


def test_the_mode_of_the_root_itself_is_named(tmp_path: Path):
    root = lay(tmp_path)
    root.chmod(0o755)
    with open_box(tmp_path) as box:
        assert sh(box, "try", "chmod 700 .; echo 1 >new") == 0
        report = box.fork("try").merge()
        assert ("mode 700" in report.notes[0], report.dropped) == (True, False)
        root.chmod(0o700)
        assert box.fork("try").merge().dropped


@needs_git
def test_a_merge_makes_no_files_outside_the_forks_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    root = lay(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", "/nonexistent")
    with open_box(tmp_path) as box:
        assert sh(box, "try", "echo fork >>src/a.txt") == 0
        (root / "src/a.txt").write_text(f"base\n{TEXT}")
        box.fork("try").merge()
    assert (root / "src/a.txt").read_text() == f"base\n{TEXT}fork\n"


def test_a_text_that_changes_while_it_is_kept_is_no_ancestor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    root, read = lay(tmp_path), TreeReader.read_bytes

    def change_and_read(reader: TreeReader, rel: str) -> bytes:
        if rel == "b.txt":
            (root / "b.txt").write_text("changed\n")
        return read(reader, rel)

    monkeypatch.setattr(TreeReader, "read_bytes", change_and_read)
    with open_box(tmp_path) as box:
        assert sh(box, "try", "echo fork >>b.txt") == 0
        assert not box.forks.get("try").folder.texts.exists()


def test_a_file_that_is_too_large_to_show_is_described(tmp_path: Path):
    lay(tmp_path)
    with open_box(tmp_path) as box:
        assert sh(box, "try", "head -c 5000000 /dev/zero >large") == 0
        assert "[large: nothing -> a file (5,000,000 bytes)]\n" in box.fork("try").diff()


# --- policy


def test_a_denied_path_and_a_protected_name_are_judged_as_for_commands(who: str, place: Path):
    def work(box: Toolbox, root: Path) -> None:
        assert sh(box, "try", "mkdir -p .vscode; echo '{}' >.vscode/tasks.json; echo x >new") == 0
        before = tree(root)
        with pytest.raises(NotApproved):
            box.fork("try").merge()
        assert tree(root) == before
        assert box.fork("try").diff()
        rule = Rule("new", "deny", ["create"], "not this one", ["new"], ["old"], paths=["new"])
        with open_box(place, rules=rule) as strict, pytest.raises(Denied):
            strict.fork("try").merge()
        assert tree(root) == before

    run(who, place, work)


# --- roots


def test_two_roots_are_forked_and_merged_together(who: str, place: Path):
    def do() -> None:
        root, other = lay(place), place / "other"
        other.mkdir()
        (other / "c").write_text("c\n")
        with Toolbox.open([root, other], state=place / "state") as box:
            assert sh(box, "try", f"echo 1 >b.txt; echo 2 >{other}/c") == 0
            assert ((root / "b.txt").read_text(), (other / "c").read_text()) == ("b\n", "c\n")
            box.fork("try").merge()
            assert ((root / "b.txt").read_text(), (other / "c").read_text()) == ("1\n", "2\n")
            assert box.undo().ok
            assert ((root / "b.txt").read_text(), (other / "c").read_text()) == ("b\n", "c\n")

    as_user(who, do)


def test_a_root_on_tmpfs(who: str):
    place = Path("/dev/shm") / f"handhold-fork-{os.getpid()}"
    place.mkdir()
    if who == "nobody":
        os.chown(place, 65534, 65534)
    try:

        def work(box: Toolbox, root: Path) -> None:
            assert sh(box, "try", "echo 1 >b.txt; rm -r old") == 0
            box.fork("try").merge()
            assert (root / "b.txt").read_text() == "1\n"
            assert not (root / "old").exists()

        run(who, place, work)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def test_a_fork_of_a_fork_is_refused(tmp_path: Path):
    root = lay(tmp_path)
    program = f"""
import sys; sys.path[:0] = {sys.path!r}
from handhold import Toolbox
from handhold.core.errors import ForkUnavailable
with Toolbox.open({str(root)!r}, state={str(tmp_path / "state")!r}) as box:
    assert not list(box.forks) and not box.log(), "it has a state of its own"
    try:
        box.fork("inner")
    except ForkUnavailable as error:
        assert "try" in error.because, error
        sys.exit(5)
"""
    with open_box(tmp_path) as box:
        assert box.fork("try").run([sys.executable, "-c", program]) == 5


def test_a_sandbox_can_be_made_in_a_fork(who: str, place: Path):
    """Agents have their own."""

    def work(box: Toolbox, root: Path) -> None:
        sandbox = [find_fork_bubblewrap(), "--unshare-all", "--unshare-user", "--ro-bind", "/", "/", "--proc", "/proc"]
        assert box.fork("try").run([*sandbox, "--dev", "/dev", "--bind", str(root), str(root), "touch", "made"]) == 0
        box.fork("try").merge()
        assert (root / "made").exists()

    run(who, place, work)


@pytest.mark.root
def test_settings_of_ssh_belong_to_a_plain_user_in_a_fork():
    """Else ssh refuses them, and with it `git push`. The user is not the one as whom root's files appear."""
    settings, somebody = Path("/etc/ssh/ssh_config.d"), 12345
    place = Path(tempfile.mkdtemp(prefix="handhold-ssh-"))
    os.chown(place, somebody, somebody)

    def mount() -> None:
        subprocess.run(["mount", "-t", "tmpfs", "none", "/etc/ssh"], check=True)
        settings.mkdir()
        (settings.parent / "ssh_config").write_text(f"Include {settings}/*.conf\n")
        (settings / "some.conf").write_text("Host nowhere\n User somebody\n")

    def work() -> None:
        os.setgroups([])
        os.setresgid(somebody, somebody, somebody)
        os.setresuid(somebody, somebody, somebody)
        os.environ.update(HOME="/nonexistent", PATH="/usr/bin:/bin")
        lay(place)
        with open_box(place) as box:
            assert (
                sh(box, "try", f'test "$(stat -c %u /etc/passwd {settings}/some.conf | tr "\\n" " ")" = "65534 12345 "')
                == 0
            )

    try:
        as_user("ourselves", work, first=mount)
    finally:
        shutil.rmtree(place)


def test_our_own_tools_work_in_a_fork_and_have_a_journal_of_their_own(tmp_path: Path):
    root = lay(tmp_path)
    program = f"""
import sys; sys.path[:0] = {sys.path!r}
from handhold import Toolbox
with Toolbox.open({str(root)!r}, state={str(tmp_path / "state")!r}) as box:
    assert box.call("write_file", {{"path": "kept.txt", "content": "kept"}}).ok
    assert box.call("edit_file", {{"path": "kept.txt", "old": "kept", "new": "changed"}}).ok
    assert box.undo().ok
    assert len(box.log()) == 3
"""
    with open_box(tmp_path) as box:
        assert box.fork("try").run([sys.executable, "-c", program]) == 0
        assert box.log() == []
        box.fork("try").merge()
        assert (root / "kept.txt").read_text() == "kept"


def test_forks_are_made_and_dropped_at_the_same_time(tmp_path: Path):
    lay(tmp_path)

    def work(name: str) -> None:
        for n in range(20):
            box.forks.create(f"{name}-{n}").drop()

    with open_box(tmp_path) as box, ThreadPoolExecutor() as pool:
        list(pool.map(work, "abcd"))
        assert leftovers(tmp_path) == []


def test_the_folder_of_all_forks_may_go_while_somebody_else_makes_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Whoever drops the last fork removes it."""
    lay(tmp_path)
    ensure, removed = fork_store.ensure_private_folder, list[Path]()

    def ensure_and_remove(folder: Path) -> Path:
        if folder.name == "forks" and len(removed) < 3:
            removed.append(ensure(folder))
            folder.rmdir()
            if len(removed) == 2:
                raise FileExistsError
            return folder
        return ensure(folder)

    monkeypatch.setattr(fork_store, "ensure_private_folder", ensure_and_remove)
    with open_box(tmp_path) as box:
        box.forks.create("try").drop()
        assert (len(removed), list(box.forks)) == (3, [])


def test_a_fork_that_is_dropped_while_somebody_looks_is_said_to_be_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    lay(tmp_path)
    with open_box(tmp_path) as box, ExitStack() as held:

        def replace(_: float) -> None:
            box.forks.store.remove(fork.folder)
            held.close()
            box.forks.create("try")

        fork = box.forks.create("try")
        held.enter_context(fork.folder.locked())
        monkeypatch.setattr(fork_folder.time, "sleep", replace)
        with pytest.raises(ForkUnavailable, match="no such fork"):
            fork.drop()
        with fork.folder.locked():
            shutil.rmtree(fork.path)
            with pytest.raises(ForkUnavailable, match="no such fork"):
                fork.diff()


def test_who_looks_at_a_fork_keeps_nobody_from_running_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    lay(tmp_path)
    with open_box(tmp_path) as box, ExitStack() as looking:
        fork = box.forks.create("try")
        looking.enter_context(fork.folder.locked())
        monkeypatch.setattr(fork_folder.time, "sleep", lambda _: looking.close())
        assert fork.run(["true"]) == 0


def test_a_name_leads_to_no_fork_of_another_workspace(tmp_path: Path):
    lay(tmp_path)
    (tmp_path / "other").mkdir()
    with open_box(tmp_path) as box, Toolbox.open(tmp_path / "other", state=tmp_path / "state") as other:
        fork = box.forks.create("try")
        name = os.path.relpath(fork.path, other.forks.store.folder)
        for each in (name, fork.path, f"../forks/{fork.name}", "."):
            with pytest.raises(ForkUnavailable):
                other.forks.get(each)
        assert list(box.forks)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "-x", "merge", "start", "é", "a" * 65])
def test_a_bad_name_is_refused(tmp_path: Path, name: str):
    (tmp_path / "work").mkdir()
    with open_box(tmp_path) as box, pytest.raises(ForkUnavailable):
        box.fork(name)
    assert leftovers(tmp_path) == []


def test_a_state_folder_in_the_workspace_is_refused(tmp_path: Path):
    with Toolbox.open(tmp_path, state=tmp_path / "state") as box, pytest.raises(ForkUnavailable):
        box.fork("try")


def test_a_workspace_in_memory_has_no_forks():
    with Toolbox.in_memory({}) as box, pytest.raises(ForkUnavailable):
        box.fork("try")
