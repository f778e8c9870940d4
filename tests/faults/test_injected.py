"""C-62, nasties 43-46 and 51: what the system refuses, at any call, leaves all or nothing."""

import ctypes
import os
import shutil
import signal
import subprocess
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from handhold.core.errors import NoSpace, PermissionRefused, ReadOnly, ToolError, Unfinished
from handhold.core.plans import Bytes, FileChange
from handhold.core.ports import Call, Decision, Outcome
from handhold.world.files.commit import Committer
from handhold.world.files.workspace import Workspace
from handhold.world.state.sqlite import SqliteStore
from tests.faults.crash import PR_SET_PTRACER, PTRACER_ANY, Bench, Commanding
from tests.faults.trees import Kept, tree

pytestmark = [pytest.mark.timeout(300), pytest.mark.slow]
needs_strace = pytest.mark.skipif(not shutil.which("strace"), reason="errors are injected by strace")

CALLS = (
    *("write", "fsync", "openat", "openat2", "renameat2", "unlinkat", "mkdirat", "close", "read"),
    *("fchmod", "ftruncate", "fallocate", "newfstatat", "flistxattr"),
)
CODES = {
    "ENOSPC": {"NO_SPACE"},
    "EIO": {"IO_ERROR"},
    "EXDEV": {"IO_ERROR", "OUTSIDE_WORKSPACE"},
    "EDQUOT": {"NO_SPACE"},
}

READY = b"\n"


def outcome_of(files: Workspace, store: SqliteStore, seq: int, changes: Sequence[FileChange]) -> str:
    """Commit as the toolbox does; the code of what went wrong, or `success`."""
    try:
        with files.transaction(changes) as transaction:
            store.intend(seq, transaction.id, transaction.files, decision=Decision("allowed"))
            transaction.perform()
            store.settle(seq, Outcome("success", None, 0.0, None), durable=True)
            try:
                transaction.finish()
            except ToolError:
                return "success"  # what is left to clear up, the next start clears
            store.finish(seq)
    except Unfinished:
        return "UNFINISHED"
    except ToolError as error:
        store.settle(seq, Outcome("error", error.code, 0.0, None), durable=False)
        return error.code
    except Exception:  # noqa: BLE001 - a defect: shown by the test that sees it
        return traceback.format_exc()
    return "success"


