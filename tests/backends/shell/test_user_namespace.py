"""Owners: root's commands can give files away, and gain no other right by it."""

import os
import select
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
from contextlib import suppress
from io import BytesIO
from pathlib import Path

import pytest

from handhold.backends.shell import preflight, user_namespace
from handhold.backends.shell.orphans import kill_orphans
from handhold.backends.shell.sandbox_support import detect_sandbox_support
from tests.backends.shell.forked import NOBODY
from tests.backends.shell.people import person, system_python
from tests.backends.shell.shadows import Desk
from tests.backends.shell.shells import PATIENCE

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(not user_namespace.has_id_range(), reason="needs root, and a user namespace for it"),
]
CHOWN, FOWNER = 1 << 0, 1 << 3


@pytest.fixture
def who() -> str:
    return "ourselves"


@pytest.fixture
def root(place: Path) -> Desk:
    return Desk(place)


def owners(path: Path) -> tuple[int, int]:
    found = os.lstat(path)
    return found.st_uid, found.st_gid


def archive(path: Path) -> None:
    with tarfile.open(path, "w") as tar:
        for name, kind, mode in (
            ("p", tarfile.DIRTYPE, 0o755),
            ("p/f", tarfile.REGTYPE, 0o640),
            ("p/l", tarfile.SYMTYPE, 0o777),
        ):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode, entry.mtime, entry.linkname = kind, mode, 1_500_000_000, "f"
            entry.uid, entry.gid = 1000, 50_000
            tar.addfile(entry, BytesIO())


def test_e14_an_archive_is_unpacked_with_its_owners(root: Desk):
    archive(root.ws / "a.tar")
    before = root.see()
    with root.ran("tar xf a.tar") as effects:
        root.commit(effects.files, effects.folder_mtimes)
    for name in ("p", "p/f", "p/l"):
        assert owners(root.ws / name) == (1000, 50_000)
    assert stat.S_IMODE(os.stat(root.ws / "p/f").st_mode) == 0o640
    with root.ran("cat p/f; chown 0:0 p/f") as later:  # other people's files have an overlay too
        assert root.ways(later) == {"p/f": "other"}
    root.undo(effects.files)
    assert root.see() == before


def test_e14_files_and_links_are_given_away_and_taken_back(root: Desk):
    root.lay("echo 1 >f; ln -s f l; mkdir d")
    with root.ran("chown 1000:1001 f; chown -h 1000 l; chown 1000 d") as effects:
        assert effects.notes == ()
        root.commit(effects.files, effects.folder_mtimes)
    assert [owners(root.ws / name) for name in "fld"] == [(1000, 1001), (1000, 0), (1000, 0)]
    root.undo(effects.files)
    assert [owners(root.ws / name) for name in "fld"] == [(0, 0), (0, 0), (0, 0)]


def test_e14_a_folder_that_is_moved_keeps_the_owners_in_it(root: Desk):
    root.lay("mkdir -p d/e; echo 1 >d/e/f; ln -s f d/e/l; mkfifo d/e/p")
    names = ("d/e", "d/e/f", "d/e/l", "d/e/p")
    for name in names:
        os.chown(root.ws / name, 1000, 1001, follow_symlinks=False)
    script = f'{system_python()} -c \'import os; os.rename("d", "moved")\''
    with root.ran(script, shim=detect_sandbox_support().shim) as effects:
        root.commit(effects.files, effects.folder_mtimes)
    assert {owners(root.ws / name.replace("d/", "moved/", 1)) for name in names} == {(1000, 1001)}
    assert owners(root.ws / "moved") == (0, 0)


def test_e14_access_lists_name_other_users(root: Desk):
    root.lay("echo 1 >f")
    entries = b"".join((b"\x02\0\0\0", *map(bytes.fromhex, ENTRIES)))
    (root.tmp / "set.py").write_text(f"import os; os.setxattr('f', 'system.posix_acl_access', {entries!r})")
    with root.ran(f"{system_python()} /tmp/set.py") as effects:
        root.commit(effects.files, effects.folder_mtimes)
    assert os.getxattr(root.ws / "f", "system.posix_acl_access") == entries


