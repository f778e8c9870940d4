"""Searching while others interfere: lines that fill the memory, folders that move, links that are swapped."""

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import pytest

from handhold.backends.search.ripgrep_binary import RipgrepBinary, find_ripgrep
from tests.backends.search.looking import looking, planted
from tests.scale import scaled


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_line_with_so_many_matches_that_ripgrep_would_fill_the_memory_is_left_to_the_walk(tmp_path: Path):
    planted(tmp_path, {"many": b"a" * 30_000_000 + b"\n"})
    with looking(tmp_path, "ripgrep", "walk") as look:
        scan = look.grep("a", mode="content", timeout_seconds=60)
        assert [row.number for hit in scan.hits for row in hit.rows] == [1]
        assert scan.fallback_reason.startswith("ripgrep failed")


@pytest.mark.slow
def test_nasty_33_a_folder_that_is_renamed_away_is_a_part_of_the_answer_and_no_error(tmp_path: Path):
    root = planted(tmp_path / "ws", {f"{folder}/{n}/f": "needle\n" for folder in "ab" for n in range(300)})
    stop = Event()

    def moving() -> None:
        while not stop.is_set():
            os.rename(root / "a", tmp_path / "away")
            os.rename(tmp_path / "away", root / "a")

    mover = Thread(target=moving)
    mover.start()
    try:
        with looking(root, "ripgrep") as look:
            for _ in range(scaled(6, 30)):
                for sort in ("modified", "none"):
                    scan = look.grep("needle", sort=sort, limit=1_000)
                    assert {name for name in look.names(scan) if name.startswith("b")} == {
                        f"b/{n}/f" for n in range(300)
                    }
                    assert {each.rule for each in scan.skipped} <= {"unreadable"}
    finally:
        stop.set()
        mover.join()


@pytest.fixture
def swapping(tmp_path: Path) -> Iterator[Path]:
    """A folder of the workspace and a link to the outside, swapped forever."""
    if not (cc := shutil.which("cc")):
        pytest.skip("no C compiler to build swap.c with")
    source = Path(__file__).parents[2] / "faults/swap.c"
    subprocess.run([cc, "-O2", "-o", tmp_path / "swap", source], check=True)
    for n in range(50):
        planted(tmp_path / "ws" / "dir", {f"{n}/file": "needle inside\n"})
        planted(tmp_path / "outside", {f"{n}/file": "needle OUTSIDE\n"})
    link = tmp_path / "ws" / "link"
    link.symlink_to(tmp_path / "outside")
    program = subprocess.Popen([tmp_path / "swap", tmp_path / "ws" / "dir", link])
    try:
        yield tmp_path / "ws"
    finally:
        program.kill()
        program.wait()


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_nasty_28_no_line_from_outside_is_ever_shown(swapping: Path, capsys: pytest.CaptureFixture[str]):
    shown, bare = Counter[str](), Counter[str]()
    unsteady = 0
    ripgrep = find_ripgrep()
    assert isinstance(ripgrep, RipgrepBinary)
    with looking(swapping, "ripgrep") as look:
        for n in range(scaled(60, 400)):
            scan = look.grep("needle", mode="content", sort=("modified", "none")[n % 2])
            shown.update(text for _, _, text in look.lines(scan))
            unsteady += scan.unstable_count
            command = [ripgrep.path, "--no-filename", "needle", "./"]
            said = subprocess.run(command, cwd=swapping, capture_output=True, text=True, check=False).stdout
            bare.update(said.splitlines())
    with capsys.disabled():
        print(f"\n{shown.total():,} lines shown, {unsteady:,} left out;", end=" ")
        print(f"bare ripgrep: {bare['needle OUTSIDE']:,} of {bare.total():,} from outside")
    assert set(shown) == {"needle inside"}
    assert unsteady > 0  # otherwise the test proves nothing
    assert bare["needle OUTSIDE"] > 0
