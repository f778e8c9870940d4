"""On a file system that shares blocks between files, a command and its undo copy none of a large file."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from handhold import Toolbox
from handhold.backends.files.commit.tree_copier import copy_tree
from handhold.backends.files.manifest import LIST_FLAGS
from tests.faults.disks import disk
from tests.suites.machine import has_shadows

pytestmark = pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")

SIZE = 64 * 1024 * 1024
LITTLE = SIZE // 4


@pytest.fixture(params=["btrfs", "xfs"])
def point(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    with disk(tmp_path, 512 * 1024 * 1024, kind=request.param) as mounted:
        (mounted / "ws/logs").mkdir(parents=True)
        (mounted / "ws/logs/large").write_bytes(os.urandom(SIZE))
        yield mounted


def used(point: Path) -> int:
    subprocess.run(["sync", "-f", point], check=True)
    found = os.statvfs(point)
    return (found.f_blocks - found.f_bfree) * found.f_bsize


@pytest.mark.parametrize(
    "command",
    [
        "echo more >> logs/large",
        "chmod 600 logs/large",
        'python3 -c \'import os; os.rename("logs", "moved")\'',
        "cp -r logs copied",
    ],
)
def test_e18_a_command_shares_the_blocks_of_a_large_file(point: Path, command: str):
    before = (point / "ws/logs/large").read_bytes()
    with Toolbox.open(point / "ws", state=point / "state", policy="open") as box:
        box.call("bash", {"command": "true"})
        at_first = used(point)
        reply = box.call("bash", {"command": command})
        assert (reply.data["exit_status"], reply.data["undo"]) == (0, "all"), reply.text
        assert used(point) - at_first < LITTLE
        box.undo(keep_times=True)
        assert (point / "ws/logs/large").read_bytes() == before
        assert used(point) - at_first < LITTLE


def test_e18_a_copy_of_ours_shares_them_too(point: Path):
    """For where a rename does not reach: an image layer below an overlay, for instance."""
    at_first = used(point)
    fd = os.open(point / "ws", LIST_FLAGS)
    try:
        copy_tree(fd, "logs", fd, "copied")
    finally:
        os.close(fd)
    assert (point / "ws/copied/large").read_bytes() == (point / "ws/logs/large").read_bytes()
    assert used(point) - at_first < LITTLE
