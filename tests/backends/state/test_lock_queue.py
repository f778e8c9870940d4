"""G-3: processes get a lock in the order in which they came, and nobody who died is in the way."""

import fcntl
import logging
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from handhold import Toolbox, progress
from handhold.backends.state import lock, lock_queue
from handhold.backends.state.lock import QUEUE_SUFFIX, hold_file_lock, hold_lock
from handhold.backends.state.lock_queue import FLOCK, LockLine
from handhold.backends.state.sqlite import SqliteStore
from handhold.core.errors import Busy
from handhold.core.plans import digest

needs_queue = pytest.mark.skipif(not lock_queue.CAN_QUEUE, reason="no locks of open files on this system")
PATIENCE = 50.0


def fork(work: Callable[[], object]) -> int:
    if child := os.fork():
        return child
    try:
        work()
        os._exit(0)
    finally:
        os._exit(1)


def ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def waiting(path: Path) -> int:
    """How many tickets are drawn and not given back."""
    with suppress(FileNotFoundError):
        fd = os.open(f"{path}{QUEUE_SUFFIX}", os.O_RDWR)
        try:
            return sum(is_locked(fd, number) for number in range(1, os.fstat(fd).st_size + 1))
        finally:
            os.close(fd)
    return 0


def is_locked(fd: int, number: int) -> bool:
    request = FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, number, 1, 0)
    return FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_OFD_GETLK, request))[0] != fcntl.F_UNLCK


