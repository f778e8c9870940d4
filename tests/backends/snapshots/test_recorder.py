"""C-94: what others change is recorded around their calls, and undone like our own changes."""

import json
import os
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from handhold import Target, Toolbox
from handhold.backends.snapshots import copies, recorder
from handhold.core.errors import NotRecorded
from handhold.core.policy.rules import Rule
from handhold.core.ports.recording import Window
from handhold.server.server_config import ServerConfig
from handhold.snapshots import Recorded, Snapshots
from tests.faults.trees import NOBODY, Tree, tree


class Bed:
    """A workspace that is recorded, and what an agent's own tools do in it."""

    def __init__(self, folder: Path, **options: object) -> None:
        self.root = folder / "work"
        self.root.mkdir()
        for name in ("a.txt", "b.txt", "c.txt", "sub/deep/d.txt"):
            self.write(name, f"this is {name}\n")
        self.state = folder / "state"
        self.box = Toolbox.open(self.root, state=self.state, session="s", dialect="claude", **options)  # pyright: ignore[reportArgumentType]

    @property
    def snapshots(self) -> Snapshots:
        return self.box.snapshots

    def write(self, name: str, text: str) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text, encoding="utf-8")

    def read(self, name: str) -> str:
        return (self.root / name).read_text(encoding="utf-8")

    def begin(self, call: str, *paths: str) -> Recorded:
        named = tuple(str(self.root / path) for path in paths) or None
        return self.snapshots.begin(Window("s", call, "Bash", paths=named))

    def end(self, call: str) -> Recorded:
        return self.snapshots.end("s", call)

    def tree(self) -> Tree:
        return tree(self.root)

    def names(self, paths: tuple[str, ...]) -> set[str]:
        return {os.path.relpath(path, self.root) for path in paths}


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Bed]:
    bed = Bed(tmp_path)
    yield bed
    bed.box.close()


def change_everything(bed: Bed) -> None:
    root = bed.root
    bed.write("a.txt", "changed")
    bed.write("new/folder/file", "new")
    os.chmod(root / "b.txt", 0o755)
    os.rename(root / "c.txt", root / "moved.txt")
    shutil.rmtree(root / "sub")
    os.symlink("a.txt", root / "link")
    (root / "empty").mkdir()


def test_c94_whatever_a_call_of_others_changed_is_undone_and_redone(bed: Bed):
    os.symlink("b.txt", bed.root / "old-link")
    bed.begin("one")
    before = bed.tree()
    change_everything(bed)
    os.unlink(bed.root / "old-link")
    recorded = bed.end("one")
    after = bed.tree()
    assert bed.names(recorded.paths) == {
        *("a.txt", "new", "b.txt", "c.txt", "moved.txt", "sub", "link", "old-link", "empty")
    }
    assert not recorded.foreign
    assert not recorded.not_kept
    assert bed.box.undo(Target.call("one")).ok
    assert bed.tree() == before
    assert bed.box.redo().ok
    assert bed.tree() == after
    assert bed.snapshots.sweep() == Recorded(), "an undo of ours is taken for somebody else's change"
    assert bed.box.store.verify().problem is None


def test_c94_an_edit_of_ours_inside_a_window_is_booked_once_and_in_its_place(bed: Bed):
    bed.begin("one")
    bed.write("a.txt", "by others\n")
    assert bed.box.call("Read", {"file_path": str(bed.root / "a.txt")}).ok
    edit = {"file_path": str(bed.root / "a.txt"), "old_string": "by others", "new_string": "by us"}
    assert bed.box.call("Edit", edit).ok
    bed.write("a.txt", "by others again\n")
    bed.end("one")
    assert [entry.call.tool for entry in bed.box.log() if entry.changed] == ["Edit", "Bash", "Bash"]
    assert not bed.box.undo(Target.call("one")).ok, "our edit would be lost"
    assert bed.box.undo(Target.session()).ok
    assert bed.read("a.txt") == "this is a.txt\n"