def injected(bench: Bench, call: str, error: str, when: str) -> tuple[str, bool]:
    """Commit in a fork whose `when`-th such call fails: the outcome, and whether there was such a call."""
    bench.lay()
    waiting, go = os.pipe()
    told, tell = os.pipe()
    log = bench.home / "strace"
    child = os.fork()
    if not child:
        try:
            os.close(go)
            ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(PTRACER_ANY), 0, 0, 0)
            with bench.open() as (files, store):
                seq = store.begin(Call("session", "", "", "patch", "{}", "none"))
                changes = bench.changes()
                os.writev(tell, [READY])  # not write() and read(): they may be the calls that fail
                os.readv(waiting, [bytearray(1)])
                os.writev(tell, [outcome_of(files, store, seq, changes).encode()])
                os.kill(os.getpid(), signal.SIGKILL)  # without another call that could be refused
        finally:
            os._exit(1)
    os.close(waiting)
    os.close(tell)
    assert os.read(told, 1) == READY
    command = [
        "strace",
        "-o",
        log,
        "-e",
        f"trace={call}",
        "-e",
        f"inject={call}:error={error}:when={when}",
        "-p",
        str(child),
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tracer:
        assert tracer.stderr
        attached = tracer.stderr.readline()
        os.close(go)
        assert "attached" in attached, attached
        tracer.wait()
    os.waitpid(child, 0)
    with os.fdopen(told, "rb") as pipe:
        said = pipe.read().decode()
    return said, "INJECTED" in log.read_text()


@needs_strace
@pytest.mark.parametrize("error", ["ENOSPC", "EIO", "EXDEV"])
@pytest.mark.parametrize("call", CALLS)
def test_c62_nasty_45_46_an_error_at_any_call_leaves_all_or_nothing(tmp_path: Path, call: str, error: str):
    bench = Bench(tmp_path)
    seen: dict[str, int] = {}
    when = 0
    while True:
        when += 1
        said, happened = injected(bench, call, error, str(when))
        if not happened:
            break
        where = f"{call} {when} {error}: {said}"
        assert said == "success" or said in CODES[error], where
        seen[said] = seen.get(said, 0) + 1
        if said != "success":
            assert tree(bench.root) == bench.old, where
        bench.recover()
        assert bench.standing() == ("new" if said == "success" else "old"), where
    print(f"{call} {error}: {when - 1} calls, {seen}")


@needs_strace
@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
@pytest.mark.parametrize("call", ["renameat2", "syncfs", "rename,renameat", "write", "chmod", "openat", "newfstatat"])
def test_c62_nasty_45_46_an_error_at_a_call_of_a_commands_commit_leaves_all_or_nothing(
    tmp_path: Path, call: str, error: str
):
    bench = Commanding(tmp_path)
    seen: dict[str, int] = {}
    step = {"newfstatat": 17, "openat": 5}.get(call, 1)
    for when in range(1, 10_000, step):
        said, happened = injected(bench, call, error, str(when))
        if not happened:
            break
        where = f"{call} {when} {error}: {said}"
        assert said == "success" or said in CODES[error], where
        seen[said] = seen.get(said, 0) + 1
        if said != "success":
            assert tree(bench.root) == bench.old, where
        bench.recover()
        assert bench.standing() == ("new" if said == "success" else "old"), where
    assert seen
    print(f"{call} {error}: {seen}")


@needs_strace
@pytest.mark.parametrize("call", ["renameat2", "unlinkat", "fsync", "write", "openat"])
@pytest.mark.parametrize("kind", [Bench, Commanding])
def test_c62_what_cannot_be_taken_back_now_is_taken_back_at_the_next_start(
    tmp_path: Path, call: str, kind: type[Bench]
):
    """The disk fails for good: even taking back fails."""
    bench = kind(tmp_path)
    seen: dict[str, int] = {}
    for when in range(1, 40, 3):
        said, happened = injected(bench, call, "EIO", f"{when}+")
        if not happened:
            break
        seen[said] = seen.get(said, 0) + 1
        assert said in ("success", "IO_ERROR", "UNFINISHED"), (call, when, said)
        bench.recover()
        assert bench.standing() == ("new" if said == "success" else "old"), (call, when, said)
    print(f"{call} EIO for good: {seen}")


# --- a small disk


@contextmanager
def disk(home: Path, size: int = 16 * 1024 * 1024) -> Iterator[Path]:
    """A file system of its own; skips where there can be none."""
    if os.geteuid() != 0 or not shutil.which("mkfs.ext4"):
        pytest.skip("needs root and mkfs.ext4")
    image, point = home / "disk.img", home / "disk"
    point.mkdir()
    with open(image, "wb") as file:
        file.truncate(size)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", image], check=True, capture_output=True)
    mounted = subprocess.run(["mount", "-o", "loop", image, point], check=False, capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"no loop mounts here: {mounted.stderr.strip()}")
    try:
        yield point
    finally:
        subprocess.run(["mount", "-o", "remount,rw", point], check=False, capture_output=True)
        subprocess.run(["umount", "-d", point], check=True)  # -d: the loop device goes with it


def commit(root: Path, *changes: FileChange) -> None:
    kept = Kept()
    kept.keep_all(changes)
    workspace = Workspace([root], kept)
    try:
        with Committer(workspace, kept).transaction(changes) as transaction:
            transaction.perform()
            transaction.finish()
    finally:
        workspace.close()


def fill(point: Path, leave: int) -> None:
    free = os.statvfs(point)
    (point / "filling").write_bytes(b"x" * max(0, free.f_bavail * free.f_frsize - leave))
    os.sync()


@pytest.mark.root
@pytest.mark.parametrize("linked", [False, True], ids=["renamed", "in place"])
def test_nasty_44_a_full_disk_leaves_the_original_whole(tmp_path: Path, linked: bool):
    with disk(tmp_path) as point:
        root = point / "root"
        root.mkdir()
        old, new = b"old" * 200_000, b"new" * 2_000_000
        (root / "f").write_bytes(old)
        (root / "small").write_bytes(b"small")
        if linked:
            os.link(root / "f", root / "g")
        fill(point, 1_000_000)
        before = tree(root)
        with pytest.raises(NoSpace):
            commit(
                root,
                FileChange(str(root / "small"), Bytes(b"small"), Bytes(b"new")),
                FileChange(str(root / "made/file"), None, Bytes(b"new")),
                FileChange(str(root / "f"), Bytes(old), Bytes(new)),
            )
        assert tree(root) == before


@pytest.mark.root
def test_nasty_43_a_read_only_file_system(tmp_path: Path):
    with disk(tmp_path) as point:
        (point / "f").write_bytes(b"old")
        subprocess.run(["mount", "-o", "remount,ro", point], check=True)
        before = tree(point)
        for change in (
            FileChange(str(point / "f"), Bytes(b"old"), Bytes(b"new")),
            FileChange(str(point / "f"), Bytes(b"old"), None),
            FileChange(str(point / "g"), None, Bytes(b"new")),
            FileChange(str(point / "d/g"), None, Bytes(b"new")),
        ):
            with pytest.raises(ReadOnly):
                commit(point, change)
        assert tree(point) == before


@pytest.mark.root
@pytest.mark.parametrize("attribute", ["i", "a"], ids=["immutable", "append only"])
def test_nasty_51_an_immutable_file_is_refused(tmp_path: Path, attribute: str):
    with disk(tmp_path) as point:
        for name in ("f", "other"):
            (point / name).write_bytes(b"old")
        subprocess.run(["chattr", f"+{attribute}", point / "f"], check=True)
        before = tree(point)
        try:
            for after in (Bytes(b"new"), None):
                with pytest.raises(PermissionRefused):
                    commit(
                        point,
                        FileChange(str(point / "other"), Bytes(b"old"), Bytes(b"new")),
                        FileChange(str(point / "f"), Bytes(b"old"), after),
                    )
            assert tree(point) == before
        finally:
            subprocess.run(["chattr", f"-{attribute}", point / "f"], check=True)
