"""C-92: a command's folder in the staging area is its own until it ends, whatever other processes sweep."""

import fcntl
import os
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pytest

from handhold.backends.files import staging_area
from handhold.backends.files.staging_area import OPEN_SUFFIX, StagingArea
from tests.backends.state.test_lock_queue import fork
from tests.scale import scaled


@pytest.fixture
def area(tmp_path: Path) -> Iterator[StagingArea]:
    (tmp_path / "shelf").mkdir(mode=0o700)
    area = StagingArea(str(tmp_path / "shelf"))
    yield area
    area.close()


def test_c92_a_sweep_waits_for_a_command_that_is_being_created(area: StagingArea, monkeypatch: pytest.MonkeyPatch):
    """Its file exists before it is locked."""
    sweeper = StagingArea(area.folder)
    sweep = threading.Thread(target=sweeper.sweep_abandoned, args=(lambda _: (),))

    class Fcntl:
        def __getattr__(self, name: str) -> object:
            return getattr(fcntl, name)

        def flock(self, fd: int, operation: int) -> None:
            if operation & fcntl.LOCK_NB and not sweep.ident:
                sweep.start()
                sweep.join(0.2)
            fcntl.flock(fd, operation)

    monkeypatch.setattr(staging_area, "fcntl", Fcntl())
    command = area.create_folder()
    sweep.join()
    assert os.path.isdir(area.path(command))
    assert os.listdir(area.folder + OPEN_SUFFIX) == [command]


def test_c92_commands_are_created_while_others_sweep(area: StagingArea):
    stop = threading.Event()

    def sweep() -> None:
        other = StagingArea(area.folder)
        while not stop.is_set():
            other.sweep_abandoned(lambda _: ())

    sweepers = [threading.Thread(target=sweep) for _ in range(2)]
    for thread in sweepers:
        thread.start()
    try:
        for _ in range(scaled(300, 5_000)):
            command = area.create_folder()
            assert os.path.isdir(area.path(command))
            area.drop(command)
    finally:
        stop.set()
        for thread in sweepers:
            thread.join()


# --- forks


@pytest.mark.parametrize("end", [StagingArea.close, StagingArea.release, StagingArea.drop])
def test_c92_a_forked_child_ends_no_command_of_its_parent(area: StagingArea, end: Callable[..., None]):
    command = area.create_folder()
    child = fork(lambda: area.close() if end is StagingArea.close else end(area, command))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    StagingArea(area.folder).sweep_abandoned(lambda _: ())
    assert os.path.isdir(area.path(command))
    assert os.listdir(area.folder + OPEN_SUFFIX) == [command]


def test_a_forked_child_keeps_no_lock_of_its_parent(area: StagingArea):
    """Though it has copies of all descriptors, and outlives its parent."""
    living, is_done = os.pipe()
    forked, is_forked = os.pipe()

    def live_on() -> None:
        os.write(is_forked, b".")
        os.read(living, 1)

    def parent() -> None:
        area.create_folder()
        fork(live_on)

    os.waitpid(fork(parent), 0)
    os.read(forked, 1)
    try:
        assert len(os.listdir(area.folder + OPEN_SUFFIX)) == 1
        area.sweep_abandoned(lambda _: ())
        assert os.listdir(area.folder + OPEN_SUFFIX) == []
    finally:
        os.write(is_done, b".")


def test_an_area_that_was_locked_at_a_fork_is_not_locked_for_the_childs_life(area: StagingArea):
    StagingArea(area.folder).create_folder()
    children = list[int]()

    def fork_meanwhile(_: object) -> Collection[str]:
        children.append(fork(lambda: time.sleep(50)))
        return ()

    area.sweep_abandoned(fork_meanwhile)
    creating = threading.Thread(target=area.create_folder)
    creating.start()
    creating.join(5)
    is_stuck = creating.is_alive()
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    creating.join()
    assert (len(children), is_stuck) == (1, False)
