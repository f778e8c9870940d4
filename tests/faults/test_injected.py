"""C-62, nasties 45 and 46 in full: an error of any system call leaves all or nothing."""

from itertools import count
from pathlib import Path

import pytest

from tests.faults.apart import apart
from tests.faults.crash import Bench, Commanding
from tests.faults.injection import CODES, injected, needs_strace
from tests.faults.trees import tree
from tests.scale import NIGHTLY, scaled

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]

STEP = scaled(20, 1)  # of the calls, every so many
ERRORS = ("ENOSPC", "EIO", "EXDEV")
CALLS = (
    *("write", "fsync", "openat", "openat2", "renameat2", "unlinkat", "mkdirat", "close", "read"),
    *("fchmod", "ftruncate", "fallocate", "newfstatat", "flistxattr"),
)


def refused(bench: Bench, call: str, error: str, every: int = 1) -> dict[str, int]:
    """The outcomes of this error at the first such call, the next, and so on. All is old, or new if it succeeded."""
    seen: dict[str, int] = {}
    for when in count(1, every):
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
    print(f"{call} {error}: {seen}")
    return seen


@needs_strace
@pytest.mark.parametrize("call", CALLS)
@apart
def test_c62_nasty_45_46_an_error_at_any_call_leaves_all_or_nothing(tmp_path: Path, call: str):
    bench = Bench(tmp_path)
    for error in ERRORS if NIGHTLY else (ERRORS[CALLS.index(call) % 3],):
        refused(bench, call, error, STEP)


@needs_strace
@pytest.mark.parametrize("call", ["renameat2", "syncfs", "rename,renameat", "write", "chmod", "openat", "newfstatat"])
@apart
def test_c62_nasty_45_46_an_error_at_a_call_of_a_commands_commit_leaves_all_or_nothing(tmp_path: Path, call: str):
    bench = Commanding(tmp_path)
    for error in ("ENOSPC", "EIO") if NIGHTLY else ("EIO",):
        assert refused(bench, call, error, every={"newfstatat": 17, "openat": 5}.get(call, 1) * STEP)


@needs_strace
@pytest.mark.parametrize("call", ["renameat2", "unlinkat", "fsync", "write", "openat"])
@pytest.mark.parametrize("kind", [Bench, Commanding])
@apart
def test_c62_what_cannot_be_taken_back_now_is_taken_back_at_the_next_start(
    tmp_path: Path, call: str, kind: type[Bench]
):
    """The disk fails for good: even the rollback fails."""
    bench = kind(tmp_path)
    seen: dict[str, int] = {}
    for when in range(1, 40, scaled(13, 3)):
        said, happened = injected(bench, call, "EIO", f"{when}+")
        if not happened:
            break
        seen[said] = seen.get(said, 0) + 1
        assert said in ("success", "IO_ERROR", "UNFINISHED"), (call, when, said)
        bench.recover()
        assert bench.standing() == ("new" if said == "success" else "old"), (call, when, said)
    print(f"{call} EIO for good: {seen}")
