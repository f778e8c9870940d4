"""C-94 in ten real trees: nearly all of each is kept, what is not is named, and undo restores exactly the rest.

What undo restores is compared with digests that were taken before, without Handhold. `pytest -rP` shows the shares.
"""

import hashlib
import os
import shutil
import sqlite3
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import cache
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from handhold import Target, Toolbox
from handhold.backends.snapshots import copies
from handhold.backends.snapshots.capture import MAY_BE_ONLY_COPY
from handhold.backends.snapshots.listing import unpack_status
from handhold.core.ports.recording import Window
from handhold.snapshots import Recorded
from tests.backends.snapshots.trees import (
    CASEFOLD,
    LARGE,
    MIB,
    REGENERABLE,
    SAMPLES,
    case_folding_disk,
    constant_writing,
    lay_database,
    lay_large_files,
    lay_other_owners,
    write,
    write_sources,
)
from tests.faults.disks import disk
from tests.faults.trees import NOBODY, as_nobody
from tests.scale import nightly

WHYS = {value for name, value in vars(copies).items() if name.isupper() and isinstance(value, str) and " " in value}
MIN_SHARE = 0.99  # of the files that no program makes again
GetDisk = Callable[[str, int], Path]


@pytest.fixture(autouse=True)
def no_copier(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other process, which would still use a disk that is unmounted."""
    monkeypatch.setattr("handhold.snapshots.start_copier", lambda *_: None)


@pytest.fixture(scope="module")
def get_disk() -> Iterator[GetDisk]:
    """A disk of each kind, for all trees."""
    with ExitStack() as stack:

        @cache
        def get(kind: str, size: int) -> Path:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="disk-")))
            return stack.enter_context(disk(folder, size, kind=kind))

        yield get


@contextmanager
def a_folder(point: Path) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(dir=point))
    yield folder
    shutil.rmtree(folder)


class Bed:
    """A recorded tree, and how it looks to somebody else."""

    def __init__(self, root: Path) -> None:
        self.root = root
        # Undo restores what is protected, too: a person answers.
        state = root.parent / "state"
        self.box = Toolbox.open(root, state=state, session="s", approver=lambda _: True, settings=False)
        self.complete()

    def complete(self) -> None:
        """Wait until everything is copied."""
        snapshots = self.box.snapshots
        snapshots.sweep()
        while not snapshots.complete() or snapshots.recorder.baseline.due(1):
            time.sleep(0.02)

    def files(self) -> dict[str, tuple[int, str]]:
        """The baseline's regular files: size, and why there is no copy."""
        found: dict[str, tuple[int, str]] = {}
        baseline = self.box.snapshots.recorder.baseline
        for folder, record in baseline.folders().items():
            for entry in baseline.entries(record.id).values():
                if stat.S_ISREG(unpack_status(entry.status).mode):
                    path = os.fsdecode(folder + b"/" + entry.name if folder else entry.name)
                    found[path] = entry.size, "" if entry.copy else entry.why or "not yet"
        return found

    @contextmanager
    def window(self, call: str) -> Iterator[list[Recorded]]:
        recorded: list[Recorded] = []
        self.box.snapshots.begin(Window("s", call, "Bash"))
        yield recorded
        recorded.append(self.box.snapshots.end("s", call))

    def relative(self, path: str) -> str:
        return os.path.relpath(path, self.root)


class State(NamedTuple):
    mode: int
    uid: int
    gid: int
    content: object  # a digest, or the target of a link
    first_name: str | None  # of those that the file has


def describe(root: Path) -> dict[str, State]:
    """Everything below a folder."""
    found: dict[str, State] = {}
    first_names: dict[int, str] = {}
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in sorted((*folders, *names)):
            path = os.path.join(folder, name)
            status = os.lstat(path)
            relative = os.path.relpath(path, root)
            what, first = None, None
            if stat.S_ISREG(status.st_mode):
                what, first = read_digest(path), first_names.setdefault(status.st_ino, relative)
            elif stat.S_ISLNK(status.st_mode):
                what = os.readlink(path)
            found[relative] = State(status.st_mode, status.st_uid, status.st_gid, what, first)
    return found


def without_links(described: dict[str, State]) -> dict[str, State]:
    return {path: state._replace(first_name=None) for path, state in described.items()}


def read_digest(path: str) -> bytes | None:
    """None if we may not read it."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "blake2b").digest()
    except PermissionError:
        return None


def is_regenerable(path: str) -> bool:
    return any(part in REGENERABLE for part in path.split("/"))


# --- what is kept


def check_kept(bed: Bed, name: str) -> None:
    on_disk = {path for path, state in describe(bed.root).items() if stat.S_ISREG(state.mode)}
    assert bed.files().keys() == on_disk
    check_shares(bed, name)


def check_shares(bed: Bed, name: str) -> None:
    """Nearly all is kept, and the rest has a reason."""
    files = bed.files()
    assert {why for _, why in files.values()} <= {"", *WHYS}
    shares: list[str] = []
    for label, chosen in (
        ("all", files),
        ("outside regenerable folders", {path: files[path] for path in files if not is_regenerable(path)}),
    ):
        kept = [size for size, why in chosen.values() if not why]
        total = sum(size for size, _ in chosen.values())
        share = len(kept) / len(chosen)
        shares.append(
            f"{label}: {len(kept):,} of {len(chosen):,} files ({share:.1%}),"
            f" {sum(kept) / MIB:,.1f} of {total / MIB:,.1f} MiB ({sum(kept) / (total or 1):.1%})"
        )
    print(f"{name}: {'; '.join(shares)}")
    assert share >= MIN_SHARE


# --- what comes back


def change_some(root: Path, seed: str) -> None:
    """Change and delete some of every kind of entry, and create some."""
    random = Random(seed)
    kinds: dict[str, list[str]] = {}
    for path, state in describe(root).items():
        kind = "link" if stat.S_ISLNK(state.mode) else "folder" if stat.S_ISDIR(state.mode) else "file"
        suffix = os.path.splitext(path)[1]
        kinds.setdefault(f"{kind} {suffix if len(suffix) < 5 else ''} {is_regenerable(path)}", []).append(path)
    for kind, paths in sorted(kinds.items()):
        for path in random.sample(paths, min(4, len(paths))):
            if os.path.lexists(root / path):
                change(root / path, kind.split()[0], random)
    write(root / "created/new/file", "new\n")


def change(path: Path, kind: str, random: Random) -> None:
    if kind == "link":
        path.unlink()
        if random.random() < 0.5:
            path.symlink_to("somewhere else")
    elif kind == "folder":
        if random.random() < 0.3:
            shutil.rmtree(path)
        elif random.random() < 0.5:
            path.rename(path.with_name(path.name + " moved"))
        else:
            path.chmod(0o711)
    else:
        change_file(path, random.randrange(6))


def change_file(path: Path, how: int) -> None:
    if how == 0:
        path.unlink()
    elif how == 1:
        path.rename(path.with_name(path.name + " moved"))
    elif how == 2:
        path.chmod(stat.S_IMODE(path.stat().st_mode) ^ 0o110)
    elif how == 3:
        path.unlink()
        path.mkdir()
    else:
        with path.open("r+b") as file:
            file.seek(0, os.SEEK_SET if how == 4 else os.SEEK_END)
            file.write(b"somebody else's")


def remove_contents(root: Path) -> None:
    subprocess.run(["rm", "-rf", *root.iterdir()], check=False)


def check_undo(bed: Bed, call: str, destroy: Callable[[Path], object]) -> None:
    """Destroy, undo, compare."""
    before = describe(bed.root)
    lost = {path for path, (_, why) in bed.files().items() if why}
    with bed.window(call) as windows:
        destroy(bed.root)
    left = describe(bed.root)
    (recorded,) = windows
    assert not recorded.foreign
    named = {bed.relative(path) for path in recorded.not_kept}
    new = {bed.relative(path) for path, why in recorded.not_kept.items() if why == MAY_BE_ONLY_COPY}
    reply = bed.box.undo(Target.call(call))
    assert reply.ok, reply.text
    after = describe(bed.root)
    if left:  # a name comes back as a file of its own if its other names did not change
        before, left, after = without_links(before), without_links(left), without_links(after)
    different = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    named |= {path for path in different if not new.isdisjoint(map(str, Path(path).parents))}
    assert different <= named, sorted(different - named)[:5]
    for path in different:
        assert after.get(path) == left.get(path), f"{path} is neither restored nor left alone"
    assert {path for path in named if path in before} <= lost, "named as not kept, but there was a copy"
    bed.complete()


def check_tree(root: Path, name: str) -> dict[str, tuple[int, str]]:
    """Returns its files, and why some are not kept."""
    bed = Bed(root)
    try:
        files = bed.files()
        check_kept(bed, name)
        check_undo(bed, "some", lambda root: change_some(root, name))
        check_undo(bed, "all", remove_contents)
        assert bed.box.store.verify().problem is None
        return files
    finally:
        bed.box.close()


@pytest.mark.parametrize("kind", ["ext4", "btrfs", "xfs"])
@pytest.mark.parametrize("name", [*SAMPLES])
def test_c94_a_real_tree_comes_back(name: str, kind: str, get_disk: GetDisk):
    with a_folder(get_disk(kind, 512 * MIB)) as folder:
        SAMPLES[name](folder / "work")
        check_tree(folder / "work", f"{name} on {kind}")


@pytest.mark.parametrize("kind", ["ext4", "btrfs"])
def test_c94_large_files_come_back_where_blocks_are_shared_and_are_named_elsewhere(
    kind: str, get_disk: GetDisk, monkeypatch: pytest.MonkeyPatch
):
    """A thousandth of real sizes, and of what is kept."""
    monkeypatch.setattr(copies, "MAX_FILE_BYTES", copies.MAX_FILE_BYTES // 1024)
    monkeypatch.setattr(copies, "MAX_DISK_SHARE", 700)
    with a_folder(get_disk(kind, 512 * MIB)) as folder:
        lay_large_files(folder / "work")
        files = check_tree(folder / "work", f"large files on {kind}")
    whys = {why for _, why in files.values()}
    assert whys == ({"", copies.TOO_LARGE, copies.NO_ROOM} if kind == "ext4" else {""})


@nightly(sampled_by="tests/backends/snapshots/test_trees.py::test_c94_a_real_tree_comes_back")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ["ext4", "btrfs"])
@pytest.mark.parametrize("name", [*LARGE])
def test_c94_a_large_real_tree_comes_back(name: str, kind: str, get_disk: GetDisk):
    with a_folder(get_disk(kind, 32 * 1024 * MIB)) as folder:
        LARGE[name](folder / "work")
        check_tree(folder / "work", f"{name} on {kind}")


def test_c94_of_files_of_other_owners_a_plain_user_keeps_their_own(plain: Path):
    root = plain / "work"
    lay_other_owners(root)
    for path in (root, *root.rglob("*")):
        if path.lstat().st_uid == 0 and "logs" not in path.parts:
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)

    def act() -> None:
        bed = Bed(root)
        files = bed.files()
        assert {path: why for path, (_, why) in files.items() if why} == {
            "logs/file1": copies.OTHER_OWNER,
            "logs/file2": copies.OTHER_OWNER,
        }
        assert sum(not why for _, why in files.values()) / len(files) >= MIN_SHARE
        check_undo(bed, "some", lambda root: change_some(root / "src", "src"))
        check_undo(bed, "all", remove_contents)
        bed.box.close()

    as_nobody(act)


def test_c94_a_database_that_is_written_all_the_time_comes_back_whole_or_is_named(tmp_path: Path):
    root = tmp_path / "work"
    lay_database(root)
    names = ("wal.db", "rollback.db")
    with ExitStack() as writing:
        writing.enter_context(constant_writing(*(root / name for name in names)))
        time.sleep(0.2)
        bed = Bed(root)
        check_shares(bed, "database")
        with bed.window("one") as windows:
            shutil.rmtree(root / "src")
            time.sleep(0.3)
            writing.close()  # or undo is refused, since it would lose what was written after the call
    rows = {name: count_rows(root / name) for name in names}
    (recorded,) = windows
    lost = {bed.relative(path) for path in recorded.not_kept}
    assert not [path for path in lost if ".db" not in path]
    assert bed.box.undo(Target.call("one")).ok
    assert (root / "src/part0/file0.py").exists()
    for name in names:
        parts = {f"{name}{suffix}" for suffix in ("", "-wal", "-journal")}
        left_alone = bool(parts & lost)
        restored = count_rows(root / name)
        assert restored == rows[name] if left_alone else 0 < restored < rows[name], (name, lost)
    bed.box.close()


def count_rows(database: Path) -> int:
    """In a copy: reading it would change it."""
    with tempfile.TemporaryDirectory() as folder:
        for suffix in ("", "-wal", "-journal"):
            if (part := Path(f"{database}{suffix}")).exists():
                shutil.copy(part, folder)
        return count_rows_of(Path(folder) / database.name)


def count_rows_of(database: Path) -> int:
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return connection.execute("SELECT count(*) FROM t").fetchone()[0]


if CASEFOLD.exists():  # there is no such test where the kernel has no such folders

    def test_c94_a_folder_that_ignores_case_comes_back(tmp_path: Path):
        with case_folding_disk(tmp_path) as folder:
            root = folder / "work"
            write_sources(root, "py", 200)
            check_tree(root, "ignoring case")
            bed = Bed(root)
            check_undo(bed, "renamed", lambda root: (root / "nothing").rename(root / "NOTHING"))
            bed.box.close()