def until(found: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not found():
        assert time.monotonic() < end
        time.sleep(0.001)


def append(path: Path, order: Path, what: str) -> None:
    with hold_lock(path, wait=True), order.open("a") as file:
        file.write(what + "\n")


@needs_queue
def test_g3_processes_get_it_in_the_order_in_which_they_came(tmp_path: Path):
    path, order, children = tmp_path / "lock", tmp_path / "order", list[int]()
    with hold_lock(path, wait=True):
        for n in range(12):
            children.append(fork(lambda n=n: append(path, order, str(n))))
            until(lambda n=n: waiting(path) == n + 1)
    assert [ended(child) for child in children] == [0] * 12
    assert order.read_text().split() == [str(n) for n in range(12)]
    assert waiting(path) == 0


@needs_queue
@pytest.mark.parametrize("killed", [[0], [3], [5], [0, 1, 2], [1, 3, 5]])
def test_g3_who_is_killed_while_it_waits_holds_up_nobody(tmp_path: Path, killed: list[int]):
    path, order, children = tmp_path / "lock", tmp_path / "order", list[int]()
    with hold_lock(path, wait=True):
        for n in range(6):
            children.append(fork(lambda n=n: append(path, order, str(n))))
            until(lambda n=n: waiting(path) == n + 1)
        for n in killed:
            os.kill(children[n], signal.SIGKILL)
            assert ended(children[n]) == -signal.SIGKILL
    assert all(ended(child) == 0 for n, child in enumerate(children) if n not in killed)
    assert order.read_text().split() == [str(n) for n in range(6) if n not in killed]


@needs_queue
def test_g3_a_holder_that_is_killed_lets_the_next_one_go_on(tmp_path: Path):
    path, order = tmp_path / "lock", tmp_path / "order"
    took, has_it = os.pipe()

    def hold() -> None:
        with hold_lock(path, wait=True):
            os.write(has_it, b".")
            time.sleep(PATIENCE)

    holder = fork(hold)
    os.read(took, 1)
    children = [fork(lambda: append(path, order, "x")) for _ in range(3)]
    until(lambda: waiting(path) == 3)
    os.kill(holder, signal.SIGKILL)
    ended(holder)
    assert [ended(child) for child in children] == [0] * 3
    assert order.read_text().split() == ["x"] * 3


@needs_queue
def test_g3_nobody_overtakes_who_waits(tmp_path: Path):
    """Somebody who comes when the lock is free, but the line is not empty, waits behind it."""
    path = tmp_path / "lock"
    with held_ticket(path), pytest.raises(Busy), hold_file_lock(str(path), 0.05):
        pass
    with hold_file_lock(str(path), 0.05):
        pass


@contextmanager
def held_ticket(path: Path) -> Iterator[None]:
    fd = os.open(f"{path}{QUEUE_SUFFIX}", lock_queue.LOCK_FLAGS | os.O_APPEND, 0o600)
    try:
        assert LockLine(fd)._draw_number() == 1  # pyright: ignore[reportPrivateUsage]
        yield
    finally:
        os.close(fd)


@needs_queue
def test_g3_a_forked_child_keeps_neither_a_lock_nor_a_place(tmp_path: Path):
    """Though it has copies of all descriptors, and outlives its parent."""
    path, order = tmp_path / "lock", tmp_path / "order"
    done, is_done = os.pipe()

    def parent() -> None:
        with hold_lock(path, wait=True):
            if not os.fork():
                os.read(done, 1)  # lives on
                os._exit(0)
            os.write(is_forked, b".")
            time.sleep(PATIENCE)

    forked, is_forked = os.pipe()
    holder = fork(parent)
    os.read(forked, 1)
    os.kill(holder, signal.SIGKILL)
    ended(holder)
    append(path, order, "x")
    os.write(is_done, b".")
    assert order.read_text().split() == ["x"]


def test_a_full_or_unfit_queue_only_costs_the_order(tmp_path: Path):
    path, order = tmp_path / "lock", tmp_path / "order"
    (tmp_path / f"lock{QUEUE_SUFFIX}").mkdir()
    with hold_lock(path, wait=True):
        child = fork(lambda: append(path, order, "x"))
        with pytest.raises(Busy), hold_file_lock(str(path), 0.02):
            pass
    assert ended(child) == 0
    assert order.read_text() == "x\n"


@needs_queue
def test_g3_the_numbers_start_again_only_when_nobody_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Who has an old, high number would wait for everybody who comes later."""
    monkeypatch.setattr(lock_queue, "MAX_QUEUE_BYTES", 3)
    path, order, children = tmp_path / "lock", tmp_path / "order", list[int]()
    queue = tmp_path / f"lock{QUEUE_SUFFIX}"
    with hold_lock(path, wait=True):
        for n in range(8):
            children.append(fork(lambda n=n: append(path, order, str(n))))
            until(lambda n=n: waiting(path) == n + 1)
    assert [ended(child) for child in children] == [0] * 8
    assert order.read_text().split() == [str(n) for n in range(8)]
    assert queue.stat().st_size == 8
    with hold_lock(path, wait=True):
        last = fork(lambda: append(path, order, "last"))
        until(lambda: waiting(path) == 1)
        assert queue.stat().st_size == 1
    assert ended(last) == 0


def test_who_waits_says_so_after_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(lock_queue, "TELL_AFTER_SECONDS", 0.02)
    monkeypatch.setattr(lock, "TELL_AFTER_SECONDS", 0.02)
    path, seen = tmp_path / "lock", list[tuple[str, int, int]]()
    caplog.set_level(logging.INFO, "handhold")
    took, has_it = os.pipe()

    def hold() -> None:
        with hold_lock(path, wait=True):
            os.write(has_it, b".")
            time.sleep(0.3)

    holder = fork(hold)
    os.read(took, 1)
    with progress.listen(lambda *facts: seen.append(facts)), hold_lock(path, wait=True):
        pass
    assert ended(holder) == 0
    (record,) = caplog.records
    assert record.name == "handhold.locks"
    assert str(path) in record.getMessage()
    assert {what for what, _, _ in seen} == {lock_queue.WAITING}
    assert seen[-1] == (lock_queue.WAITING, 1, 1)  # so that it is erased


def test_g3_a_read_is_one_transaction_however_much_it_records(tmp_path: Path):
    (tmp_path / "ws").mkdir()
    for name in ("a", "b"):
        (tmp_path / "ws" / name).write_text("text\n")
    with Toolbox.open(tmp_path / "ws", state=tmp_path / "state") as box:
        store = box.store
        assert isinstance(store, SqliteStore)
        for arguments in ({"path": "a"}, {"path": "a", "offset": 1, "limit": 1}, {"path": "absent"}):
            statements = list[str]()
            with store._database.connection as connection:
                connection.set_trace_callback(statements.append)
                box.call("read_file", arguments)
                connection.set_trace_callback(None)
            assert statements.count("BEGIN IMMEDIATE") == 1


def test_g3_what_is_recorded_together_is_recorded_whole_or_not_at_all(tmp_path: Path):
    large = os.urandom(400_000)
    store = SqliteStore(tmp_path, bound=500_000)
    store.keep([large])

    def fail() -> None:
        with store.one_transaction():
            store.keep([os.urandom(400_000)])  # drops the first one, whose file must stay
            raise ValueError("ours")

    with pytest.raises(ValueError, match="ours"):
        fail()
    assert store.get(digest(large)) == large
    store.close()
