"""Descriptors are kept while there is room for them, and what was closed meanwhile is opened again, if it is the same."""

import errno
import os
import resource
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from handhold.backends import descriptor_pool
from handhold.backends.descriptor_pool import Pooled
from handhold.backends.files.roots import Root
from handhold.core.errors import SystemFailure


class Door:
    """Something to open, that counts how often it was."""

    def __init__(self) -> None:
        self.opened = self.closed = 0
        self.pooled = Pooled("door", self.open, self.close)

    def open(self) -> int:
        self.opened += 1
        return self.opened

    def close(self, _: int) -> None:
        self.closed += 1

    @property
    def is_open(self) -> bool:
        return self.opened > self.closed


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> int:
    """A pool of its own, with room for four."""
    pool = descriptor_pool.DescriptorPool()
    monkeypatch.setattr(descriptor_pool, "_pool", pool)
    monkeypatch.setattr(descriptor_pool, "read_limit", lambda: 4)
    return 4


def use(door: Door) -> int:
    with door.pooled as value:
        assert door.is_open
        return value


def test_what_is_idle_stays_open_until_others_need_its_place(room: int):
    doors = [Door() for _ in range(10)]
    for door in doors[:room] * 3:
        use(door)
    assert [door.opened for door in doors[:room]] == [1] * room
    for door in doors:
        use(door)
    assert sum(door.is_open for door in doors) == room
    assert all(use(door) == door.opened for door in doors)


def test_the_longest_unused_goes_first(room: int):
    doors = [Door() for _ in range(room + 2)]
    for door in doors[:room]:
        use(door)
    use(doors[room])  # all were used since they were opened, so the first goes
    assert not doors[0].is_open
    use(doors[1])
    use(doors[room + 1])
    assert (doors[1].is_open, doors[2].is_open) == (True, False)


def test_what_is_in_use_is_never_closed(room: int):
    held, others = Door(), [Door() for _ in range(3 * room)]
    with held.pooled as value:
        for door in others:
            use(door)
        held.pooled.close()
        assert (held.is_open, held.closed, use(held)) == (True, 0, value)
    assert not held.is_open


def test_closing_is_idempotent_and_not_final(room: int):
    door = Door()
    door.pooled.close()
    use(door)
    door.pooled.close()
    door.pooled.close()
    assert (door.opened, door.closed) == (1, 1)
    use(door)
    assert door.is_open


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_g1_without_descriptors_what_is_idle_makes_room_and_else_the_error_has_its_name(room: int, number: int):
    door, refusals = Door(), [OSError(number, os.strerror(number))]
    use(door)

    def reluctant() -> int:
        if refusals:
            raise refusals.pop()
        return 1

    with Pooled("here", reluctant, door.close):
        assert not door.is_open
    refusals += [OSError(number, os.strerror(number)) for _ in range(2)]
    with pytest.raises(SystemFailure) as refused, Pooled("here", reluctant, door.close):
        pass
    assert refused.value.path == "here"
    assert errno.errorcode[number] in refused.value.because


def test_one_thread_opens_and_the_others_wait_for_it(room: int):
    began, go_on = threading.Event(), threading.Event()
    opened: list[int] = []

    def slow() -> int:
        began.set()
        assert go_on.wait(10)
        opened.append(1)
        return 1

    pooled = Pooled("slow", slow, lambda _: None)

    def enter() -> int:
        with pooled as value:
            return value

    with ThreadPoolExecutor(4) as threads:
        entering = [threads.submit(enter) for _ in range(4)]
        assert began.wait(10)
        go_on.set()
        assert [each.result(10) for each in entering] == [1] * 4
    assert len(opened) == 1


def test_an_opening_that_fails_leaves_nothing_behind(room: int):
    def fail() -> int:
        raise PermissionError

    pooled = Pooled("closed", fail, lambda _: None)
    for _ in range(3 * room):
        with pytest.raises(PermissionError), pooled:
            pass
    doors = [Door() for _ in range(room)]
    for door in doors:
        use(door)
    assert all(door.is_open for door in doors)


