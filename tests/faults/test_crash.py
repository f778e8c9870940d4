"""C-62, nasty 49: after kill -9 at any system call, the next start leaves all or nothing."""

import ctypes
import os
from pathlib import Path

import pytest

from tests.faults import crash, trees
from tests.faults.apart import apart
from tests.faults.crash import Bench, Commanding, Patching, Undoing, kill_commits, kill_recoveries, killed, stops_of
from tests.faults.trees import as_nobody
from tests.scale import nightly, sampled, scaled

why_not = crash.unavailable()
pytestmark = [pytest.mark.skipif(bool(why_not), reason=why_not), pytest.mark.timeout(900), pytest.mark.slow]

PR_SET_DUMPABLE = 4
PARTS = scaled(1, 4)  # each in its own process
EVERY = 20
STEP = scaled(40, 1)  # one in this many calls
LATER = scaled(240, 50)  # one in this many stops of a recovery


def calls(stops: int, part: int, every: int = 1) -> range:
    """The stop after each system call, or after every `every`-th, in this part of the test.

    The disk does not change between one call and the next.
    """
    return range(2 * every * (1 + part), stops + 1, 2 * every * PARTS)


@pytest.mark.parametrize("part", range(PARTS))
@apart
def test_c62_nasty_49_a_commit_killed_at_any_system_call_is_whole(tmp_path: Path, part: int):
    bench = Bench(tmp_path)
    stops = stops_of(bench)
    assert stops > 300  # otherwise the marker was missed
    tally = kill_commits(bench, calls(stops, part, STEP))
    tally.stops = stops
    print(tally)
    assert not tally.torn, tally.torn
    assert tally.old
    assert tally.new


@pytest.mark.parametrize("part", range(PARTS))
@apart
def test_c62_nasty_49_a_recovery_that_is_killed_is_whole_after_the_next(tmp_path: Path, part: int):
    bench = Bench(tmp_path)
    stops = range(EVERY * (1 + part), stops_of(bench) + 1, EVERY * PARTS * STEP)
    tally = kill_recoveries(bench, stops, scaled(6, 2) * EVERY)  # a call has two stops
    print(tally)
    assert not tally.torn, tally.torn
    assert tally.repeats > 100 // STEP


@apart
def test_c62_nasty_49_without_rename_exchange_too(tmp_path: Path):
    bench = Bench(tmp_path, exchange=False)
    stops = stops_of(bench)
    tally = kill_commits(bench, range(1, stops + 1, 5 * STEP))
    tally += kill_recoveries(bench, range(100, stops + 1, scaled(350, 100)), LATER)
    print(tally)
    assert not tally.torn, tally.torn


@pytest.mark.parametrize("part", range(PARTS))
@apart
def test_c62_the_commit_of_a_command_killed_at_any_system_call_is_whole(tmp_path: Path, part: int):
    bench = Commanding(tmp_path)
    assert len(bench.changes()) >= 50
    stops = stops_of(bench)
    assert stops > 300
    tally = kill_commits(bench, calls(stops, part, STEP))
    tally.stops = stops
    print(tally)
    assert not tally.torn, tally.torn
    assert tally.old
    assert tally.new


@pytest.mark.parametrize("part", range(PARTS))
@apart
def test_c62_the_recovery_of_a_command_that_is_killed_is_whole_after_the_next(tmp_path: Path, part: int):
    bench = Commanding(tmp_path)  # all of them: python -m tests.faults.crash --full --command
    stops = stops_of(bench)
    tally = kill_recoveries(bench, range(stops // 3 + part * 61, stops + 1, 61 * PARTS * scaled(20, 1)), 2 * EVERY)
    print(tally)
    assert not tally.torn, tally.torn
    assert tally.repeats > scaled(0, 20)


@pytest.mark.parametrize("exchange", sampled([False, True], 1))
@apart
def test_c62_taking_a_command_back_is_whole(tmp_path: Path, exchange: bool):
    bench = Undoing(tmp_path, exchange)
    stops = stops_of(bench)
    tally = kill_commits(bench, range(1, stops + 1, 11 * STEP))
    tally += kill_recoveries(bench, range(stops // 2, stops + 1, stops // scaled(4, 6)), LATER)
    print(tally)
    assert not tally.torn, tally.torn
    assert tally.old
    assert tally.new


@nightly(sampled_by="tests/faults/test_crash.py::test_c62_the_commit_of_a_command_killed_at_any_system_call_is_whole")
@apart
def test_c62_a_command_is_whole_without_rename_exchange_too(tmp_path: Path):
    bench = Commanding(tmp_path, exchange=False)
    stops = stops_of(bench)
    tally = kill_commits(bench, range(1, stops + 1, 9 * STEP))
    tally += kill_recoveries(bench, range(stops // 2, stops + 1, stops // scaled(4, 6)), LATER)
    print(tally)
    assert not tally.torn, tally.torn


@nightly(sampled_by="tests/faults/test_crash.py::test_c62_the_commit_of_a_command_killed_at_any_system_call_is_whole")
@pytest.mark.root
@apart
def test_c62_a_command_of_a_plain_user_is_whole_too(plain: Path):
    """A user without write access everywhere must open folders briefly, and is killed at that moment too."""
    crash.killat()

    def kill() -> None:
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # otherwise nobody may trace us, not even ourselves
        bench = Commanding(plain)
        stops = stops_of(bench)
        tally = kill_commits(bench, range(1, stops + 1, 9 * STEP))
        tally += kill_recoveries(bench, range(stops // 2, stops + 1, stops // scaled(4, 6)), LATER)
        assert not tally.torn, tally.torn
        assert tally.old
        assert tally.new

    as_nobody(kill)


@pytest.mark.parametrize("part", range(PARTS))
@apart
def test_c62_f3_a_patch_killed_at_its_system_calls_is_whole_and_sent_again_happens_once(tmp_path: Path, part: int):
    bench = Patching(tmp_path)
    stops = stops_of(bench)
    assert stops > 300
    assert len(bench.old.items() ^ bench.new.items()) > 20
    tally = kill_commits(bench, calls(stops, part, 3 * STEP))  # all of them: python -m tests.faults.crash --patch
    tally.stops = stops
    print(tally)
    assert not tally.torn, tally.torn
    for stop in range(1 + part, stops + 1, EVERY * PARTS * 2 * STEP):
        bench.lay()
        killed(bench.commit, stop)
        assert bench.once(), f"killed at {stop}"


@apart
def test_files_written_one_after_the_other_are_torn(tmp_path: Path):
    """The problem that transactions solve, and proof that the bench detects it."""
    bench = Bench(tmp_path)

    def plainly() -> None:
        os.access(crash.MARK, os.F_OK)
        for name in trees.REPLACED:
            (bench.root / name).write_bytes(trees.new(name))
        os.access(crash.MARK, os.F_OK)

    bench.lay()
    torn = 0
    stops = killed(plainly, 0)
    for stop in range(1, stops + 1):
        bench.lay()
        killed(plainly, stop)
        names = [(bench.root / name).read_bytes() for name in trees.REPLACED]
        torn += names not in ([trees.old(n) for n in trees.REPLACED], [trees.new(n) for n in trees.REPLACED])
    print(f"{torn} of {stops} torn")
    assert torn > stops / 2
