"""The commit: all or nothing, and everything else about a file stays unchanged."""

import os
import stat
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handhold.backends.files import commit
from handhold.backends.files.commit import Committer, WriteTransaction, file_ops
from handhold.backends.files.commit.file_metadata import PAGE_BYTES, is_partial_write
from handhold.backends.files.workspace import Workspace
from handhold.core.errors import (
    Busy,
    ContentDropped,
    IsDirectory,
    NotDirectory,
    PermissionDenied,
    ReadOnly,
    Stale,
    SystemFailure,
    ToolError,
)
from handhold.core.plans import ContentRef, Directory, FileChange, InlineContent
from handhold.core.ports.journal import IncompleteTransaction
from tests.faults.trees import Kept, as_nobody, lay, tree, twenty

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away and mount")


class Desk:
    """A root, its files and its committer."""

    def __init__(self, root: Path, *, exchange: bool) -> None:
        self.root = root
        self.kept = Kept()
        self.workspace = Workspace([root], self.kept)
        self.committer = Committer(self.workspace, self.kept, durable=False, exchange=exchange)

    def change(self, name: str, before: str | None, after: str | None, mode: int | None = None) -> FileChange:
        old, new = (None if text is None else InlineContent(text.encode()) for text in (before, after))
        return FileChange(str(self.root / name), old, new, mode)

    def commit(self, *changes: FileChange) -> tuple[FileChange, ...]:
        self.kept.keep_all(changes)
        with self.committer.transaction(changes) as transaction:
            transaction.apply()
            transaction.clean_up()
            return transaction.files

    def take_back(self, files: tuple[FileChange, ...]) -> tuple[FileChange, ...]:
        return self.commit(*(change.invert() for change in reversed(files)))

    def abandon(self, *changes: FileChange, settled: bool = False) -> IncompleteTransaction:
        """What a process leaves if it dies after performing."""
        self.kept.keep_all(changes)
        with self.committer.transaction(changes) as transaction:
            transaction.apply()
            return IncompleteTransaction(1, transaction.id, transaction.files, settled)

    def recover(self, broken: IncompleteTransaction) -> tuple[str, ...]:
        with self.committer.exclusive():
            return self.committer.recover(broken)


@pytest.fixture(params=[True, False], ids=["exchange", "fallback"])
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Desk]:
    root = tmp_path / "root"
    root.mkdir()
    made = Desk(root, exchange=request.param)
    yield made
    made.workspace.close()


# --- C-40, U-14: what a write keeps


def test_c40_parents_are_made(desk: Desk):
    files = desk.commit(desk.change("a/b/c.txt", None, "text"))
    assert (desk.root / "a/b/c.txt").read_text() == "text"
    assert [(Path(each.path).name, each.after) for each in files[:2]] == [("a", Directory()), ("b", Directory())]


def test_c40_a_reader_sees_the_old_file_or_the_new(desk: Desk):
    texts = [letter * 20_000 for letter in "ab"]
    desk.commit(desk.change("f", None, texts[0]))
    seen: set[str] = set()
    over = threading.Event()

    def read() -> None:
        while not over.is_set():
            seen.add((desk.root / "f").read_text())

    reader = threading.Thread(target=read)
    reader.start()
    for turn in range(200):
        desk.commit(desk.change("f", texts[turn % 2], texts[(turn + 1) % 2]))
    over.set()
    reader.join()
    assert seen <= set(texts)


def test_u14_mode_and_attributes_stay(desk: Desk):
    target = desk.root / "tool"
    target.write_text("old")
    target.chmod(0o4750)
    os.setxattr(target, "user.note", b"kept")
    desk.commit(desk.change("tool", "old", "new"))
    assert target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o4750
    assert os.getxattr(target, "user.note") == b"kept"