def test_threads_always_hold_the_descriptor_of_the_folder_they_asked_for(tmp_path: Path, room: int):
    roots: list[Root] = []
    for n in range(3 * room):
        (tmp_path / str(n)).mkdir()
        roots.append(Root.open(tmp_path / str(n), writable=True))

    def look(start: int) -> None:
        for n in range(start, start + 300):
            root = roots[n % len(roots)]
            with root.folder as fd:
                assert (os.fstat(fd).st_dev, os.fstat(fd).st_ino) == root.id
            if n % 7 == 0:
                root.close()

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(look, range(0, 60, 10)))
    for root in roots:
        root.close()


# --- roots that are opened again


@contextmanager
def closed_meanwhile(folder: Path) -> Iterator[Root]:
    folder.mkdir()
    root = Root.open(folder, writable=True)
    root.close()
    yield root
    root.close()


def test_a_root_that_was_closed_is_opened_again_by_its_path(tmp_path: Path):
    with closed_meanwhile(tmp_path / "root") as root, root.folder as fd:
        assert os.path.samestat(os.fstat(fd), (tmp_path / "root").stat())


def test_another_folder_in_its_place_is_refused(tmp_path: Path):
    with closed_meanwhile(tmp_path / "root") as root:
        (tmp_path / "root").rename(tmp_path / "moved")
        (tmp_path / "root").mkdir()
        with pytest.raises(SystemFailure, match="another folder is there now"), root.folder:
            pass


def test_a_link_in_its_place_is_refused_unless_it_leads_to_the_same_folder(tmp_path: Path):
    with closed_meanwhile(tmp_path / "root") as root:
        (tmp_path / "root").rename(tmp_path / "moved")
        (tmp_path / "root").symlink_to("/etc")
        with pytest.raises(SystemFailure, match="another folder is there now"), root.folder:
            pass
        (tmp_path / "root").unlink()
        (tmp_path / "root").symlink_to("moved")
        with root.folder as fd:
            assert os.path.samestat(os.fstat(fd), (tmp_path / "moved").stat())


def test_a_folder_that_is_gone_is_no_missing_file(tmp_path: Path):
    with closed_meanwhile(tmp_path / "root") as root:
        (tmp_path / "root").rename(tmp_path / "moved")
        with pytest.raises(SystemFailure) as refused, root.folder:
            pass
        assert refused.value.path == str(tmp_path / "root")


def test_a_root_that_stays_open_is_the_same_folder_whatever_its_name_means_now(tmp_path: Path):
    (tmp_path / "root").mkdir()
    root = Root.open(tmp_path / "root", writable=True)
    (tmp_path / "root").rename(tmp_path / "moved")
    (tmp_path / "root").mkdir()
    with root.folder as fd:
        assert os.path.samestat(os.fstat(fd), (tmp_path / "moved").stat())
    root.close()


# --- fork


def test_a_child_gets_nothing_that_it_must_not_have_and_the_parent_opens_it_again(room: int):
    kept, withheld = Door(), Door()
    withheld.pooled.survives_fork = False
    pool = descriptor_pool._pool
    use(kept)
    use(withheld)
    pool.prepare_fork()
    assert (kept.is_open, withheld.is_open) == (True, False)
    pool.resume_parent()
    assert (use(kept), use(withheld)) == (1, 2)


def test_what_another_thread_uses_at_the_fork_is_waited_for_and_else_given_up(
    room: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(descriptor_pool, "FORK_TIMEOUT_SECONDS", 0.05)
    door = Door()
    door.pooled.survives_fork = False
    pool = descriptor_pool._pool
    with door.pooled:
        pool.prepare_fork()
        assert door.is_open
        pool.resume_child()
    assert (door.closed, use(door)) == (0, 2), "a child neither uses nor closes it"


def test_the_room_is_a_share_of_what_the_process_may_open(monkeypatch: pytest.MonkeyPatch):
    for soft, room in ((1024, 256), (20, 16), (10**6, 512), (resource.RLIM_INFINITY, 512)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, soft=soft: (soft, soft))
        assert descriptor_pool.read_limit() == room
