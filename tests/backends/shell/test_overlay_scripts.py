"""A script has the same effects on an overlay as without one, and undo restores everything."""

import os
import stat
import subprocess
import time
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from handhold.backends import shell
from handhold.backends.state import sqlite
from handhold.core.choices import Confinement
from handhold.dialects import handhold
from handhold.toolbox import Toolbox
from tests.backends.shell.shadows import OLD, Desk, Facts, both, both_without_overlay, seen
from tests.scale import scaled

names = st.sampled_from(["a", "b", "c", "d e", "-x"])
paths = st.lists(names, min_size=1, max_size=3).map(lambda parts: "'./" + "/".join(parts) + "'")
modes = st.sampled_from(["644", "600", "755", "400", "500", "555", "000", "u+x", "700"])
lines = st.one_of(
    st.builds("echo {} >{}".format, st.integers(0, 9), paths),
    st.builds("echo {} >>{}".format, st.integers(0, 9), paths),
    st.builds(": >{}".format, paths),
    st.builds("truncate -s {} {}".format, st.integers(0, 9), paths),
    st.builds("chmod {} {}".format, modes, paths),
    st.builds("chmod -R {} {}".format, modes, paths),
    st.builds("mkdir {}".format, paths),
    st.builds("mkdir -p {}".format, paths),
    st.builds("rmdir {}".format, paths),
    st.builds("rm -f {}".format, paths),
    st.builds("rm -rf {}".format, paths),
    st.builds("mv {} {}".format, paths, paths),
    st.builds("mv -T {} {}".format, paths, paths),
    st.builds("ln {} {}".format, paths, paths),
    st.builds("ln -s {} {}".format, paths, paths),
    st.builds("ln -sfn {} {}".format, names.map(lambda name: f"'{name}'"), paths),
    # Not into itself: how far that gets depends on the order in which a folder is listed.
    st.tuples(paths, paths)
    .filter(lambda pair: not pair[1].startswith(pair[0][:-1]))
    .map(lambda pair: "cp -a {} {}".format(*pair)),
    st.builds("touch -d @{} {}".format, st.integers(1, 9), paths),
)
scripts = st.lists(lines, min_size=1, max_size=12)

LOADED = (handhold, shell, sqlite)  # read now: another user may not be able to read them later
SCRIPTS = scaled(12, 500)  # for each user
# On an overlay root has no more rights than others: it cannot write what it may not write. Brokered it can.
POWERS: dict[Confinement, list[str]] = {
    "contained": ["setpriv", "--bounding-set=-all", "--inh-caps=-all"],
    "brokered": ["setpriv", "--bounding-set=-all,+chown,+dac_override,+fowner,+fsetid", "--inh-caps=-all"],
}


def lay(top: Path) -> None:
    """A tree with folders, links and many different modes; no file has two names."""
    for way in ("a", "a/b", "a/b/c", "b", "b/a", "c", "d e"):
        (top / way).mkdir()
    for way in ("a/a", "a/b/a", "a/b/c/b", "b/b", "b/a/c", "c/a", "c/b", "-x"):
        (top / way).write_text(f"old {way}\n")
    os.symlink("a/b", top / "b/c")
    os.symlink("nowhere", top / "c/c")
    os.symlink("../a/a", top / "d e/a")
    (top / "c/b").chmod(0o400)
    (top / "a/a").chmod(0o755)
    (top / "b/b").chmod(0o000)
    for way in ("b/a/c", "b/a", "d e"):
        (top / way).chmod(0o555)
    for folder, _, files in os.walk(top):
        for path in (folder, *(os.path.join(folder, name) for name in files)):
            os.utime(path, ns=(OLD, OLD), follow_symlinks=False)


def empty(top: Path) -> None:
    top.mkdir(exist_ok=True)
    subprocess.run(["bash", "-c", "chmod -R u+rwx .; rm -rf ./* ./.[!.]*"], cwd=top, capture_output=True, check=False)
    assert os.listdir(top) == []


