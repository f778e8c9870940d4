"""G-2: watched folders are as if all of them were looked at each time; where that is not certain, they are."""

import ctypes
import gc
import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handhold.backends.files import folder_watch, root_scan
from handhold.backends.files.hidden_files import HiddenFiles
from handhold.backends.files.roots import Root
from handhold.core.errors import SystemFailure
from tests.backends.files.test_hidden_files import WAYS, is_secret, listings, oracle, out_of_descriptors, step, write
from tests.backends.shell.forked import as_user
from tests.counting import system_calls
from tests.scale import examples, scaled

RENAME_EXCHANGE = 2
_libc = ctypes.CDLL(None, use_errno=True)


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """With shares of its own, whatever other tests watch at the same time."""
    monkeypatch.setattr(folder_watch, "SHARE_NAME", f"\0handhold-test-{os.getpid()}-{{uid}}-{{index}}")
    monkeypatch.setattr(root_scan, "WATCH_RETRY_SECONDS", 0.0)


class Watched:
    """The hidden files of a folder, watched from the second look on."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.root = Root.open(top, writable=True)
        self.files = HiddenFiles([self.root], is_secret, watching=True)

    @property
    def names(self) -> list[str]:
        return sorted(os.path.relpath(place, self.top) for place in self.files.paths())

    @property
    def is_watching(self) -> bool:
        return self.files._scans[0]._watch is not None  # pyright: ignore[reportPrivateUsage]

    def start(self) -> None:
        for _ in range(2):
            assert self.names == oracle(self.top)
        assert self.is_watching

    def close(self) -> None:
        self.files.close()
        self.root.close()


@contextmanager
def watched_in(top: Path) -> Iterator[Watched]:
    watched = Watched(top)
    try:
        yield watched
    finally:
        watched.close()
        assert folder_watch._queue is None  # pyright: ignore[reportPrivateUsage]


@contextmanager
def watched_in_addition(top: Path) -> Iterator[Watched]:
    watched = Watched(top.resolve())
    try:
        yield watched
    finally:
        watched.close()


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    top = tmp_path.resolve() / "ws"
    for n in range(12):
        write(top / f"f{n}/a/b", "plain\n")
    write(top / "f3/.env")
    with watched_in(top) as watched:
        watched.start()
        yield watched


def queue() -> folder_watch.InotifyQueue:
    found = folder_watch._queue  # pyright: ignore[reportPrivateUsage]
    assert found is not None
    return found


def exchange(one: Path, other: Path) -> None:
    assert _libc.renameat2(-100, bytes(one), -100, bytes(other), RENAME_EXCHANGE) == 0


# --- it is as if everything was looked at


STEPS = st.lists(
    st.tuples(st.sampled_from(["file", "folder", "link", "move", "remove", "swap", "exchange"]), WAYS, WAYS),
    max_size=12,
)


@settings(max_examples=examples(120), deadline=None)
@given(STEPS, st.integers(1, 3))
def test_it_is_always_as_if_everything_had_been_looked_at_just_now(steps: list[tuple[str, str, str]], between: int):
    with TemporaryDirectory() as folder:
        top = Path(folder).resolve()
        write(top / "a/b/c/x", "plain\n")
        write(top / "b/vault/x")
        with watched_in(top) as watched:
            watched.start()
            for n, (what, one, other) in enumerate(steps):
                if what == "exchange":
                    _libc.renameat2(-100, bytes(top / one), -100, bytes(top / other), RENAME_EXCHANGE)
                else:
                    step(top, what, one, other)
                if n % between == 0:
                    assert watched.names == oracle(top)
                    assert watched.is_watching
            assert watched.names == oracle(top)


def test_only_what_changed_is_listed(watched: Watched, monkeypatch: pytest.MonkeyPatch):
    listed = listings(monkeypatch)
    assert watched.names == ["f3/.env"]
    assert listed == []
    write(watched.top / "f7/a/.env")
    assert watched.names == ["f3/.env", "f7/a/.env"]
    assert listed == [b"f7/a"]


def test_a_new_tree_is_listed_whole(watched: Watched, tmp_path: Path):
    write(watched.top / "new/b/c/.env")
    assert watched.names == ["f3/.env", "new/b/c/.env"]
    write(watched.top / "new/b/c/d/.env")
    assert watched.names == ["f3/.env", "new/b/c/.env", "new/b/c/d/.env"]
    (watched.top / "new").rename(tmp_path / "outside")
    assert watched.names == ["f3/.env"]
    write(tmp_path / "outside/b/x/.env")
    assert watched.names == ["f3/.env"]
    (tmp_path / "outside").rename(watched.top / "f1/back")
    assert watched.names == oracle(watched.top)
    assert len(watched.names) == 4


def test_folders_that_change_places_keep_their_own_watches(watched: Watched):
    exchange(watched.top / "f3", watched.top / "f4")
    assert watched.names == ["f4/.env"]
    write(watched.top / "f3/a/.env")
    write(watched.top / "f4/a/.env")
    assert watched.names == ["f3/a/.env", "f4/.env", "f4/a/.env"]


def test_a_folder_that_is_made_anew_is_watched_anew(watched: Watched):
    for _ in range(3):  # its inode number is often used again
        subprocess.run(["rm", "-rf", watched.top / "f5"], check=True)
        (watched.top / "f5").mkdir()
        assert watched.names == ["f3/.env"]
        write(watched.top / "f5/.env")
        assert watched.names == ["f3/.env", "f5/.env"]


def test_a_second_name_of_a_denied_file_is_found(watched: Watched, tmp_path: Path):
    os.link(watched.top / "f3/.env", watched.top / "f9/a/second")
    assert watched.names == ["f3/.env", "f9/a/second"]
    os.link(watched.top / "f1/a/b", watched.top / "f2/.env")  # makes an old file a secret
    assert watched.names == ["f1/a/b", "f2/.env", "f3/.env", "f9/a/second"]
    write(tmp_path / "outside", "secret\n")
    os.link(tmp_path / "outside", watched.top / "f6/x")
    assert watched.names == ["f1/a/b", "f2/.env", "f3/.env", "f9/a/second"]
    os.link(tmp_path / "outside", watched.top / "f7/.env")
    assert watched.names == ["f1/a/b", "f2/.env", "f3/.env", "f6/x", "f7/.env", "f9/a/second"]
    os.unlink(watched.top / "f7/.env")
    assert watched.names == ["f1/a/b", "f2/.env", "f3/.env", "f9/a/second"]


def test_a_folder_that_is_closed_and_opened_again(who: str, place: Path):
    def work() -> None:
        top = place / "ws"
        for name in ("shut/.env", "shut/x/.env", "open/a"):
            write(top / name)
        with watched_in(top) as watched:
            watched.start()
            (top / "shut").chmod(0)
            try:
                assert watched.names == (["shut"] if os.geteuid() else ["shut/.env", "shut/x/.env"])
            finally:
                (top / "shut").chmod(0o700)
            assert watched.names == ["shut/.env", "shut/x/.env"]
            write(top / "shut/y/.env")
            assert watched.names == ["shut/.env", "shut/x/.env", "shut/y/.env"]

    as_user(who, work)


def test_folders_that_are_exchanged_all_the_time_leave_no_wrong_watch(watched: Watched):
    """Whatever was seen in between, afterwards everything is found, and every later change."""
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            exchange(watched.top / "f3", watched.top / "f4")
            exchange(watched.top / "f5/a", watched.top / "f6/a")

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for n in range(scaled(60, 400)):
            watched.files.paths()
            if n % 20 == 0:
                watched.files.close()  # so that folders are watched anew meanwhile
    finally:
        stop.set()
        swapping.join()
    watched.start()
    for name in ("f3", "f4", "f5/a", "f6/a"):
        write(watched.top / name / ".env")
        assert watched.names == oracle(watched.top)


def test_several_roots_share_one_queue(tmp_path: Path):
    tops = [tmp_path.resolve() / name for name in ("one", "two", "one/inner")]
    for top in tops:
        write(top / "a/.env")
    with watched_in(tops[0]) as one:
        one.start()
        second, third = Watched(tops[1]), Watched(tops[2])
        second.start()
        third.start()
        write(tops[2] / "b/.env")
        assert third.names == ["a/.env", "b/.env"]  # this reads the events of all of them
        assert one.names == ["a/.env", "inner/a/.env", "inner/b/.env"]
        third.close()
        write(tops[2] / "c/.env")
        write(tops[1] / "c/.env")
        assert one.names == ["a/.env", "inner/a/.env", "inner/b/.env", "inner/c/.env"]
        assert second.names == ["a/.env", "c/.env"]
        second.close()


def test_watches_that_nobody_closed_are_removed_by_the_next_call(tmp_path: Path):
    tops = [tmp_path.resolve() / name for name in ("one", "two")]
    for top in tops:
        write(top / "a/.env")
    with watched_in(tops[0]) as one:
        one.start()
        before = len(queue()._watches)  # pyright: ignore[reportPrivateUsage]
        dropped = Watched(tops[1])
        dropped.start()
        dropped.root.close()
        del dropped
        gc.collect()
        assert one.names == ["a/.env"]
        assert len(queue()._watches) == before  # pyright: ignore[reportPrivateUsage]


# --- where it is not certain, everything is looked at


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    """Listed once, by stamps that can be trusted, and not yet watched."""
    monkeypatch.setattr(root_scan, "RACY_NS", 0)
    top = tmp_path.resolve() / "ws"
    write(top / "sub/a", "plain\n")
    time.sleep(0.02)
    with watched_in(top) as watched:
        assert watched.names == []
        yield watched


def test_u21_a_file_that_is_created_just_before_its_folder_is_watched_is_found(
    listed: Watched, monkeypatch: pytest.MonkeyPatch
):
    """No event says so, and the folder was listed before."""
    add = folder_watch.InotifyQueue.add

    def add_later(queue: folder_watch.InotifyQueue, fd: int, watch: folder_watch.FolderWatch, rel_path: bytes) -> int:
        if rel_path == b"sub":
            write(listed.top / "sub/.env")
        return add(queue, fd, watch, rel_path)

    monkeypatch.setattr(folder_watch.InotifyQueue, "add", add_later)
    for _ in range(2):
        assert listed.names == ["sub/.env"]
        assert listed.is_watching


FAILING = ["open_tree", "_list_folder", "_summarize"]


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@contextmanager
def failing_once(what: str) -> Iterator[None]:
    """As if the user interrupted it there."""
    with pytest.MonkeyPatch.context() as patched:
        owner = root_scan if what == "open_tree" else root_scan.RootScan

        def fail(*_: object) -> None:
            patched.undo()
            raise KeyboardInterrupt

        patched.setattr(owner, what, fail)
        yield


@pytest.mark.parametrize("what", FAILING)
def test_u21_changes_that_were_not_listed_because_of_an_error_are_listed_next(
    listed: Watched, monkeypatch: pytest.MonkeyPatch, what: str
):
    monkeypatch.setattr(root_scan, "WATCH_RETRY_SECONDS", 10.0)  # so that stamps are compared
    listed.start()
    write(listed.top / "sub/.env")
    write(listed.top / "new/.env")
    time.sleep(0.02)  # so that a new listing can be trusted
    with failing_once(what), pytest.raises(KeyboardInterrupt):
        listed.files.paths()
    for _ in range(3):
        assert listed.names == oracle(listed.top) == ["new/.env", "sub/.env"]


@pytest.mark.parametrize("what", FAILING)
def test_u21_watches_that_were_not_all_set_because_of_an_error_are_not_trusted(listed: Watched, what: str):
    write(listed.top / "new/a")
    time.sleep(0.02)
    with failing_once(what), pytest.raises(KeyboardInterrupt):
        listed.files.paths()
    write(listed.top / "sub/.env")
    write(listed.top / "new/.env")
    for _ in range(3):
        assert listed.names == oracle(listed.top) == ["new/.env", "sub/.env"]
    assert listed.is_watching


def test_u21_a_folder_is_watched_or_the_want_of_descriptors_is_reported(listed: Watched):
    with out_of_descriptors("open_folder", b"sub/"), pytest.raises(SystemFailure):
        listed.files.paths()
    for n in range(3):
        write(listed.top / f"sub/{n}/.env")
        assert listed.names == oracle(listed.top)
    assert listed.is_watching


def test_u21_events_that_were_read_and_not_told_because_of_an_error_are_lost_to_nobody(
    watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """All roots have one queue."""
    write(tmp_path / "other/.env")
    with watched_in_addition(tmp_path / "other") as other:
        other.start()
        write(tmp_path / "other/a/.env")
        with monkeypatch.context() as patched:
            patched.setattr(folder_watch, "parse_events", interrupt)
            with pytest.raises(KeyboardInterrupt):
                watched.files.paths()
        assert other.names == [".env", "a/.env"]


def test_g2_events_that_overflow_are_not_needed(watched: Watched):
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if limit > 50_000:
        pytest.skip("it takes too long to overflow the queue")
    noise = watched.top / "f0/noise"
    for _ in range(limit // 2 + 100):
        os.close(os.open(noise, os.O_CREAT | os.O_WRONLY))
        noise.unlink()
    write(watched.top / "f8/a/.env")
    first = queue()
    assert watched.names == ["f3/.env", "f8/a/.env"]
    write(watched.top / "f9/a/.env")
    assert watched.names == ["f3/.env", "f8/a/.env", "f9/a/.env"]
    assert watched.is_watching
    assert queue() is not first


@pytest.mark.parametrize("how", ["closed", "another file", "another queue", "a pipe"])
def test_g2_a_descriptor_that_was_closed_or_replaced_is_noticed(watched: Watched, how: str):
    fd = queue()._fd  # pyright: ignore[reportPrivateUsage]
    kept = os.dup(fd)
    others: list[int] = []
    try:
        match how:
            case "closed":
                os.close(fd)
            case "another file":
                others.append(os.open("/dev/zero", os.O_RDONLY))
            case "another queue":
                others.append(_libc.inotify_init1(os.O_NONBLOCK))
                for n in range(40):
                    _libc.inotify_add_watch(others[0], bytes(watched.top / f"f{n % 12}"), 0x100)
            case _:
                others += os.pipe()
                os.write(others[1], bytes(4096))
        if others:
            os.dup2(others[0], fd)
        write(watched.top / "f8/a/.env")
        assert watched.names == ["f3/.env", "f8/a/.env"]
        write(watched.top / "f9/a/.env")
        assert watched.names == ["f3/.env", "f8/a/.env", "f9/a/.env"]
        if how == "a pipe":
            assert len(os.read(others[0], 8192)) == 4096  # what belongs to somebody else was not taken
    finally:
        for each in (kept, *others):
            os.close(each)
        if others:
            os.close(fd)


def test_g2_a_child_process_takes_no_events_from_its_parent(watched: Watched):
    write(watched.top / "f8/.env")
    child = os.fork()
    if child == 0:
        try:
            right = watched.names == ["f3/.env", "f8/.env"]
            os._exit(0 if right else 1)
        except BaseException:  # noqa: BLE001
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert watched.names == ["f3/.env", "f8/.env"]
    assert watched.is_watching


@pytest.mark.root
@pytest.mark.parametrize("who", ["ourselves"], indirect=True)  # only root mounts
def test_g2_a_mount_below_is_noticed(place: Path, who: str):
    top = place / "ws"
    write(top / "f1/a")
    write(place / "other/.env")

    def work() -> None:
        with watched_in(top) as watched:
            watched.start()
            subprocess.run(["mount", "--bind", place / "other", top / "f1"], check=True)  # no event says so
            assert watched.names == ["f1/.env"]
            write(place / "other/x/.env")
            assert watched.names == ["f1/.env", "f1/x/.env"]
            subprocess.run(["umount", top / "f1"], check=True)
            assert watched.names == []
            subprocess.run(["mount", "-t", "tmpfs", "none", top / "f1"], check=True)
            write(top / "f1/b/.env")
            for _ in range(3):
                assert watched.names == ["f1/b/.env"]
                assert not watched.is_watching  # it is another file system
            subprocess.run(["umount", top / "f1"], check=True)

    as_user(who, work, first=lambda: None)


@pytest.mark.root
@pytest.mark.parametrize("who", ["ourselves"], indirect=True)  # only root mounts
def test_g2_a_change_through_another_mount_is_an_event_too(place: Path, who: str):
    top = place / "ws"
    write(top / "f1/a")
    (place / "elsewhere").mkdir()

    def work() -> None:
        subprocess.run(["mount", "--bind", top, place / "elsewhere"], check=True)
        with watched_in(top) as watched:
            watched.start()
            write(place / "elsewhere/f1/.env")
            assert watched.names == ["f1/.env"]
            assert watched.is_watching
        subprocess.run(["umount", place / "elsewhere"], check=True)

    as_user(who, work, first=lambda: None)


@pytest.mark.parametrize("limit", [0, 8, 40, 60])
def test_g2_with_few_watches_left_everything_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int):
    (tmp_path / "limit").write_text(str(limit))
    monkeypatch.setattr(folder_watch, "MAX_WATCHES_PATH", str(tmp_path / "limit"))
    top = tmp_path.resolve() / "ws"
    for n in range(5):
        write(top / f"f{n}/a/b")  # with the top eleven folders
    with watched_in(top) as watched:
        for n in range(6):
            write(top / f"new{n}/.env")
            assert watched.names == oracle(top)
            assert not watched.is_watching or len(queue()._watches) <= limit // 4  # pyright: ignore[reportPrivateUsage]


def test_g2_the_kernels_own_limit_is_one_too(watched: Watched, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> int:
        ctypes.set_errno(28)
        return -1

    class Refusing:
        inotify_init1 = _libc.inotify_init1
        inotify_rm_watch = _libc.inotify_rm_watch
        inotify_add_watch = staticmethod(refuse)

    write(watched.top / "new/deep/.env")
    with monkeypatch.context() as patched:
        patched.setattr(folder_watch, "_libc", Refusing())
        assert watched.names == ["f3/.env", "new/deep/.env"]
        assert not watched.is_watching
    watched.start()


def test_g2_on_other_file_systems_everything_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(folder_watch, "LOCAL_FILE_SYSTEMS", frozenset({0x6969}))
    with watched_in(tmp_path.resolve()) as watched:
        for n in range(3):
            write(tmp_path / f"{n}/.env")
            assert watched.names == oracle(tmp_path)
            assert not watched.is_watching


def test_g2_processes_share_less_than_half_of_all_watches(monkeypatch: pytest.MonkeyPatch):
    limit = int(Path(folder_watch.MAX_WATCHES_PATH).read_text())
    claimed: list[tuple[socket.socket, int]] = []
    try:
        for _ in range(folder_watch.MAX_SHARES):
            claimed.append(folder_watch.claim_share())
        with pytest.raises(OSError, match="watch folders already"):
            folder_watch.claim_share()
    finally:
        for share, _ in claimed:
            share.close()
    assert [count for _, count in claimed][:2] == [limit >> 2, limit >> 3]
    assert sum(count for _, count in claimed) < limit / 2
    folder_watch.claim_share()[0].close()


def test_g2_a_search_that_has_little_time_sets_no_watches(tmp_path: Path):
    with watched_in(tmp_path.resolve()) as watched:
        for _ in range(3):
            watched.files.paths(time.monotonic() + 10)
        assert not watched.is_watching


# --- cost


def test_g2_if_nothing_changed_200_folders_take_as_many_calls_as_20(tmp_path: Path):
    counts: dict[int, list[int]] = {}
    for folders in (20, 200):
        top = tmp_path.resolve() / str(folders)
        for n in range(folders):
            write(top / f"f{n}/a", "plain\n")
        write(top / "f3/.env")
        with watched_in(top) as watched:
            watched.start()
            counts[folders] = [system_calls(lambda: watched.names) for _ in range(3)]
            write(top / "f7/.env")
            counts[folders].append(system_calls(lambda: watched.names))
    print(counts)
    assert counts[20] == counts[200]
