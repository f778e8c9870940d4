"""The lock of a state folder: first come, first served among threads, and held by one process at a time."""

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

import pytest

from handhold.backends.state import lock
from handhold.backends.state.lock import hold_lock
from handhold.core.errors import Busy

HELD = """
import sys
from pathlib import Path
from handhold.backends.state.lock import hold_lock
with hold_lock(Path(sys.argv[1]), wait=True):
    print("held", flush=True)
    sys.stdin.read()
"""


def waiting(path: Path) -> int:
    return len(lock._lock_queues._queues.get(str(path), ()))  # pyright: ignore[reportPrivateUsage]


def until(there: int, path: Path) -> None:
    end = time.monotonic() + 50
    while waiting(path) != there and time.monotonic() < end:
        time.sleep(0.001)
    assert waiting(path) == there


def test_threads_get_it_in_the_order_in_which_they_came(tmp_path: Path):
    path, order, threads = tmp_path / "lock", list[int](), list[Thread]()

    def take(n: int) -> None:
        with hold_lock(path, wait=True):
            order.append(n)

    with hold_lock(path, wait=True):
        for n in range(20):
            threads.append(Thread(target=take, args=(n,)))
            threads[-1].start()
            until(n + 2, path)
    for thread in threads:
        thread.join(50)
    assert order == list(range(20))
    assert waiting(path) == 0


def test_who_does_not_wait_is_told_at_once_and_who_gave_up_holds_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path, got = tmp_path / "lock", Event()
    monkeypatch.setattr(lock, "LOCK_TIMEOUT_SECONDS", 0.2)

    def give_up() -> None:
        with suppress(Busy), hold_lock(path, wait=True):
            pass

    def take() -> None:
        monkeypatch.setattr(lock, "LOCK_TIMEOUT_SECONDS", 50.0)
        with hold_lock(path, wait=True):
            got.set()

    with hold_lock(path, wait=True):
        impatient = Thread(target=give_up)
        impatient.start()
        until(2, path)
        patient = Thread(target=take)
        patient.start()
        until(3, path)
        with pytest.raises(Busy), hold_lock(path, wait=False):
            pass
        impatient.join(50)
        assert waiting(path) == 2
        assert not got.is_set()
    patient.join(50)
    assert got.is_set()
    assert waiting(path) == 0


def test_another_process_holds_it_too_until_it_dies(tmp_path: Path):
    path = tmp_path / "lock"
    holder = subprocess.Popen(
        [sys.executable, "-c", HELD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(Busy), hold_lock(path, wait=False):
        pass
    holder.kill()
    holder.communicate()
    with hold_lock(path, wait=True):
        pass


def test_a_forked_child_stands_in_no_line(tmp_path: Path):
    path = tmp_path / "lock"
    with hold_lock(path, wait=True):
        child = os.fork()
        if not child:
            os._exit(waiting(path))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert waiting(path) == 0
