"""C-92: a command's folder in the staging area is its own until it ends, whatever other processes sweep."""

import fcntl
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from handhold.backends.files import staging_area
from handhold.backends.files.staging_area import OPEN_SUFFIX, StagingArea
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
