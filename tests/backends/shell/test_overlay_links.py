"""Hard links that git makes of existing files: an overlay gives them different inodes, which git refuses."""

import os

import pytest

from handhold.backends.shell.sandbox_support import detect_sandbox_support
from tests.backends.shell.shadows import Desk, both

pytestmark = pytest.mark.skipif(not detect_sandbox_support().shim, reason="the shim was not built")

REPOSITORY = """
git init -qb main x; cd x; git config user.name a; git config user.email b
echo 1 >f; git add f; git commit -qm one; git gc -q; echo 2 >f; git commit -qam two
"""


@both
def test_e9_git_clones_a_repository_of_the_workspace(desk: Desk):
    desk.lay(REPOSITORY)
    with desk.ran(
        "git clone -q x y && git -C y fsck --strict && git -C y log --format=%s", shim=detect_sandbox_support().shim
    ) as effects:
        assert desk.ways(effects) == {"y": "new"}
        desk.commit(effects.files, effects.folder_mtimes)
    assert (desk.ws / "y" / "f").read_text() == "2\n"


@both
def test_e9_git_adds_a_submodule_of_the_workspace(desk: Desk):
    desk.lay(f"({REPOSITORY}); git init -q; git config user.name a; git config user.email b")
    with desk.ran(
        "git -c protocol.file.allow=always submodule --quiet add ./x sub && git commit -qm sub && git -C sub log --format=%s",
        shim=detect_sandbox_support().shim,
    ) as effects:
        desk.commit(effects.files, effects.folder_mtimes)
    assert (desk.ws / "sub" / "f").read_text() == "2\n"


@both
def test_e9_other_programs_link_as_before(desk: Desk):
    desk.lay("echo 1 >old")
    with desk.ran("ln old linked; echo 2 >made; ln made other", shim=detect_sandbox_support().shim) as effects:
        desk.commit(effects.files, effects.folder_mtimes)
    assert os.path.samefile(desk.ws / "old", desk.ws / "linked")
    assert os.path.samefile(desk.ws / "made", desk.ws / "other")
