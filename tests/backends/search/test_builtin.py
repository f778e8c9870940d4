import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep

import pytest

from handhold.backends.files.directory_tree import MAX_OPEN_FOLDERS
from handhold.backends.files.workspace import Workspace
from handhold.backends.search import batch_reader
from handhold.backends.search.exclusions import explain_skipped_paths
from handhold.backends.state.sqlite import SqliteStore
from handhold.core.facts import SkippedFiles
from tests.backends.search.looking import Looking, children, descriptors, looking, planted
from tests.scale import scaled

DEPTH = scaled(2_500, 5_000)


@pytest.fixture
def walk(tmp_path: Path) -> Iterator[Looking]:
    with looking(tmp_path, "walk") as found:
        yield found


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """Five thousand nested folders, each with a file next to it."""
    fd = os.open(tmp_path, os.O_RDONLY)
    for depth in range(DEPTH):
        os.close(os.open("z" if depth % 100 else "needle", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
        os.mkdir("d", dir_fd=fd)
        below = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    last = os.open("last.txt", os.O_CREAT | os.O_WRONLY, dir_fd=fd)
    os.write(last, b"a needle\n")
    os.close(last)
    os.close(fd)
    yield tmp_path
    subprocess.run(["rm", "-rf", tmp_path], check=True)  # Python's own removal is recursive and would exceed the limit


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_nasty_14_five_thousand_nested_folders_are_searched_with_few_of_them_open(deep: Path):
    most, before = 0, descriptors()

    def watch(place: str) -> bool:
        nonlocal most
        most = max(most, descriptors() - before)
        return True

    with looking(deep, "walk") as walk:
        scan = walk.grep("needle", sort="none")
        assert [name.count("/") for name in walk.names(scan)] == [DEPTH]
        assert walk.names(scan)[0].endswith("/last.txt")
        assert scan.abort_reason == ""
        assert len(walk.glob("**/needle", visible=watch).hits) == DEPTH // 100
    assert 0 < most <= MAX_OPEN_FOLDERS + 8
    assert descriptors() <= before


def test_nasty_33_a_folder_that_is_moved_away_meanwhile_is_told(walk: Looking, tmp_path: Path):
    planted(tmp_path, {f"{name}/a": "x\n" for name in "bcd"})

    def moving(place: str) -> bool:
        if place.endswith("b/a") and (tmp_path / "c").exists():
            shutil.move(tmp_path / "c", tmp_path / "e")
        return True

    scan = walk.glob("**", sort="none", visible=moving)
    assert walk.names(scan) == ["b/a", "d/a"]
    assert scan.unstable_count == 1


def test_nasty_33_a_file_that_goes_meanwhile_is_told(walk: Looking, tmp_path: Path):
    planted(tmp_path, {"a": "x\n", "b": "x\n"})

    def removing(place: str) -> bool:
        if place.endswith("/b"):
            (tmp_path / "b").unlink(missing_ok=True)
        return True

    scan = walk.grep("x", sort="none", visible=removing)
    assert walk.names(scan) == ["a"]
    assert scan.unstable_count == 1


def test_c2_links_are_not_followed(tmp_path: Path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("x\n")
    root = planted(tmp_path / "ws", {"d/a": "x\n"})
    (root / "out").symlink_to(tmp_path / "outside")
    (root / "file").symlink_to(root / "d" / "a")
    with looking(root, "walk") as walk:
        assert walk.names(walk.grep("x", sort="none")) == ["d/a"]
        assert walk.names(walk.glob("**", sort="none")) == ["d/a"]


@pytest.mark.parametrize("name", [".gitignore", ".ignore", "pipe"])
def test_nasty_1_a_fifo_does_not_block(walk: Looking, tmp_path: Path, name: str):
    planted(tmp_path, {"a": "x\n", ".git/HEAD": ""})
    os.mkfifo(tmp_path / name)
    assert walk.names(walk.grep("x", hidden=True)) == ["a"]


def test_an_ignore_file_that_is_a_link_tells_nothing_from_outside(tmp_path: Path):
    (tmp_path / "secret").write_text("a\n")
    root = planted(tmp_path / "ws", {"a": "x\n"})
    (root / ".ignore").symlink_to(tmp_path / "secret")
    with looking(root, "walk") as walk:
        assert walk.names(walk.grep("x")) == ["a"]


def test_rules_above_the_root_count(tmp_path: Path):
    planted(tmp_path, {".ignore": "/ws/d/*.log\n", "ws/d/a.log": "x\n", "ws/d/a.txt": "x\n"})
    with looking(tmp_path / "ws", "walk") as walk:
        assert walk.names(walk.grep("x")) == ["d/a.txt"]
        missed = walk.grep("x", glob="*.rs")
        assert missed.hits == ()
        assert [each.rule for each in walk.grep("absent").skipped] == ["ignore file"]


@pytest.mark.parametrize("seconds", [0.5, 1.0])
def test_nasty_18_backtracking_ends_at_the_deadline_and_leaves_no_process(
    walk: Looking, tmp_path: Path, seconds: float
):
    planted(tmp_path, {"a": "needle\n", "b": "a" * 60 + "!\n", "c": "needle\n"})
    processes, before = children(), descriptors()
    begun = monotonic()
    scan = walk.grep("needle|(a+)+$", regex=True, timeout_seconds=seconds, sort="none")
    assert monotonic() - begun < seconds + 1.0
    assert scan.abort_reason == "deadline"
    assert scan.has_more
    assert children() <= processes
    assert descriptors() <= before


def test_many_files_are_read_by_two_processes_and_come_in_order(walk: Looking, tmp_path: Path):
    names = sorted(f"d{n % 7}/f{n:05}" for n in range(batch_reader.MAX_IN_PROCESS_FILES * 2))
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("needle\n" if int(name[-1]) % 2 else "other\n")
    processes, before = children(), descriptors()
    for regex in (False, True):
        scan = walk.grep("needle", sort="none", limit=10_000, regex=regex)
        assert walk.names(scan) == [name for name in names if int(name[-1]) % 2]
        assert scan.searched_count == len(names)
    assert children() <= processes
    assert descriptors() <= before


def test_the_walk_ends_at_its_deadline(walk: Looking, tmp_path: Path):
    planted(tmp_path, {f"{n}/a": "x\n" for n in range(50)})

    def slow(_: str) -> bool:
        sleep(0.02)
        return True

    begun = monotonic()
    scan = walk.glob("**", sort="none", timeout_seconds=0.1, visible=slow)
    assert monotonic() - begun < 1.0
    assert scan.abort_reason == "deadline"
    assert 0 < len(scan.hits) < 50


def test_threads_may_search_at_once(walk: Looking, tmp_path: Path):
    planted(tmp_path, {f"{n}/a": f"needle {n}\n" for n in range(50)})
    found: list[int] = []

    def look() -> None:
        found.append(len(walk.grep("needle").hits))

    threads = [threading.Thread(target=look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [50] * 8


def test_a_sparse_file_of_two_gigabytes_is_told_as_too_large(walk: Looking, tmp_path: Path):
    planted(tmp_path, {"a": "x\n"})
    with open(tmp_path / "large", "wb") as file:
        file.truncate(2 << 30)
    scan = walk.grep("absent")
    assert SkippedFiles("too large", 1) in scan.skipped


def test_the_topmost_rule_that_hides_a_file_is_told(tmp_path: Path):
    root = planted(tmp_path, {".ignore": "\nout\n", "out/.ignore": "*.log\n", "out/a.log": "", ".h/b.log": "", "c": ""})
    workspace = Workspace([root], SqliteStore.in_memory())
    try:
        places = [f"{workspace.roots[0]}/{name}" for name in ("out/a.log", ".h/b.log", "c")]
        skipped = explain_skipped_paths(
            workspace, workspace.roots[0], places, hidden=False, ignored=False, until=monotonic() + 5
        )
    finally:
        workspace.close()
    assert set(skipped) == {
        SkippedFiles("ignore file", 1, f"{workspace.roots[0]}/.ignore", 2, "out"),
        SkippedFiles("hidden", 1),
    }
