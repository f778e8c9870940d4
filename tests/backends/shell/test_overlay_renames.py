"""Renaming a folder of the root: an overlay returns EXDEV, and the preloaded shim does the rename."""

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from handhold.backends import shell
from tests.backends.shell.forked import as_user
from tests.backends.shell.shadows import OLD, Desk, seen

SOURCE = Path(shell.__file__ or "").with_name("rename.c")
WAYS = {
    "python": 'python3 -c \'import os; os.rename("d", "e")\'',
    "perl": 'perl -e \'rename("d", "e") or die $!\'',
    "node": 'node -e \'require("fs").renameSync("d", "e")\'',
    "mv": "mv d e",
    "git": "git mv d e",
}


@pytest.fixture(scope="module")
def shim() -> Iterator[str]:
    """Compiled here, where every user may read it."""
    if not shutil.which("gcc"):
        pytest.skip("no compiler")
    folder = Path(tempfile.mkdtemp(prefix="handhold-shim-"))
    folder.chmod(0o755)
    built = folder / "rename.so"
    flags = ["-Os", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, "-o", built, SOURCE], check=True)
    yield str(built)
    shutil.rmtree(folder)


def lay(desk: Desk) -> None:
    desk.lay(
        "mkdir -p d/sub/deep; echo 1 >d/a; echo 2 >d/sub/deep/b; ln -s ../a d/sub/l; echo 3 >d/secret; chmod 400 d/secret;"
        "mkdir d/shut; echo 4 >d/shut/x; chmod 555 d/shut; touch d/run; chmod 750 d/run; truncate -s 1M d/hole; mkfifo d/p;"
        "echo 5 >d/none; chmod 000 d/none; chmod 750 d; mkdir d/dark; chmod 0 d/dark"
    )
    os.setxattr(desk.ws / "d" / "a", "user.mine", b"1")
    os.utime(desk.ws / "d" / "a", ns=(OLD, OLD))


@pytest.mark.parametrize("program", WAYS)
def test_with_the_shim_every_program_renames_a_folder(who: str, place: Path, shim: str, program: str):
    if not shutil.which(program.replace("python", "python3"), path="/usr/bin:/bin"):
        pytest.skip(f"no {program} here")

    def work() -> None:
        desk = Desk(place)
        lay(desk)
        if program == "git":
            given = "git init -q . && git add d/a && git -c user.name=a -c user.email=a@b commit -qm x"
            subprocess.run(["bash", "-c", given], cwd=desk.ws, check=True)
        before = seen(desk.ws)
        with desk.ran(WAYS[program], shim=shim) as effects:
            ways = desk.ways(effects)
            assert (ways.pop("d"), ways.pop("e")) == ("gone", "new")
            assert program == "git" or ways == {}
            desk.commit(effects.files)
            after = seen(desk.ws)
            for way, facts in before.items():
                if way.split("/")[0] == "d":
                    *all_but_name, one, when = facts
                    *new, new_one, now = after["e" + way[1:]]
                    assert new == all_but_name, way
                    assert (one, when) == (new_one.replace("e", "d", 1), now), way
            assert os.stat(desk.ws / "e" / "hole").st_blocks == 0
            desk.undo(effects.files)
        assert seen(desk.ws) == before

    as_user(who, work)


def test_without_the_shim_a_rename_says_exdev(who: str, place: Path):
    def work() -> None:
        desk = Desk(place)
        desk.lay("mkdir d; echo 1 >d/a; git init -q .; git add d")
        shadow = desk.shadow()
        told = desk.bash(shadow, f"{WAYS['python']}; {WAYS['git']}; mv d f")
        assert "cross-device" in told.stderr
        assert "git" not in told.stderr or "fatal: renaming 'd' failed" in told.stderr
        assert desk.ways(shadow.collect_effects(lambda _: False)) == {"d": "gone", "f": "new"}  # mv copies instead
        shadow.discard()

    as_user(who, work)


REFUSALS = """
import errno, os
def refused(old, new, number):
    try:
        os.rename(old, new)
    except OSError as error:
        assert error.errno == number, (old, new, error)
    else:
        raise AssertionError((old, new))
refused("d", "full", errno.ENOTEMPTY)
refused("d", "file", errno.ENOTDIR)
refused("file", "d", errno.EISDIR)
refused("d", "d/sub/x", errno.EINVAL)
refused("none", "x", errno.ENOENT)
refused("d", "none/x", errno.ENOENT)
refused("d", "/tmp/d", errno.EXDEV)
os.rename("d", "empty")
os.rename("empty/", "slash/")
os.chdir("slash")
os.rename("sub", "../back")
os.rename("../links", "links")
"""


def test_what_a_rename_refuses_the_shim_refuses_too(who: str, place: Path, shim: str):
    def work() -> None:
        desk = Desk(place)
        desk.lay(
            "mkdir -p d/sub full/x empty links; echo 1 >d/sub/a; echo 2 >file; echo 3 >links/a; ln links/a links/b"
        )
        (desk.tmp / "program.py").write_text(REFUSALS)
        with desk.ran("python3 /tmp/program.py", shim=shim) as effects:
            desk.commit(effects.files)
        assert sorted(os.listdir(desk.ws)) == ["back", "file", "full", "slash"]
        assert os.listdir(desk.ws / "slash") == ["links"]
        assert os.listdir(desk.ws / "back") == ["a"]
        assert os.path.samefile(desk.ws / "slash/links/a", desk.ws / "slash/links/b")
        assert stat.S_ISDIR(os.lstat(desk.ws / "full").st_mode)

    as_user(who, work)
