"""What is not used for a week goes; nobody looks for it more than once a day."""

import os
import time
from pathlib import Path

from handhold.backends.shell.cleanup import INTERVAL_SECONDS, MAX_AGE_SECONDS, STAMP_FILE, remove_unused
from tests.counting import system_calls


def set_age(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


def make(folder: Path, *names: str, age: float) -> None:
    for name in names:
        (folder / name).mkdir(parents=True)
        set_age(folder / name, age)


def test_what_is_not_used_for_a_week_goes_at_most_once_a_day(tmp_path: Path):
    make(tmp_path, "old", age=MAX_AGE_SECONDS + 60)
    make(tmp_path, "new", age=0)
    remove_unused(tmp_path)
    assert sorted(os.listdir(tmp_path)) == [STAMP_FILE, "new"]
    make(tmp_path, "old", age=MAX_AGE_SECONDS + 60)
    remove_unused(tmp_path)
    assert (tmp_path / "old").exists()
    for then in (-INTERVAL_SECONDS - 60, 3600):  # a day ago, or by a clock that was set back
        make(tmp_path, "old", age=MAX_AGE_SECONDS + 60) if not (tmp_path / "old").exists() else None
        set_age(tmp_path / STAMP_FILE, -then)
        remove_unused(tmp_path)
        assert not (tmp_path / "old").exists()
    remove_unused(tmp_path / "absent")


def test_g9_many_session_folders_are_looked_at_once(tmp_path: Path):
    counted: list[int] = []
    for n in (20, 200):
        make(tmp_path / str(n), *map(str, range(n)), age=0)
        remove_unused(tmp_path / str(n))
        counted.append(system_calls(lambda n=n: remove_unused(tmp_path / str(n))))
    assert counted[0] == counted[1]