def test_c94_what_changes_between_calls_is_foreign_and_undone_only_when_asked_for(bed: Bed):
    bed.begin("one")
    bed.write("a.txt", "one")
    bed.end("one")
    bed.write("a.txt", "by the user")
    assert bed.names(bed.begin("two").foreign) == {"a.txt"}
    bed.write("b.txt", "two")
    bed.end("two")
    refused = bed.box.undo(Target.session())
    assert refused.code == "UNDO_CONFLICT"
    assert refused.data["paths"] == [str(bed.root / "a.txt")]
    assert bed.read("a.txt") == "by the user"
    assert bed.box.undo(Target.session(), with_foreign=True).ok
    assert (bed.read("a.txt"), bed.read("b.txt")) == ("this is a.txt\n", "this is b.txt\n")


def test_c94_calls_that_overlap_are_undone_together(bed: Bed):
    bed.begin("one")
    bed.write("a.txt", "one")
    bed.begin("two")
    bed.write("b.txt", "two")
    bed.end("one")
    bed.write("c.txt", "still two")
    bed.end("two")
    assert bed.box.undo(Target.call("two")).ok
    assert [bed.read(f"{name}.txt") for name in "abc"] == [f"this is {name}.txt\n" for name in "abc"]


def test_c94_a_call_is_undone_by_its_name_though_its_changes_were_booked_for_another(bed: Bed):
    bed.begin("one")
    bed.begin("two")
    bed.write("a.txt", "two")
    bed.end("two")
    bed.end("one")
    assert bed.box.undo(Target.call("two")).ok
    assert bed.read("a.txt") == "this is a.txt\n"


def test_c94_an_edit_owns_only_the_paths_that_it_names(bed: Bed):
    bed.begin("shell")
    bed.end("shell")
    bed.begin("edit", "a.txt")
    bed.write("a.txt", "edited")
    bed.write("b.txt", "saved by the user")
    assert bed.names(bed.end("edit").paths) == {"a.txt"}
    assert bed.names(bed.snapshots.sweep().foreign) == {"b.txt"}
    assert bed.box.undo().ok
    assert (bed.read("a.txt"), bed.read("b.txt")) == ("this is a.txt\n", "saved by the user")


def test_c94_a_named_path_is_kept_before_the_first_scan(bed: Bed):
    bed.begin("edit", "sub/deep/d.txt", "fresh/file")
    bed.write("sub/deep/d.txt", "edited")
    bed.write("fresh/file", "new")
    assert bed.names(bed.end("edit").paths) == {"sub/deep/d.txt", "fresh"}
    assert bed.box.undo().ok
    assert bed.read("sub/deep/d.txt") == "this is sub/deep/d.txt\n"
    assert not (bed.root / "fresh").exists()
    bed.begin("shell")
    bed.write("a.txt", "changed")
    assert bed.names(bed.end("shell").paths) == {"a.txt"}, "the first scan took its own beginning for a change"


def test_c94_a_window_that_never_ended_is_closed_by_a_sweep(bed: Bed):
    bed.begin("lost")
    bed.write("a.txt", "late")
    assert bed.names(bed.snapshots.sweep("s").paths) == {"a.txt"}
    assert json.loads(bed.box.log()[-1].call.arguments)["never_ended"] == ["lost"]
    bed.write("b.txt", "by the user")
    assert bed.names(bed.snapshots.sweep().foreign) == {"b.txt"}


