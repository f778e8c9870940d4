"""When time runs out, a search returns what it found, marked as incomplete, and leaves nothing running."""

import os
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any

import pytest

from handhold.backends.search.ripgrep import RipgrepSearchRun
from handhold.backends.search.ripgrep_binary import ENV
from handhold.backends.search.search_process import Deadline, DeadlineExceeded, EngineFailed, SearchProcess
from handhold.backends.search.search_run import CountedFiles, LinesByFile
from tests.backends.search.looking import Looking, children, descriptors, looking
from tests.scale import scaled

FOLDERS, FILES = scaled(125, 250), 200  # folders in the large tree, and files in each


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("large")
    text = b"a line of text\n" * 500 + b"needle\n"
    for number in range(FOLDERS):
        folder = os.open(root, os.O_RDONLY)
        os.mkdir(f"d{number}", dir_fd=folder)
        below = os.open(f"d{number}", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        for file in range(FILES):
            fd = os.open(f"f{file}", os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=below)
            os.write(fd, text)
            os.close(fd)
        os.close(below)
    return root


@pytest.fixture
def disk(large: Path) -> Iterator[Looking]:
    with looking(large, "ripgrep") as look:
        look.glob("d0/*")  # everything is imported, and ripgrep is located
        yield look


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("mode", ["files_with_matches", "content", "count"])
@pytest.mark.parametrize("sort", ["modified", "none"])
def test_50_ms_on_a_large_tree_give_what_was_found_within_100(disk: Looking, mode: str, sort: str):
    processes, open_before = children(), descriptors()
    took: list[float] = []
    for _ in range(5):
        began = perf_counter()
        # An unsorted search ends when its page is full, so the page must never fill up.
        limit = 100 if sort == "modified" else FOLDERS * FILES + 1
        scan = disk.grep("needle", mode=mode, sort=sort, timeout_seconds=0.05, limit=limit)
        took.append(perf_counter() - began)
        assert (scan.abort_reason, scan.has_more) == ("deadline", True)
        assert children() <= processes
        assert descriptors() <= open_before
    assert min(took) < 0.1, took


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.timeout(180)
def test_50_ms_are_enough_to_find_something(disk: Looking):
    scans = [disk.grep("needle", timeout_seconds=0.05) for _ in range(5)]  # other load may slow this machine down
    assert any(scan.hits for scan in scans)
    assert all(hit.place.startswith(disk.root) for scan in scans for hit in scan.hits)


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_miss_is_told_as_unfinished_when_the_time_was_over(disk: Looking):
    scan = disk.grep("nowhere", timeout_seconds=0.02)
    assert (scan.hits, scan.abort_reason, scan.has_more) == ((), "deadline", True)


def test_time_that_ran_out_before_a_long_line_is_searched_again_ends_the_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A long line that a regular expression matches is searched again in the open file."""
    (tmp_path / "long").write_text("x" * 3_000_000)
    find_lines = RipgrepSearchRun.find_lines

    def find_late(run: RipgrepSearchRun, *given: Any) -> LinesByFile:
        yield from find_lines(run, *given)
        run.until = monotonic()
        raise DeadlineExceeded

    monkeypatch.setattr(RipgrepSearchRun, "find_lines", find_late)
    with looking(tmp_path, "ripgrep") as look:
        scan = look.grep("x+", mode="content", sort="modified", regex=True)
    assert (scan.hits, scan.abort_reason, scan.has_more) == ((), "deadline", True)


# --- a program that does not end, or prints too much


@pytest.fixture
def here(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY)
    yield fd
    os.close(fd)


def test_a_program_that_says_nothing_is_not_waited_for(here: int):
    processes = children()
    began = monotonic()
    with (
        pytest.raises(DeadlineExceeded),
        SearchProcess(["/bin/sleep", "60"], here, Deadline(monotonic() + 0.05), ENV) as running,
    ):
        list(running.read_chunks())
    assert monotonic() - began < 1
    assert children() <= processes


def test_a_program_that_never_stops_talking_is_stopped(here: int):
    with (
        pytest.raises(DeadlineExceeded),
        SearchProcess(["/bin/cat", "/dev/zero"], here, Deadline(monotonic() + 0.05), ENV) as running,
    ):
        for _ in running.read_chunks():
            pass


def test_a_program_that_closes_its_pipes_and_stays_is_stopped(here: int):
    argv = ["/bin/sh", "-c", "exec >&- 2>&-; exec sleep 60"]
    with pytest.raises(DeadlineExceeded), SearchProcess(argv, here, Deadline(monotonic() + 0.2), ENV) as running:
        list(running.read_chunks())


def test_g9_the_newest_are_looked_for_as_long_as_the_search_may_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for number in range(5):
        (tmp_path / f"f{number}").touch()
        os.utime(tmp_path / f"f{number}", (number, number))
    seconds = 0.0

    def slowly(run: RipgrepSearchRun, deadline: Deadline) -> CountedFiles:
        nonlocal seconds
        for number in range(5):
            seconds += 3
            deadline.check_remaining()
            yield [(f"f{number}".encode(), 0)]

    with looking(tmp_path, "ripgrep") as look:
        monkeypatch.setattr(RipgrepSearchRun, "find_files", slowly)
        monkeypatch.setattr("handhold.backends.search.search_process.monotonic", lambda: monotonic() + seconds)
        found = look.glob("*", sort="modified", timeout_seconds=60.0, limit=1)
        assert [hit.place for hit in found.hits] == [str(tmp_path / "f4")]
        assert found.abort_reason == ""


def test_whoever_reads_and_fails_leaves_no_process(here: int):
    processes = children()
    with (
        pytest.raises(ZeroDivisionError),
        SearchProcess(["/usr/bin/yes"], here, Deadline(monotonic() + 5), ENV) as running,
    ):
        assert 1 / (next(running.read_chunks()) == b"")
    assert children() <= processes


def test_what_does_not_start_is_told(here: int):
    with pytest.raises(EngineFailed), SearchProcess(["/nowhere/rg"], here, Deadline(monotonic() + 5), ENV):
        pass


def test_a_program_works_in_the_folder_of_the_descriptor_whatever_its_name_is_now(tmp_path: Path):
    (tmp_path / "before").mkdir()
    fd = os.open(tmp_path / "before", os.O_RDONLY)
    try:
        (tmp_path / "before").rename(tmp_path / "after")
        (tmp_path / "before").mkdir()
        with SearchProcess(["/bin/pwd", "-P"], fd, Deadline(monotonic() + 5), ENV) as running:
            said = b"".join(running.read_chunks())
    finally:
        os.close(fd)
    assert said.decode().strip() == str(tmp_path / "after")