@needs_root
def test_u14_the_owner_stays(desk: Desk):
    target = desk.root / "f"
    target.write_text("old")
    os.chown(target, 1234, 4321)
    target.chmod(0o6755)
    desk.commit(desk.change("f", "old", "new"))
    found = target.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (1234, 4321, 0o6755)


def acl(path: Path) -> str:
    return subprocess.run(["getfacl", "-cp", path], capture_output=True, text=True, check=True).stdout


def test_u14_acls_stay_and_none_is_added(desk: Desk):
    with_acl, without = desk.root / "with", desk.root / "without"
    with_acl.write_text("old")
    without.write_text("old")
    try:
        subprocess.run(["setfacl", "-m", "u:1234:rw,g:77:r", with_acl], check=True)
        subprocess.run(["setfacl", "-dm", "u:99:rwx", desk.root], check=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        pytest.skip("no ACLs here")
    before = acl(with_acl), acl(without)
    desk.commit(desk.change("with", "old", "new"), desk.change("without", "old", "new"))
    assert (acl(with_acl), acl(without)) == before
    desk.commit(desk.change("made", None, "new"))
    assert "user:99:rwx" in acl(desk.root / "made")  # a new file gets the defaults of its directory


def test_c40_a_new_file_obeys_the_umask_unless_told(desk: Desk):
    before = os.umask(0o027)
    try:
        desk.commit(desk.change("plain", None, "x"), desk.change("told", None, "x", 0o777))
    finally:
        os.umask(before)
    assert stat.S_IMODE((desk.root / "plain").stat().st_mode) == 0o640
    assert stat.S_IMODE((desk.root / "told").stat().st_mode) == 0o777


def test_nasty_30_u14_the_target_of_a_link_is_edited_and_the_link_stays(desk: Desk):
    (desk.root / "target").write_text("old")
    (desk.root / "link").symlink_to("target")
    place = desk.workspace.resolve("link")
    desk.commit(FileChange(place, InlineContent(b"old"), InlineContent(b"new")))
    assert os.readlink(desk.root / "link") == "target"
    assert (desk.root / "target").read_text() == "new"


def test_nasty_29_a_name_that_became_a_link_is_stale(desk: Desk, tmp_path: Path):
    outside = tmp_path / "outside"
    (desk.root / "f").symlink_to(outside)
    for change in (desk.change("f", None, "new"), desk.change("f", "old", "new"), desk.change("f", "old", None)):
        with pytest.raises(Stale):
            desk.commit(change)
    assert not outside.exists()
    assert (desk.root / "f").is_symlink()


@pytest.mark.parametrize("after", ["new", "", "longer" * 5000])
def test_nasty_31_u14_hard_links_survive(desk: Desk, tmp_path: Path, after: str):
    (desk.root / "a").write_text("old" * 2000)
    os.link(desk.root / "a", tmp_path / "b")
    files = desk.commit(desk.change("a", "old" * 2000, after))
    assert (tmp_path / "b").read_text() == after
    assert (tmp_path / "b").samefile(desk.root / "a")
    desk.take_back(files)
    assert (tmp_path / "b").read_text() == "old" * 2000


def test_nasty_31_two_names_of_one_file_in_one_set(desk: Desk):
    (desk.root / "a").write_text("old")
    os.link(desk.root / "a", desk.root / "b")
    desk.commit(desk.change("a", "old", "new"), desk.change("b", "old", "new"))
    assert (desk.root / "a").read_text() == (desk.root / "b").read_text() == "new"
    with pytest.raises(Stale):
        desk.commit(desk.change("a", "new", "one"), desk.change("b", "new", "two"))
    assert (desk.root / "a").read_text() == "new"
    desk.commit(desk.change("a", "new", None), desk.change("b", "new", None))
    assert tree(desk.root) == {}


@needs_root
def test_nasty_32_another_file_system_below_the_root(desk: Desk):
    below = desk.root / "mounted"
    below.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", below], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("may not mount here")
    try:
        (below / "f").write_text("old")
        (desk.root / "f").write_text("old")
        before = tree(desk.root)
        changes = [
            desk.change(f"{where}{name}", *what)
            for where in ("", "mounted/")
            for name, what in (("f", ("old", "new")), ("g", (None, "made")))
        ]
        files = desk.commit(*changes)
        assert (below / "f").read_text() == (desk.root / "f").read_text() == "new"
        desk.take_back(files)
        assert tree(desk.root) == before
    finally:
        subprocess.run(["umount", below], check=True)


# --- compare and swap


def test_nasty_40_the_second_of_two_agents_is_stale(desk: Desk):
    (desk.root / "f").write_text("old")
    desk.commit(desk.change("f", "old", "first"))
    with pytest.raises(Stale) as caught:
        desk.commit(desk.change("f", "old", "second"))
    assert caught.value.now == InlineContent(b"first").hash
    assert (desk.root / "f").read_text() == "first"


def test_nasty_37_39_41_content_decides_and_time_does_not(desk: Desk):
    target = desk.root / "f"
    target.write_text("old")
    found = target.stat()
    target.write_text("OLD")
    os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))
    with pytest.raises(Stale):
        desk.commit(desk.change("f", "old", "new"))
    target.unlink()
    target.write_text("old")
    os.utime(target, ns=(0, 0))
    desk.commit(desk.change("f", "old", "new"))
    assert target.read_text() == "new"