def test_c94_a_named_file_is_copied_before_all_others(bed: Bed, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(copies, "BATCH_SIZE", 1)
    monkeypatch.setattr(recorder, "INLINE_FILES", 1)
    monkeypatch.setattr(bed.snapshots, "_start_copier", None)
    bed.begin("one")
    for number in range(20):
        bed.write(f"small{number}", "x")
    bed.write("sub/large.txt", "as it was\n" * 1000)
    bed.end("one")
    bed.begin("two", "sub/large.txt")
    bed.write("sub/large.txt", "changed\n")
    assert not bed.end("two").not_kept
    assert bed.box.undo(Target.call("two")).ok
    assert bed.read("sub/large.txt") == "as it was\n" * 1000


def test_c94_what_was_not_kept_is_named_and_the_rest_is_undone(bed: Bed, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(copies, "MAX_FILE_BYTES", 1000)
    bed.write("large", "x" * 2000)
    bed.write("sub/large", "x" * 2000)
    bed.begin("one")
    bed.write("large", "y")
    bed.write("a.txt", "changed")
    shutil.rmtree(bed.root / "sub")
    recorded = bed.end("one")
    assert bed.names(tuple(recorded.not_kept)) == {"large", "sub/large"}
    assert bed.box.undo().ok
    assert bed.read("a.txt") == "this is a.txt\n"
    assert bed.read("sub/deep/d.txt") == "this is sub/deep/d.txt\n"
    assert bed.read("large") == "y"
    bed.begin("two")
    bed.write("large", "x" * 3000)
    bed.end("two")
    bed.begin("three")
    bed.write("large", "x" * 3001)
    bed.end("three")
    assert bed.box.undo(Target.call("three")).code == "NOTHING_TO_UNDO"


def test_v8_what_may_be_the_only_copy_stays_and_is_named(bed: Bed, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(copies, "MAX_FILE_BYTES", 1000)
    bed.write("data/model", "x" * 2000)
    bed.write("data/small", "s")
    bed.begin("one")
    (bed.root / "data").rename(bed.root / "data2")
    bed.write("a.txt", "changed")
    assert bed.names(tuple(bed.end("one").not_kept)) == {"data/model", "data2"}
    undone = bed.box.undo()
    assert undone.ok
    assert "data/model, data2" in undone.text
    assert (bed.read("data2/model"), bed.read("data/small")) == ("x" * 2000, "s")
    assert bed.read("a.txt") == "this is a.txt\n"


def test_v10_a_path_longer_than_the_system_takes_is_recorded_and_undone(bed: Bed):
    folder = os.open(bed.root, os.O_RDONLY)
    for name in ("deep", *["e" * 150] * 40):
        os.mkdir(name, dir_fd=folder)
        folder, above = os.open(name, os.O_RDONLY, dir_fd=folder), folder
        os.close(above)
    os.close(os.open("leaf", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
    os.link("leaf", "other", src_dir_fd=folder, dst_dir_fd=folder)
    os.close(folder)
    bed.begin("one")
    before = subprocess.run(["find", "-printf", "%P %n\n"], cwd=bed.root, capture_output=True, check=True).stdout
    subprocess.run(["rm", "-r", "deep", "a.txt"], cwd=bed.root, check=True)
    assert bed.names(bed.end("one").paths) == {"deep", "a.txt"}
    assert bed.box.undo().ok
    after = subprocess.run(["find", "-printf", "%P %n\n"], cwd=bed.root, capture_output=True, check=True).stdout
    assert sorted(before.splitlines()) == sorted(after.splitlines())
    subprocess.run(["rm", "-r", "deep"], cwd=bed.root, check=True)  # so that pytest can clear its folder


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_c94_owners_come_back(bed: Bed):
    bed.begin("one")
    for name in ("sub", "sub/deep/d.txt"):
        os.chown(bed.root / name, NOBODY, NOBODY)
    assert bed.names(bed.end("one").paths) == {"sub", "sub/deep/d.txt"}
    assert bed.box.undo().ok
    assert {(bed.root / name).stat().st_uid for name in ("sub", "sub/deep/d.txt")} == {0}
    assert bed.snapshots.sweep() == Recorded()


def test_c94_names_that_were_one_file_become_one_file_again(bed: Bed):
    os.link(bed.root / "a.txt", bed.root / "second.txt")
    bed.begin("one")
    with (bed.root / "a.txt").open("a", encoding="utf-8") as file:
        file.write("more")
    bed.end("one")
    assert bed.box.undo().ok
    assert bed.read("second.txt") == "this is a.txt\n"
    assert (bed.root / "a.txt").samefile(bed.root / "second.txt")


def test_c94_a_later_write_through_another_name_does_not_keep_both_from_being_undone(bed: Bed):
    os.link(bed.root / "a.txt", bed.root / "second.txt")
    bed.begin("one")
    with (bed.root / "a.txt").open("a", encoding="utf-8") as file:
        file.write("more")
    bed.end("one")
    assert bed.box.call("Read", {"file_path": "second.txt"}).ok
    assert bed.box.call("Write", {"file_path": "second.txt", "content": "ours\n"}).ok
    assert bed.read("a.txt") == "ours\n"
    assert bed.box.undo(Target.session()).ok
    assert bed.read("a.txt") == bed.read("second.txt") == "this is a.txt\n"


def test_c94_a_copy_is_never_the_file_itself(bed: Bed):
    """A name that comes back after an undo must not share its content with the copy of another name."""
    os.link(bed.root / "a.txt", bed.root / "second.txt")
    bed.begin("one")
    os.unlink(bed.root / "second.txt")
    bed.end("one")
    assert bed.box.undo().ok
    with (bed.root / "second.txt").open("r+", encoding="utf-8") as file:
        file.write("OVER")
    bed.snapshots.sweep()
    bed.begin("two")
    bed.write("a.txt", "changed")
    bed.end("two")
    assert bed.box.undo(Target.call("two")).ok
    assert bed.read("a.txt") == "this is a.txt\n"


def test_c94_git_status_changes_nothing(bed: Bed):
    def git(*arguments: str) -> None:
        subprocess.run(["git", "-C", bed.root, "-c", "user.name=x", "-c", "user.email=x@y", *arguments], check=True)

    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "-m", "one")
    bed.begin("one")
    os.utime(bed.root / "a.txt")
    git("status", "--short")
    assert bed.end("one") == Recorded()
    bed.begin("two")
    bed.write("a.txt", "staged")
    git("add", "a.txt")
    assert bed.names(bed.end("two").paths) >= {"a.txt", ".git/index"}


def test_c94_a_database_is_undone_as_a_whole_or_not_at_all(bed: Bed):
    with sqlite3.connect(bed.root / "db") as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE t (x)")
        database.commit()
        bed.begin("one")
        before = {name: (bed.root / name).read_bytes() for name in ("db", "db-wal")}
        database.execute("INSERT INTO t VALUES (1)")
        database.commit()
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        recorded = bed.end("one")
    assert bed.names(recorded.paths) >= {"db", "db-wal"}
    assert bed.box.undo().ok
    assert {name: (bed.root / name).read_bytes() for name in ("db", "db-wal")} == before


def test_c94_a_database_that_is_not_kept_keeps_its_new_log(bed: Bed, monkeypatch: pytest.MonkeyPatch):
    """A log that a transaction left behind repairs the database; without it, the database is damaged."""
    monkeypatch.setattr(copies, "MAX_FILE_BYTES", 1000)
    bed.write("db", "x" * 2000)
    bed.begin("one")
    bed.write("db", "y" * 2000)
    bed.write("db-journal", "x")
    bed.write("a.txt", "changed")
    assert bed.names(tuple(bed.end("one").not_kept)) == {"db", "db-journal"}
    assert bed.box.undo().ok
    assert (bed.read("db-journal"), bed.read("a.txt")) == ("x", "this is a.txt\n")


def test_c94_a_database_in_a_removed_folder_comes_back_with_its_log_or_not_at_all(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(copies, "MAX_FILE_BYTES", 1000)
    bed.write("sub/db", "x")
    bed.write("sub/db-wal", "x" * 2000)
    bed.begin("one")
    shutil.rmtree(bed.root / "sub")
    assert bed.names(tuple(bed.end("one").not_kept)) == {"sub/db", "sub/db-wal"}
    assert bed.box.undo().ok
    assert {path.name for path in (bed.root / "sub").iterdir()} == {"deep"}


def test_c94_a_denied_file_is_not_copied_and_a_usable_secret_is(tmp_path: Path):
    rule = Rule("private", "deny", ["read"], "it is private", ["b.txt"], ["c.txt"], paths=["b.txt"])
    bed = Bed(tmp_path, rules=[rule])
    bed.write(".env", "TOKEN=abcdefghijklmnop")
    bed.begin("one")
    bed.write("b.txt", "changed")
    bed.write(".env", "TOKEN=")
    recorded = bed.end("one")
    assert recorded.not_kept == {str(bed.root / "b.txt"): copies.DENIED}
    assert bed.names(recorded.paths) == {".env"}
    assert bed.box.undo().ok
    assert bed.read(".env") == "TOKEN=abcdefghijklmnop"
    bed.box.close()


def test_c94_nothing_is_recorded_in_a_home_folder_but_named_edits(bed: Bed, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(bed.root))
    with pytest.raises(NotRecorded, match="home"):
        bed.begin("shell")
    bed.begin("edit", "a.txt")
    bed.write("a.txt", "edited")
    bed.end("edit")
    assert bed.box.undo().ok
    assert bed.read("a.txt") == "this is a.txt\n"


def test_c94_nothing_is_undone_beside_a_lock_of_git(bed: Bed):
    subprocess.run(["git", "-C", bed.root, "init", "--quiet"], check=True)
    bed.begin("one")
    subprocess.run(["git", "-C", bed.root, "add", "a.txt"], check=True)
    bed.end("one")
    bed.write(".git/index.lock", "")
    refused = bed.box.undo(Target.call("one"))
    assert (refused.code, refused.data["paths"]) == ("UNDO_CONFLICT", [str(bed.root / ".git/index.lock")])
    os.unlink(bed.root / ".git/index.lock")
    assert bed.box.undo(Target.call("one")).ok


def stored_bytes(bed: Bed) -> bytes:
    return b"".join(path.read_bytes() for path in bed.state.rglob("*") if path.is_file())


def test_c94_what_is_forgotten_is_nowhere_on_disk(bed: Bed):
    secret = "qwertzuiop-this-is-the-secret"
    bed.write("b.txt", secret)
    bed.begin("one")
    bed.write("a.txt", "one")
    bed.write("b.txt", "two")
    bed.end("one")
    assert secret.encode() in stored_bytes(bed)
    bed.snapshots.forget(str(bed.root / "b.txt"))
    assert secret.encode() not in stored_bytes(bed)
    assert bed.box.undo(Target.call("one")).code == "CONTENT_DROPPED"
    assert (bed.read("a.txt"), bed.read("b.txt")) == ("one", "two")
    assert bed.box.store.verify().problem is None
    bed.snapshots.forget()
    (kept,) = bed.state.rglob("*.baseline")
    assert [each.name for each in kept.iterdir()] == ["clock"]


def test_c94_undo_is_kept_as_many_days_as_the_settings_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bed: Bed):
    bed.begin("one")
    bed.write("a.txt", "one")
    bed.end("one")
    bed.box.close()
    settings = tmp_path / "settings.toml"
    settings.write_text("undo_days = 3\n")
    later = time.time() + 4 * 86_400
    monkeypatch.setattr("handhold.shared_workspaces.time.time", lambda: later)
    with Toolbox.open(bed.root, state=bed.state, session="s", settings=settings) as box:
        assert not box.log()[-1].kept
        assert box.undo().code == "CONTENT_DROPPED"


def test_c94_scanning_leaves_access_times_alone(bed: Bed):
    long_ago = time.time() - 10**6
    paths = [bed.root, *bed.root.rglob("*")]
    for path in paths:
        os.utime(path, (long_ago, path.stat().st_mtime))
    bed.begin("one")
    bed.end("one")
    assert {path.stat().st_atime for path in paths} == {long_ago}


def test_c94_a_closed_toolbox_leaves_nothing_open(bed: Bed):
    bed.begin("one")
    bed.end("one")
    bed.box.close()
    opened = [
        os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{n}")
    ]
    assert not [path for path in opened if path.startswith(str(bed.root.parent))]


def test_c94_adopting_records_a_with_block(bed: Bed):
    with bed.box.adopting("make", tool="make"):
        bed.write("a.txt", "built")
    assert bed.box.undo(Target.call("make")).ok
    assert bed.read("a.txt") == "this is a.txt\n"


def test_c94_a_file_that_nobody_knew_is_not_taken_for_a_new_one(bed: Bed):
    """Undo would delete it."""
    bed.begin("edit", "a.txt")
    bed.write("a.txt", "edited")
    bed.end("edit")
    assert bed.box.call("Read", {"file_path": str(bed.root / "b.txt")}).ok
    edit = {"file_path": str(bed.root / "b.txt"), "old_string": "this", "new_string": "that"}
    assert bed.box.call("Edit", edit).ok
    assert [entry.call.tool for entry in bed.box.log() if entry.changed] == ["Bash", "Edit"]
    assert not [entry for entry in bed.box.log(everyone=True) if entry.call.session == "foreign"]


def test_c94_a_command_that_began_before_the_first_scan_was_done_says_so(bed: Bed, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("handhold.snapshots.WAIT_SECONDS", 0.0)
    monkeypatch.setattr("handhold.snapshots.INLINE_SECONDS", 0.0)
    monkeypatch.setattr(bed.snapshots, "_start_copier", lambda: None)
    bed.begin("early")
    bed.write("a.txt", "changed")
    bed.end("early")
    (entry,) = bed.box.log()
    assert "first_scan" in entry.call.arguments
    bed.begin("next")
    bed.write("b.txt", "changed")
    assert bed.names(bed.end("next").paths) == {"b.txt"}


def test_c94_a_rewrite_that_keeps_size_and_time_is_a_later_change(bed: Bed):
    bed.begin("one")
    bed.write("a.txt", "one")
    bed.end("one")
    old = (bed.root / "a.txt").stat()
    bed.write("a.txt", "two")
    os.utime(bed.root / "a.txt", ns=(old.st_atime_ns, old.st_mtime_ns))
    assert bed.box.undo(Target.call("one")).code == "UNDO_CONFLICT"
    assert bed.read("a.txt") == "two"
    bed.snapshots.sweep()
    assert bed.box.undo(Target.call("one")).code == "UNDO_CONFLICT", "the inode, size and time are those of the entry"
    assert bed.read("a.txt") == "two"


def test_c94_a_path_named_with_the_folder_above_it_is_booked_once(bed: Bed):
    bed.begin("shell")
    bed.end("shell")
    bed.begin("edit", "sub", "sub/deep/d.txt")
    bed.write("sub/deep/d.txt", "edited")
    bed.end("edit")
    (entry,) = bed.box.log()
    assert entry.paths == (str(bed.root / "sub/deep/d.txt"),)
    assert bed.box.undo().ok
    assert bed.read("sub/deep/d.txt") == "this is sub/deep/d.txt\n"


def test_c94_an_undo_of_several_calls_is_refused_as_a_whole_where_a_file_replaced_a_folder(bed: Bed):
    bed.begin("one")
    bed.write("sub/deep/d.txt", "one")
    bed.end("one")
    shutil.rmtree(bed.root / "sub/deep")
    bed.write("sub/deep", "a file of the user")
    bed.begin("two")
    bed.write("sub/deep", "two")
    bed.end("two")
    before = bed.tree()
    refused = bed.box.undo(Target.session())
    assert (refused.code, refused.data["paths"]) == ("UNDO_CONFLICT", [str(bed.root / "sub/deep/d.txt")])
    assert bed.tree() == before


def test_c94_an_undo_of_several_calls_is_refused_as_a_whole_below_a_folder_that_got_another_mode(bed: Bed):
    bed.begin("one")
    bed.write("sub/deep/d.txt", "one")
    bed.end("one")
    bed.begin("two")
    os.chmod(bed.root / "sub", 0o700)
    bed.end("two")
    bed.write("sub/deep/d.txt", "by the user")
    before = bed.tree()
    assert bed.box.undo(Target.session()).code == "UNDO_CONFLICT"
    assert bed.tree() == before


def test_c94_a_copy_is_removed_only_when_no_row_names_it_any_more(bed: Bed, monkeypatch: pytest.MonkeyPatch):
    """A process that is killed in between would leave a row without its copy."""
    bed.begin("one")
    bed.end("one")
    (database,) = bed.state.rglob("state.db")
    remove = copies.Copies.remove

    def check_and_remove(self: copies.Copies, names: Collection[bytes]) -> None:
        with closing(sqlite3.connect(database)) as other:
            named = {copy for (copy,) in other.execute("SELECT copy FROM baseline_entries")}
        assert named.isdisjoint(names)
        removed.extend(names)
        remove(self, names)

    removed: list[bytes] = []
    monkeypatch.setattr(copies.Copies, "remove", check_and_remove)
    assert bed.box.call("Read", {"file_path": str(bed.root / "a.txt")}).ok
    assert bed.box.call("Write", {"file_path": str(bed.root / "a.txt"), "content": "ours"}).ok
    assert removed


def test_c88_a_window_that_needs_the_room_of_earlier_undos_says_so(tmp_path: Path):
    bed = Bed(tmp_path, undo_bytes=300_000)
    given_up: tuple[str, ...] = ()
    for n in range(8):
        bed.write("large", os.urandom(50_000).hex())
        bed.begin(f"call {n}")
        bed.write("large", "small")
        given_up += bed.end(f"call {n}").given_up
    assert given_up[:1] == ("call 0",)
    assert bed.box.undo(Target.call("call 7")).ok
    bed.box.close()


@pytest.mark.parametrize("named", [(), ("a.txt",)])
def test_c94_half_of_a_commit_of_a_dead_process_is_no_baseline(bed: Bed, named: tuple[str, ...]):
    bed.box.log()  # this process runs already, and does not recover by opening the workspace
    child = os.fork()
    if not child:
        with Toolbox.open(bed.root, state=bed.state, session="dead", dialect="claude") as box:
            path = str(bed.root / "a.txt")
            box.call("Read", {"file_path": path})
            box.store.record_outcome = lambda *_, **__: os._exit(9)  # pyright: ignore[reportAttributeAccessIssue]
            box.call("Write", {"file_path": path, "content": "never finished"})
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert bed.read("a.txt") == "never finished"
    assert bed.begin("one", *named) == Recorded()
    assert bed.read("a.txt") == "this is a.txt\n"
    assert bed.end("one") == Recorded()
    assert bed.snapshots.sweep() == Recorded()


def test_c94_a_file_beside_a_named_one_is_not_new_when_their_folder_is_named(bed: Bed, monkeypatch: pytest.MonkeyPatch):
    """Undo would delete it."""
    monkeypatch.setenv("HOME", str(bed.root))  # where nothing is scanned but what is named
    bed.write("sub/deep/old/file", "old")
    bed.write("sub/deep/other.txt", "other")
    bed.begin("one", "sub/deep/d.txt")
    bed.end("one")
    assert bed.begin("two", "sub") == Recorded()
    bed.write("sub/deep/other.txt", "changed")
    assert bed.names(bed.snapshots.end("s", "two").foreign) == {"sub/deep/other.txt"}
    (entry,) = bed.box.log(everyone=True)
    assert bed.box.undo(entry, with_foreign=True).ok
    assert bed.read("sub/deep/other.txt") == "other"


def test_c94_what_others_removed_is_recorded_before_we_make_its_folder_again(bed: Bed):
    """Else the commit that makes it would hide what is missing there."""
    assert bed.box.call("Write", {"file_path": str(bed.root / "new/folder/ours"), "content": "ours"}).ok
    bed.write("new/folder/theirs", "theirs")
    bed.begin("one")
    bed.end("one")
    assert bed.box.undo().ok  # which leaves the folder, because of the other file
    shutil.rmtree(bed.root / "new")
    assert bed.box.redo().ok
    bed.snapshots.sweep()
    last = bed.box.log(everyone=True)[-1]
    assert last.paths == (str(bed.root / "new"),)
    assert bed.box.diff(last)


@pytest.mark.parametrize("lost", [lambda path: path.write_bytes(b""), Path.unlink])
def test_c94_a_copy_that_is_not_whole_is_never_restored(bed: Bed, lost: Callable[[Path], None]):
    """After a power cut, or if somebody cleans up."""
    bed.begin("one")
    (kept,) = bed.state.rglob("*.baseline")
    for path in kept.iterdir():
        lost(path)
    bed.write("a.txt", "changed")
    shutil.rmtree(bed.root / "sub")
    recorded = bed.end("one")
    assert bed.names(tuple(recorded.not_kept)) == {"a.txt", "sub/deep/d.txt"}
    assert bed.box.undo().ok
    assert bed.read("a.txt") == "changed"
    assert not (bed.root / "sub/deep/d.txt").exists()
    bed.begin("two")
    bed.write("a.txt", "changed again")
    bed.end("two")
    assert bed.box.undo(Target.call("two")).ok
    assert bed.read("a.txt") == "changed"


def test_c94_a_server_goes_on_with_a_baseline_that_is_not_complete(bed: Bed, monkeypatch: pytest.MonkeyPatch):
    started: list[str] = []
    monkeypatch.setattr("handhold.snapshots.start_copier", lambda root, _: started.append(root))
    config = ServerConfig((str(bed.root),), state=str(bed.state), settings=False)
    config.open_toolbox("one").close()
    assert not started, "nothing is recorded here"
    bed.snapshots.recorder.baseline.create()
    config.open_toolbox("two").close()
    assert started == [str(bed.root)]
    bed.snapshots.complete()
    config.open_toolbox("three").close()
    assert len(started) == 1


def test_c94_what_was_too_young_to_be_copied_is_copied_later(bed: Bed, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(copies, "TICK_NS", 10**15)
    bed.begin("one")
    assert not bed.end("one").paths
    monkeypatch.undo()
    bed.begin("two")
    bed.write("a.txt", "changed")
    assert bed.end("two").not_kept == {}
    assert bed.box.undo(Target.call("two")).ok
    assert bed.read("a.txt") == "this is a.txt\n"
