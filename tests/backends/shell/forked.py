"""Runs a test as the current user and, if that is root, as an unprivileged user in a separate process."""

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest

import handhold

NOBODY = 65534
CLONE_NEWNS = 0x20000


@pytest.fixture(params=["ourselves", "nobody"])
def who(request: pytest.FixtureRequest) -> str:
    if request.param == "nobody" and os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    return request.param


@pytest.fixture
def place(who: str) -> Iterator[Path]:
    """A folder that this user owns, below folders that everybody may enter."""
    folder = Path(tempfile.mkdtemp(prefix="handhold-forked-")).resolve()
    folder.chmod(0o755)
    if who == "nobody":
        os.chown(folder, NOBODY, NOBODY)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():  # deeper than Python's own calls go
        subprocess.run(["rm", "-rf", folder], check=False)


def as_user(who: str, work: Callable[[], None], *, first: Callable[[], None] | None = None) -> None:
    """What `first` mounts, as root, is visible to this work only."""
    if who == "ourselves" and first is None:
        return work()
    _import_all()
    reader, writer = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            if first is not None:
                assert ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS) == 0
                subprocess.run(["mount", "--make-rprivate", "/"], check=True)
                first()
            if who == "nobody":
                os.setgroups([])
                os.setresgid(NOBODY, NOBODY, NOBODY)
                os.setresuid(NOBODY, NOBODY, NOBODY)
                _forget()
            work()
        except BaseException:  # noqa: BLE001 — a child that went on would run the other tests too
            os.write(writer, traceback.format_exc().encode(errors="replace")[-60_000:])
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as told:
        trouble = told.read().decode()
    os.waitpid(child, 0)
    if trouble:
        pytest.fail(trouble, pytrace=False)
    return None


@cache
def _import_all() -> None:
    """Import what a test may need later: our interpreter may be in a home that is closed to others."""
    for module in walk_packages(handhold.__path__, "handhold."):
        import_module(module.name)
    for name in ("asyncio", "concurrent.futures.thread", "encodings.ascii", "encodings.utf_8_sig"):
        import_module(name)


def _forget() -> None:
    """Drop what root found out about the machine: another user would find something else."""
    os.environ.update(HOME="/nonexistent", PATH="/usr/bin:/bin", USER="nobody", LOGNAME="nobody")
    for name, module in list(sys.modules.items()):
        if name.startswith("handhold.backends.shell."):
            for each in vars(module).values():
                if hasattr(each, "cache_clear"):
                    each.cache_clear()