@pytest.mark.parametrize("name", ["replaced", "made", "deleted", "linked"])
def test_c62_a_change_after_the_check_is_found_and_nothing_is_done(desk: Desk, name: str):
    for each in ("replaced", "deleted", "linked", "other"):
        (desk.root / each).write_text("old")
    os.link(desk.root / "linked", desk.root / "second name")
    changes = [
        desk.change("other", "old", "new"),
        desk.change("replaced", "old", "new"),
        desk.change("made", None, "new"),
        desk.change("deleted", "old", None),
        desk.change("linked", "old", "new"),
        desk.change("folder/file", None, "new"),
    ]
    desk.kept.keep_all(changes)
    with desk.committer.transaction(changes) as transaction:
        (desk.root / name).write_text("ALS")
        before = tree(desk.root)
        with pytest.raises(Stale):
            transaction.apply()
    assert tree(desk.root) == before


@pytest.mark.parametrize("name", ["replaced", "deleted"])
def test_c62_whoever_gets_in_at_the_last_moment_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
):
    desk = Desk(tmp_path, exchange=True)
    for each in ("replaced", "deleted"):
        (desk.root / each).write_text("old")
    real = file_ops.renameat2

    def late(directory: int, one: str, other: str, flags: int, *, into: int | None = None) -> bool:
        if name in (one, other) and not (desk.root / "theirs").exists():
            (desk.root / name).write_text("theirs")
            (desk.root / "theirs").touch()
        return real(directory, one, other, flags)

    monkeypatch.setattr(file_ops, "renameat2", late)
    with pytest.raises(Stale):
        desk.commit(desk.change("deleted", "old", None), desk.change("replaced", "old", "new"))
    (desk.root / "theirs").unlink()
    assert {path: what[2] for path, what in tree(desk.root).items()} == {
        "replaced": b"old",
        "deleted": b"old",
        name: b"theirs",
    }
    desk.workspace.close()


def test_a_change_that_changes_nothing_is_left_out(desk: Desk):
    (desk.root / "f").write_text("old")
    inode = (desk.root / "f").stat().st_ino
    assert desk.commit(desk.change("f", "old", "old"), desk.change("g", None, None)) == ()
    assert (desk.root / "f").stat().st_ino == inode
    with pytest.raises(Stale):
        desk.commit(desk.change("f", "other", "other"))


# --- all or nothing


