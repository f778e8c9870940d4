"""Nasty 28: a link to the outside and a directory are swapped forever, and no write gets out."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest

from handhold.backends.files.commit import Committer
from handhold.backends.files.workspace import Workspace
from handhold.core.errors import ToolError
from handhold.core.plans import FileChange, InlineContent
from tests.faults.trees import Kept
from tests.scale import scaled

WRITES = scaled(2_500, 50_000)
CHECKED = scaled(2_000, 10_000)  # writes that use a check on the resolved string
HERE = Path(__file__).parent


@contextmanager
def swapping(home: Path) -> Iterator[tuple[Path, Path]]:
    """A root in which `door` alternates between a directory and a link to the outside."""
    root, outside = home / "root", home / "outside"
    (root / "door").mkdir(parents=True)
    outside.mkdir()
    (root / "other").symlink_to(outside)
    program = home / "swap"
    subprocess.run(["cc", "-O2", "-o", program, HERE / "swap.c"], check=True)
    swap = subprocess.Popen([program, root / "door", root / "other"])
    try:
        yield root, outside
    finally:
        swap.kill()
        swap.wait()


def emptied(folder: Path) -> int:
    """Delete all files and count them; names are reused, so that no directory grows long."""
    names = os.listdir(folder)
    for name in names:
        os.unlink(folder / name)
    return len(names)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(not shutil.which("cc"), reason="swap.c must be compiled, and there is no cc")
@pytest.mark.parametrize("resolver", ["openat2", "walk"])
def test_nasty_28_no_write_gets_out(tmp_path: Path, resolver: Literal["openat2", "walk"]):
    kept = Kept()
    content = InlineContent(b"mine")
    with swapping(tmp_path) as (root, outside):
        workspace = Workspace([root], kept, resolver)
        committer = Committer(workspace, kept, durable=False)
        refused = 0
        for turn in range(WRITES):
            # Half of them resolve the path at the last moment, as a tool does; half use an older path.
            try:
                path = workspace.resolve(f"door/{turn}") if turn % 2 else str(root / f"door/{turn}")
                with committer.transaction([FileChange(path, None, content)]) as transaction:
                    transaction.apply()
                    transaction.clean_up()
            except ToolError:
                refused += 1
        workspace.close()
        escapes = emptied(outside)

        checked = 0
        for turn in range(CHECKED):
            path = root / "door" / str(turn)
            try:
                if path.resolve().is_relative_to(root):
                    path.write_bytes(b"mine")
            except OSError:
                pass
            if turn % 1000 == 999:
                checked += emptied(outside)
    print(f"{resolver}: {escapes} escapes in {WRITES:,} writes ({refused:,} refused);", end=" ")
    print(f"by a resolve() check {checked:,} in {CHECKED:,}")
    assert escapes == 0
    assert WRITES // 10 < refused < WRITES * 9 // 10  # otherwise no swap happened in between
    assert checked > 0
