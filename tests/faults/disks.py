"""Separate file systems, for what only they can do: be full, be read-only, lose power, ignore case."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def disk(home: Path, size: int = 16 * 1024 * 1024, *, kind: str = "ext4") -> Iterator[Path]:
    """A disk of this size, in `disk.img`; skips if none can be created."""
    if os.geteuid() != 0 or not shutil.which(f"mkfs.{kind}"):
        pytest.skip(f"needs root and mkfs.{kind}")
    image, point = home / "disk.img", home / "disk"
    with open(image, "wb") as file:
        file.truncate(size)
    flags = {"ext4": ("-F", "-m", "0")}.get(kind, ())
    subprocess.run([f"mkfs.{kind}", "-q", *flags, image], check=True, capture_output=True)
    with mounted("-o", "loop", str(image), point=point):
        yield point


@contextmanager
def mounted(*what: str, point: Path) -> Iterator[None]:
    """Something mounted there; skips if mounting is not possible."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount")
    point.mkdir(exist_ok=True)
    done = subprocess.run(["mount", *what, point], check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no such mounts here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["mount", "-o", "remount,rw", point], check=False, capture_output=True)
        subprocess.run(["umount", "-d", point], check=True)  # -d: the loop device is detached with it


def fill(point: Path, leave: int) -> None:
    free = os.statvfs(point)
    (point / "filling").write_bytes(b"x" * max(0, free.f_bavail * free.f_frsize - leave))
    os.sync()


@contextmanager
def served(program: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A folder served by one of our programs; skips if there is no FUSE."""
    if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
        pytest.skip("needs root and /dev/fuse")
    folder.mkdir(exist_ok=True)
    root = Path(__file__).parents[2]
    command = [sys.executable, program, str(folder), "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=root, env={"PYTHONPATH": str(root)}) as server:
        assert server.stdout
        try:
            assert server.stdout.readline() == b"mounted\n"
            yield server
        finally:
            server.kill()
            server.wait()
            subprocess.run(["umount", "-l", folder], check=True)