def test_c62_twenty_files_forth_and_back_and_forth(desk: Desk):
    lay(desk.root)
    old = tree(desk.root)
    files = desk.commit(*twenty(desk.root))
    new = tree(desk.root)
    undone = desk.take_back(files)
    assert tree(desk.root) == old
    desk.take_back(undone)
    assert tree(desk.root) == new


def test_c62_taking_back_leaves_nothing(desk: Desk):
    lay(desk.root)
    old = tree(desk.root)
    changes = twenty(desk.root)
    desk.kept.keep_all(changes)
    with desk.committer.transaction(changes) as transaction:
        transaction.apply()
        assert tree(desk.root) != old
        transaction.roll_back()
    assert tree(desk.root) == old


def test_c62_an_interrupt_takes_back_what_was_done(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    lay(desk.root)
    old = tree(desk.root)

    def interrupted(self: WriteTransaction, step: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(WriteTransaction, "_write_in_place", interrupted)
    with pytest.raises(KeyboardInterrupt):
        desk.commit(*twenty(desk.root))
    assert tree(desk.root) == old


def test_content_that_the_store_dropped_is_named(desk: Desk):
    change = FileChange(str(desk.root / "f"), None, ContentRef("0" * 64, 3))
    with pytest.raises(ContentDropped) as caught:
        desk.commit(desk.change("a", None, "x"), change)
    assert caught.value.paths == (str(desk.root / "f"),)
    assert tree(desk.root) == {}


# --- directories


def test_directories_come_and_go_with_their_files(desk: Desk):
    files = desk.commit(desk.change("a/b/f", None, "x"))
    undone = desk.take_back(files)
    assert tree(desk.root) == {}
    desk.take_back(undone)
    assert (desk.root / "a/b/f").read_text() == "x"


def test_a_directory_that_holds_something_else_stays_and_redo_still_works(desk: Desk):
    files = desk.commit(desk.change("a/b/f", None, "x"))
    (desk.root / "a/mine").write_text("y")
    undone = desk.take_back(files)
    assert set(tree(desk.root)) == {"a", "a/mine"}
    desk.take_back(undone)
    assert (desk.root / "a/b/f").read_text() == "x"


def test_the_mode_of_what_went_away_comes_back(desk: Desk):
    folder = desk.root / "closed"
    folder.mkdir()
    (folder / "f").write_text("x")
    (folder / "f").chmod(0o711)
    folder.chmod(0o555)
    before = tree(desk.root)
    folder.chmod(0o755)
    gone = FileChange(str(folder), Directory(), None)
    with desk.committer.transaction([desk.change("closed/f", "x", None), gone]) as transaction:
        assert transaction.files[0].mode == 0o711
    folder.chmod(0o555)
    files = desk.commit(desk.change("closed/f", "x", None), gone)
    assert tree(desk.root) == {}
    desk.take_back(files)
    assert tree(desk.root) == before
    folder.chmod(0o755)


def test_a_file_is_no_directory(desk: Desk):
    (desk.root / "f").write_text("x")
    (desk.root / "d").mkdir()
    with pytest.raises(NotDirectory):
        desk.commit(desk.change("f/below", None, "y"))
    with pytest.raises(Stale):
        desk.commit(FileChange(str(desk.root / "f"), None, Directory()))
    with pytest.raises(NotDirectory):
        desk.commit(FileChange(str(desk.root / "f"), InlineContent(b"x"), Directory()))
    with pytest.raises(IsDirectory):
        desk.commit(FileChange(str(desk.root / "d"), Directory(), InlineContent(b"x")))
    with pytest.raises(Stale):
        desk.commit(desk.change("d", None, "x"))


# --- locks, permissions, limits


def test_whoever_waits_too_long_hears_that_it_is_busy(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(commit, "LOCK_TIMEOUT_SECONDS", 0.05)
    with desk.committer.exclusive(), pytest.raises(Busy):
        desk.commit(desk.change("f", None, "x"))
    desk.commit(desk.change("f", None, "x"))


def test_threads_take_turns(desk: Desk):
    (desk.root / "f").write_text("0")
    lost: list[ToolError] = []

    def count() -> None:
        done = 0
        while done < 50:
            now = (desk.root / "f").read_text()
            try:
                desk.commit(desk.change("f", now, str(int(now) + 1)))
                done += 1
            except Stale:
                time.sleep(0)

    threads = [threading.Thread(target=count) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (desk.root / "f").read_text() == "100"
    assert not lost


def test_a_read_only_root_is_not_written(tmp_path: Path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    kept = Kept()
    workspace = Workspace([tmp_path / "a"], kept, read_only=[tmp_path / "b"])
    with pytest.raises(ReadOnly), workspace.transaction([FileChange(str(tmp_path / "b/f"), None, InlineContent(b"x"))]):
        pass
    workspace.close()


@needs_root
def test_nasty_42_what_may_not_be_written_is_refused_and_the_rest_is_untouched(desk: Desk):
    (desk.root / "closed").mkdir(mode=0o755)
    for name in ("closed/f", "f"):
        (desk.root / name).write_text("old")
    desk.root.chmod(0o777)
    desk.root.parent.chmod(0o755)
    before = tree(desk.root)

    def act() -> None:
        for refused in (
            desk.change("closed/f", "old", "new"),
            desk.change("closed/f", "old", None),
            desk.change("closed/g", None, "new"),
        ):
            with pytest.raises(PermissionDenied):
                desk.commit(desk.change("made", None, "x"), refused)

    as_nobody(act)
    assert tree(desk.root) == before


@needs_root
@pytest.mark.parametrize("mode", [0o755, 0o1777], ids=["closed directory", "sticky directory"])
def test_u14_a_file_that_may_be_written_but_not_replaced_is_written_in_place(desk: Desk, mode: int):
    folder = desk.root / "folder"
    folder.mkdir()
    folder.chmod(mode)
    (folder / "f").write_text("old")
    (folder / "f").chmod(0o666)
    inode = (folder / "f").stat().st_ino

    as_nobody(lambda: desk.take_back(desk.commit(desk.change("folder/f", "old", "new"))))
    assert (folder / "f").read_text() == "old"
    as_nobody(lambda: desk.commit(desk.change("folder/f", "old", "new")))
    assert (folder / "f").read_text() == "new"
    assert (folder / "f").stat().st_ino == inode
    assert os.listdir(folder) == ["f"]


@needs_root
def test_u14_a_file_whose_owner_we_cannot_give_is_written_in_place(desk: Desk):
    desk.root.chmod(0o777)
    target = desk.root / "f"
    target.write_text("old")
    target.chmod(0o666)
    inode = target.stat().st_ino
    as_nobody(lambda: desk.commit(desk.change("f", "old", "new")))
    assert (target.read_text(), target.stat().st_uid, target.stat().st_ino) == ("new", 0, inode)


def test_nasty_47_descriptors_are_given_back(desk: Desk):
    before = len(os.listdir("/proc/self/fd"))
    for turn in range(50):
        desk.commit(desk.change(f"d{turn}/f", None, "x"))
        with pytest.raises(Stale):
            desk.commit(desk.change(f"d{turn}/f", None, "x"))
    assert len(os.listdir("/proc/self/fd")) == before


def test_more_directories_than_may_be_open(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(file_ops, "MAX_OPEN_DIRECTORIES", 7)
    desk.committer._durable = True
    changes = [desk.change(f"{turn % 60}/{turn}", None, f"text {turn}") for turn in range(180)]
    files = desk.commit(*changes)
    assert len(files) == 240
    assert all((desk.root / f"{turn % 60}/{turn}").read_text() == f"text {turn}" for turn in range(180))
    desk.take_back(files)
    assert tree(desk.root) == {}


def test_nasty_46_a_rename_across_file_systems_is_an_error_and_no_escape(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    def cannot(*_: object, **__: object) -> bool:
        raise OSError(18, "Invalid cross-device link")

    (desk.root / "f").write_text("old")
    before = tree(desk.root)
    monkeypatch.setattr(file_ops.FileOps, "swap", cannot)
    with pytest.raises(SystemFailure):
        desk.commit(desk.change("f", "old", "new"))
    assert tree(desk.root) == before


# --- recovery


def test_c62_recovery_takes_back_what_was_not_settled_and_may_run_twice(desk: Desk):
    lay(desk.root)
    old = tree(desk.root)
    broken = desk.abandon(*twenty(desk.root))
    assert desk.recover(broken) == ()
    assert tree(desk.root) == old
    assert desk.recover(broken) == ()
    assert tree(desk.root) == old


def test_c62_recovery_clears_up_after_what_was_settled(desk: Desk):
    lay(desk.root)
    broken = desk.abandon(*twenty(desk.root), settled=True)
    stray = [path for path in tree(desk.root) if ".handhold" in path]
    assert stray
    assert desk.recover(broken) == ()
    left = tree(desk.root)
    assert not [path for path in left if ".handhold" in path]
    assert "gone" not in left
    assert (desk.root / "c0").exists()
    assert not (desk.root / "d0").exists()


def test_c62_recovery_leaves_what_somebody_changed_since(desk: Desk):
    for name in ("replaced", "deleted", "linked", "vanished"):
        (desk.root / name).write_text("old")
    os.link(desk.root / "linked", desk.root / "second name")
    broken = desk.abandon(
        desk.change("replaced", "old", "new"),
        desk.change("made", None, "new"),
        desk.change("deleted", "old", None),
        desk.change("linked", "old", "new"),
        desk.change("vanished", "old", "new"),
    )
    (desk.root / "vanished").unlink()
    for name in ("replaced", "made", "deleted", "linked"):
        (desk.root / name).write_text("theirs")
    now = {path: what for path, what in tree(desk.root).items() if ".handhold" not in path}
    assert sorted(Path(path).name for path in desk.recover(broken)) == sorted(
        ["replaced", "made", "deleted", "linked", "vanished"]
    )
    assert tree(desk.root) == now


def test_c62_a_write_in_place_that_was_cut_off_is_mended(desk: Desk):
    old, new = "o" * 20_000, "n" * 30_000
    (desk.root / "f").write_text(old)
    os.link(desk.root / "f", desk.root / "g")
    broken = desk.abandon(desk.change("f", old, new))
    (desk.root / "f").write_text(new[:8192] + old[8192:] + "\0" * 10_000)
    assert desk.recover(broken) == ()
    assert (desk.root / "f").read_text() == old
    assert (desk.root / "f").stat().st_nlink == 2


pages = st.lists(st.sampled_from([b"b" * PAGE_BYTES, b"a" * PAGE_BYTES, b"\0" * PAGE_BYTES]), min_size=3, max_size=3)


@given(pages)
def test_any_choice_of_pages_is_a_mixture(chosen: list[bytes]):
    assert is_partial_write(b"".join(chosen), b"b" * 3 * PAGE_BYTES, b"a" * 3 * PAGE_BYTES)


@given(st.binary(max_size=200), st.binary(max_size=200), st.integers(0, 200))
def test_a_mixture_is_seen_forth_and_back(before: bytes, after: bytes, cut: int):
    longer = max(len(before), len(after))
    assert is_partial_write(before, before, after)
    assert is_partial_write(after, before, after)
    assert is_partial_write(after + before[len(after) :], before, after)
    assert is_partial_write(before + after[len(before) :], before, after)
    assert is_partial_write(before.ljust(longer, b"\0"), before, after)
    assert not is_partial_write(before + after + b"x", before, after)


def test_somebody_elses_text_is_no_mixture():
    assert not is_partial_write(b"their text!", b"before text", b"after text!")
    assert not is_partial_write(b"hello wo", b"hello world\n", b"hello\n")
