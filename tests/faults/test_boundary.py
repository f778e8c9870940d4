"""C-2 under attack: a directory and a link to the outside are swapped while files are read."""

import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Literal

import pytest

from handhold.backends.files.workspace import Workspace
from handhold.core.errors import ToolError
from tests.backends.files.opening import Opener
from tests.scale import scaled

READS = scaled(5_000, 200_000)
CHECKED = scaled(4, 16)  # one in this many reads uses a check on the resolved string
PATHS = ("dir/file", "dir/sub/../file", "dir/sub/file", "dir/./file")
INSIDE, OUTSIDE = b"inside\n", b"outside\n"


@pytest.fixture(scope="session")
def swap(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that swaps two names forever."""
    if not (cc := shutil.which("cc")):
        pytest.skip("no C compiler to build swap.c with")
    built = tmp_path_factory.mktemp("swap") / "swap"
    subprocess.run([cc, "-O2", "-o", built, Path(__file__).with_name("swap.c")], check=True)
    return built


@pytest.fixture
def ws(tmp_path: Path, swap: Path) -> Iterator[Path]:
    for top, content in ((tmp_path / "ws" / "dir", INSIDE), (tmp_path / "outside", OUTSIDE)):
        (top / "sub").mkdir(parents=True)
        (top / "file").write_bytes(content)
        (top / "sub" / "file").write_bytes(content)
    link = tmp_path / "ws" / "link"
    link.symlink_to(tmp_path / "outside")
    swapping = subprocess.Popen([swap, tmp_path / "ws" / "dir", link])
    try:
        yield tmp_path / "ws"
    finally:
        swapping.kill()
        swapping.wait()


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("resolver", ["openat2", "walk"])
def test_nasty_28_no_read_leaves_the_workspace(
    ws: Path, resolver: Literal["openat2", "walk"], capsys: pytest.CaptureFixture[str]
):
    files = Opener(resolver)(ws)
    ours, theirs = Counter[str](), Counter[str]()
    for n, path in enumerate(islice(cycle(PATHS), READS)):
        ours[read(files, path, paged=n % 16 == 0)] += 1
        if n % CHECKED == 0:
            theirs[read_checked(ws, path)] += 1
    files.close()
    with capsys.disabled():
        print(f"\n{resolver}: {ours['outside']} escapes in {ours.total():,} reads", end=" ")
        print(f"({ours['inside']:,} read, {ours['refused']:,} refused);", end=" ")
        print(f"resolve() and is_relative_to(): {theirs['outside']:,} in {theirs.total():,}")
    assert ours["outside"] == 0
    assert ours["inside"] > READS / 100  # otherwise the test proves nothing
    assert ours["refused"] > READS / 100
    assert theirs["outside"] > 0


def read(files: Workspace, path: str, *, paged: bool) -> str:
    try:
        data = files.read_page(path, 1, 1, 100).lines[0].text.encode() + b"\n" if paged else files.read(path).data
    except ToolError:
        return "refused"
    return data.decode().strip()


def read_checked(root: Path, path: str) -> str:
    """The result with a check on the resolved string."""
    try:
        if not (root / path).resolve().is_relative_to(root):
            return "refused"
        return (root / path).read_bytes().decode().strip()
    except OSError:
        return "refused"