def facts(top: Path, since: int) -> Facts:
    """Like `seen`, but also in closed folders; a time is compared only if the script set it, or nobody did."""
    modes = _modes(top)
    try:
        found = seen(top)
    finally:
        for way, mode in reversed(modes):
            os.chmod(way, mode)
    closed = {os.path.relpath(way, top): mode for way, mode in modes}
    told: Facts = {}
    for way, (kind, mode, what, attributes, one, when) in found.items():
        is_folder = stat.S_ISDIR(kind)
        told[way] = kind, closed.get(way, mode), what, attributes, one, 0 if is_folder or when >= since else when
    return told


def _modes(top: Path) -> list[tuple[str, int]]:
    """Open all folders; returns those that were closed, outer ones first."""
    closed: list[tuple[str, int]] = []
    ahead = [str(top)]
    while ahead:
        folder = ahead.pop()
        mode = stat.S_IMODE(os.lstat(folder).st_mode)
        if mode & 0o700 != 0o700:
            os.chmod(folder, 0o700)
            closed.append((folder, mode))
        with os.scandir(folder) as entries:
            ahead += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    return closed


def check(desk: Desk, lines: list[str], session: str, *, shell: Confinement = "contained") -> None:
    plain = desk.place / "plain"
    for top in (desk.ws, plain):
        empty(top)
        lay(top)
    since = time.time_ns() - 60_000_000_000
    before = facts(desk.ws, 1 << 62)
    script = "\n".join(lines)
    powers = POWERS[shell] if os.geteuid() == 0 else ()
    subprocess.run([*powers, "bash", "-c", script], cwd=plain, capture_output=True, check=False, timeout=30)
    expected = facts(plain, since)
    asked: list[object] = []

    def approve(question: object) -> bool:
        asked.append(question)
        return True

    box = Toolbox.open(
        desk.ws, state=desk.place / "kept", session=session, policy="open", approver=approve, shell=shell
    )
    try:
        reply = box.call("bash", {"command": script})
        assert reply.status == "success", reply
        assert reply.data["undo"] == "all"
        assert reply.data["conflicts"] == []
        assert facts(desk.ws, since) == expected
        if reply.data["files"]:
            assert (again := box.undo(keep_times=True)).status == "success", again
            assert facts(desk.ws, 1 << 62) == before
            assert (again := box.redo(keep_times=True)).status == "success", again
            assert facts(desk.ws, since) == expected
        # We cannot see into a closed folder: it might be a git directory.
        assert not asked or any("chmod" in line for line in lines)
    finally:
        box.close()


EXAMPLES = (
    ["rm -rf './a'", "mkdir './a'", "echo 1 >'./a/b'"],
    ["mkdir './a/d e'", "chmod 000 './a'"],
    ["chmod 755 './b/a'", "mv './b/a/c' './b/a/d'", "chmod 000 './b/a'"],
    ["echo 1 >'./a/b/a'", "rm './a/b/c/b'", "chmod 600 './a/b/c' './a/b' './a'"],
    ["mkdir './a/d e'", "mv './a/d e' './b/-x'", "mv './b/-x' './a/d e'"],
    ["echo 0 >'./b/a/c'"],
    ["ln './-x' './c'", "mv './-x' './a/c'", "mv './a/c' './-x'"],
)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@both
def test_a_script_does_on_a_shadow_what_it_does_without(desk: Desk):
    check_scripts(desk, "contained")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@both_without_overlay
def test_a_brokered_script_does_what_it_does_without_a_broker(desk: Desk):
    check_scripts(desk, "brokered")


def check_scripts(desk: Desk, shell: Confinement) -> None:
    sessions = count()

    @settings(max_examples=SCRIPTS, database=None, suppress_health_check=[HealthCheck.too_slow])
    @given(scripts)
    def holds(lines: list[str]) -> None:
        check(desk, lines, f"script {next(sessions)}", shell=shell)

    for lines in EXAMPLES:
        holds = example(lines)(holds)
    holds()