ENTRIES = ("01000600ffffffff", "02000600e8030000", "04000400ffffffff", "10000600ffffffff", "20000400ffffffff")


def test_e14_a_root_that_is_somebody_elses_is_theirs_afterwards(root: Desk):
    os.chown(root.ws, 1000, 1000)
    os.chmod(root.ws, 0o777)
    with root.ran("stat -c %u:%g . ; echo 1 >new") as effects:
        assert effects.notes == ()
        root.commit(effects.files, effects.folder_mtimes)
    assert owners(root.ws) == (1000, 1000)


def test_e14_what_belongs_to_others_is_no_obstacle_to_a_shadow(root: Desk):
    (root.ws / "f").write_text("")
    os.chown(root.ws / "f", NOBODY, 12345)
    assert preflight.find_overlay_obstacle(root.files.open_roots[0]) == ""


STATUS = "grep -E 'CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs' /proc/self/status"


def test_e14_commands_get_two_capabilities_in_their_own_namespace(root: Desk):
    shadow = root.shadow()
    try:
        said = root.bash(
            shadow, f"{STATUS}; unshare --user true 2>/dev/null || echo none; ls /proc/self/fd"
        ).stdout.split()
    finally:
        shadow.discard()
    facts = dict(zip(said[:12:2], said[1:12:2], strict=True))
    assert facts.pop("NoNewPrivs:") == "1"
    assert {int(value, 16) for value in facts.values()} == {CHOWN | FOWNER}
    assert said[12] == "none"
    assert said[13:] == ["0", "1", "2", "3"], "the namespace itself is not handed in"


def test_e14_a_command_in_the_background_has_none():
    somebody = person("root")
    caps = somebody.contained(STATUS, shadow=False).stdout.split()[1:10:2]
    shutil.rmtree(somebody.base)
    assert {int(value, 16) for value in caps} == {0}


def test_e14_what_a_mode_forbids_stays_forbidden(root: Desk):
    root.lay("echo secret >theirs; mkdir closed; echo secret >closed/f; chmod 600 theirs; chmod 700 closed")
    for name in ("theirs", "closed", "closed/f"):
        os.chown(root.ws / name, 1000, 1000)
    outside = root.place / "outside"
    outside.write_text("secret")
    outside.chmod(0o600)
    os.chown(outside, 1000, 1000)
    with root.ran(
        f"! cat theirs closed/f {outside}; ! echo 1 >>theirs; ! chown 0 {outside}; ! chmod 666 {outside}"
    ) as effects:
        assert effects.files == ()
    assert owners(outside) == (1000, 1000)


def test_e14_devices_of_the_machine_are_not_changed(root: Desk):
    """Each gets the mode and the owner it already has, which is recorded as a change."""
    names = ("null", "zero", "full", "random", "urandom", "tty")
    before = {name: os.stat(f"/dev/{name}").st_ctime_ns for name in names}
    script = f"cd /dev; ! chmod 666 {' '.join(names)} 2>/dev/null && ! chown 0:0 {' '.join(names)} && ! touch zero"
    with root.ran(f"{script} && echo works >/dev/null && head -c 3 /dev/urandom >/dev/zero && ! echo 1 >/dev/full"):
        pass
    assert {name: os.stat(f"/dev/{name}").st_ctime_ns for name in before} == before


KILLED_MEANWHILE = """
import time
from handhold.backends.shell import user_namespace
user_namespace.Path.write_text = lambda path, text: print(path.parent.name, flush=True) or time.sleep(600)
user_namespace.has_id_range()
"""


def test_u9_what_is_left_of_a_process_that_was_killed_while_it_made_a_namespace_is_an_orphan():
    with subprocess.Popen([sys.executable, "-c", KILLED_MEANWHILE], stdout=subprocess.PIPE) as maker:
        assert maker.stdout
        inside = int(maker.stdout.readline())
        left = os.pidfd_open(inside)
        maker.kill()
    try:
        kill_orphans()
        assert select.select([left], [], [], PATIENCE)[0]
    finally:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(left, signal.SIGKILL)
        os.close(left)
