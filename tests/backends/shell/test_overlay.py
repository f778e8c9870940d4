"""An overlay of the workspace: where it is available, where it is not, and what remains of it."""

import os
import signal
import sqlite3
import subprocess
import time
from pathlib import Path

import pytest

from handhold.backends.files.workspace import Workspace
from handhold.backends.shell import host_paths, preflight
from handhold.backends.shell.overlay import OverlayUnavailable, WorkspaceOverlay
from tests.backends.shell.forked import NOBODY, as_user
from tests.backends.shell.shadows import Desk, both, seen
from tests.faults.trees import Kept

# --- where no overlay is available


@both
def test_the_roots_stay_as_they_are_until_the_effects_are_committed(desk: Desk):
    desk.lay("mkdir d; echo 1 >d/f")
    before = seen(desk.ws)
    with desk.ran("rm -r d; echo 2 >g") as effects:
        assert seen(desk.ws) == before
        assert len(effects.files) == 2
    assert seen(desk.ws) == before


@both
def test_there_is_no_shadow_of_a_home_or_of_what_is_above_one(desk: Desk):
    with pytest.MonkeyPatch.context() as patch:
        for home in (desk.ws, desk.ws / "people" / "me"):
            patch.setenv("HOME", str(home))
            host_paths.find_homes.cache_clear()
            with pytest.raises(OverlayUnavailable, match="home"):
                desk.shadow()
    host_paths.find_homes.cache_clear()


def test_there_is_no_shadow_of_the_whole_machine():
    files = Workspace(["/"], Kept())
    with pytest.raises(OverlayUnavailable, match="root of the file system"):
        WorkspaceOverlay.create(files.open_roots, files.get_staging_area, scratch=Path("/nonexistent"))
    files.close()


@both
def test_there_is_no_shadow_without_a_shelf(desk: Desk):
    files = Workspace([desk.ws], Kept())
    with pytest.raises(OverlayUnavailable, match="no space"):
        WorkspaceOverlay.create(files.open_roots, files.get_staging_area, scratch=desk.scratch)
    files.close()


@pytest.mark.root
@pytest.mark.parametrize("name", ["sub", "with space\tand\\more"])
def test_there_is_no_shadow_over_a_mount_point(who: str, place: Path, name: str):
    def mount() -> None:
        os.makedirs(place / "ws" / name)
        os.makedirs(place / "ws-beside")
        subprocess.run(["mount", "-t", "tmpfs", "none", place / "ws" / name], check=True)
        subprocess.run(["mount", "-t", "tmpfs", "none", place / "ws-beside"], check=True)
        if who == "nobody":
            os.chown(place / "ws", NOBODY, NOBODY)

    def work() -> None:
        desk = Desk(place)
        with pytest.raises(OverlayUnavailable, match="mount point") as refused:
            desk.shadow()
        assert refused.value.reason.startswith(str(desk.ws / name))
        assert preflight.find_mount_below(str(place / "ws-")) is None

    as_user(who, work, first=mount)


@pytest.mark.root
@pytest.mark.parametrize("who", ["nobody"], indirect=True)
@pytest.mark.parametrize("owner", [(NOBODY, 12345), (12345, NOBODY)])
def test_there_is_no_shadow_over_what_another_user_or_group_owns(place: Path, who: str, owner: tuple[int, int]):
    """Copying such a file up would fail with EOVERFLOW. It does not for root (test_ids.py)."""

    def prepare() -> None:
        (place / "ws/deep/er").mkdir(parents=True)
        for each in ("ws", "ws/deep", "ws/deep/er"):
            os.chown(place / each, NOBODY, NOBODY)
        (place / "ws/deep/er/f").write_text("")
        os.chmod(place / "ws/deep/er/f", 0o666)
        os.chown(place / "ws/deep/er/f", *owner)

    def work() -> None:
        with pytest.raises(OverlayUnavailable, match="deep/er/f belongs to another"):
            Desk(place).shadow()

    as_user(who, work, first=prepare)


@pytest.mark.root
@pytest.mark.parametrize("who", ["nobody"], indirect=True)
def test_what_a_plain_user_may_not_write_anyway_is_no_obstacle(place: Path, who: str):
    def prepare() -> None:
        (place / "ws/theirs").mkdir(parents=True)
        (place / "ws/theirs/f").write_text("1")
        (place / "ws/f").write_text("1")
        os.chown(place / "ws", NOBODY, NOBODY)

    def work() -> None:
        desk = Desk(place)
        with desk.ran("cat theirs/f; rm -f f; echo 1 >g; echo 2 >>theirs/f; echo 3 >theirs/g", fails=True) as effects:
            assert desk.ways(effects) == {"f": "gone", "g": "new"}
            desk.commit(effects.files)

    as_user(who, work, first=prepare)


def test_owners_are_looked_at_again_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    if os.geteuid() != 0:
        pytest.skip("needs root, to give a file away")
    monkeypatch.setattr(preflight, "has_id_range", lambda: False)
    files = Workspace([tmp_path], Kept())
    assert preflight.find_overlay_obstacle(files.open_roots[0]) == ""
    (tmp_path / "f").write_text("")
    os.chown(tmp_path / "f", NOBODY, NOBODY)
    deadline = time.monotonic() + 30
    while not preflight.find_overlay_obstacle(files.open_roots[0]) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert preflight.find_overlay_obstacle(files.open_roots[0]) == f"{tmp_path / 'f'} belongs to another user or group"
    files.close()


# --- a layer on another file system


def image(place: Path, who: str) -> None:
    """A machine whose files are all on an overlay, as in a container."""
    for folder in ("image/ws/old/sub", "changes", "work", "memory", "machine"):
        (place / folder).mkdir(parents=True)
    for way in ("old/a", "old/sub/b", "f"):
        (place / "image/ws" / way).write_text(f"{way} of the image\n")
    if who == "nobody":
        subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", place / "image", place / "changes"], check=True)
    options = f"lowerdir={place}/image,upperdir={place}/changes,workdir={place}/work"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, place / "machine"], check=True)
    if who == "nobody":
        os.chown(place / "machine", NOBODY, NOBODY)


SCRIPT = (
    "echo more >>f; rm -r old; mkdir old; echo new >old/n; mkdir -p t/u; echo 1 >t/u/x; ln t/u/x t/y; ln t/u/x z; ln -s x t/l;"
    "mkfifo t/p; truncate -s 1M t/hole; echo end >>t/hole; chmod 000 t/y; mkdir t/dark; echo 2 >t/dark/in; chmod 0 t/dark;"
    'touch -d @1000000000.5 t/u; python3 -c \'import os; os.setxattr("t/u", "user.mine", b"1")\'; chmod 555 t'
)


@pytest.mark.root
def test_on_a_machine_that_is_itself_an_overlay_things_are_copied(who: str, place: Path):
    def work() -> None:
        desk = Desk(place / "machine")
        before = seen(desk.ws)
        with desk.ran(SCRIPT) as effects:
            assert desk.ways(effects) == {"f": "other", "old": "other", "t": "new", "z": "new"}
            desk.commit(effects.files)
            after = seen(desk.ws)
            desk.undo(effects.files)
            assert {way: facts[:5] for way, facts in seen(desk.ws).items()} == {
                way: facts[:5] for way, facts in before.items()
            }
        t = desk.ws / "t"
        assert not t.exists()
        assert after["old/n"][2] == b"new\n"
        assert after["f"][2] == b"f of the image\nmore\n"
        assert after["z"][4] == after["t/y"][4]  # one file
        assert after["t"][1] == 0o555
        assert after["t/l"][2] == "x"
        assert os.listdir(f"/dev/shm/handhold-{os.geteuid()}") == ["lock"]

    as_user(who, work, first=lambda: image(place, who))


@pytest.mark.root
def test_copies_are_like_their_originals(who: str, place: Path):
    def work() -> None:
        desk = Desk(place / "machine")
        with desk.ran(SCRIPT) as effects:
            desk.commit(effects.files)
        t = desk.ws / "t"
        assert os.stat(t / "hole").st_blocks * 512 < 1_000_000
        assert os.stat(t / "u").st_mtime_ns == 1_000_000_000_500_000_000
        assert os.listxattr(t / "u") == ["user.mine"]
        assert os.stat(desk.ws / "z").st_nlink == 3

    as_user(who, work, first=lambda: image(place, who))


# --- several roots


@both
def test_each_root_has_a_layer_of_its_own_and_those_to_read_have_none(desk: Desk):
    other, inner, kept = desk.place / "other", desk.ws / "inner", desk.place / "kept"
    for folder in (other, inner, kept):
        folder.mkdir()
        (folder / "f").write_text("1\n")
    files = Workspace([desk.ws, other, inner], Kept(), read_only=[kept], state=desk.state)
    shadow = WorkspaceOverlay.create(files.open_roots, files.get_staging_area, scratch=desk.scratch)
    modes = {mount.real: mount.mode for mount in shadow.mounts}
    assert modes == {str(desk.ws): "overlay", str(inner): "overlay", str(other): "overlay", str(kept): "read-only"}
    told = desk.bash(shadow, f"mv {inner}/f {other}/moved; echo 2 >x; echo 3 >inner/y; echo 4 >{kept}/f; cat {kept}/f")
    assert told.stdout == "1\n"
    effects = shadow.collect_effects(lambda _: False)
    assert {change.path for change in effects.files} == {f"{inner}/f", f"{inner}/y", f"{desk.ws}/x", f"{other}/moved"}
    shadow.discard()
    files.close()


# --- programs on an overlay

GIT = "git -c user.name=a -c user.email=a@b -c init.defaultBranch=main"
REPOSITORY = f"""
{GIT} init -q . && mkdir -p src/deep && seq 200 >src/deep/numbers && echo 1 >README && {GIT} add . && {GIT} commit -qm one
{GIT} checkout -qb side && sed -i s/7/seven/ src/deep/numbers && {GIT} commit -qam two && {GIT} checkout -q main
echo 2 >>README && {GIT} commit -qam three
"""
WORK = f"""
set -e
{GIT} merge -q --no-edit side
echo loose >untracked; echo 3 >>README; {GIT} stash -q -u; {GIT} stash pop -q
{GIT} checkout -qb other HEAD~1; {GIT} checkout -q main
{GIT} gc -q
sed -i s/1/one/ src/deep/*; {GIT} rm -q --cached src/deep/numbers
{GIT} worktree add -q ../ws/tree side
"""


@both
def test_git_works_on_a_shadow_and_is_whole_before_and_after_undo(desk: Desk):
    def git(words: str) -> str:
        command = f"GIT_OPTIONAL_LOCKS=0 {GIT} -c safe.directory=* {words}"  # which leaves the index alone
        return subprocess.run(["bash", "-c", command], cwd=desk.ws, check=True, capture_output=True, text=True).stdout

    desk.lay(REPOSITORY)
    before = seen(desk.ws)
    with desk.ran(WORK) as effects:
        desk.commit(effects.files)
        git("fsck --strict")
        assert git("log --oneline").count("\n") == 4
        assert sorted(git("status --porcelain").splitlines()) == [
            *(" M README", "?? src/", "?? tree/", "?? untracked", "D  src/deep/numbers"),
        ]
        desk.undo(effects.files)
        assert seen(desk.ws) == before
        git("fsck --strict")


@both
def test_a_database_that_a_command_writes_is_whole(desk: Desk):
    program = (
        "import sqlite3; c = sqlite3.connect('db'); c.execute('pragma journal_mode=wal');"
        "c.execute('create table if not exists t (n)'); c.executemany('insert into t values (?)', [(n,) for n in range(1000)]);"
        "c.commit()"
    )
    desk.lay(f'python3 -c "{program}"')
    with desk.ran(f'python3 -c "{program}"') as effects:
        desk.commit(effects.files)
    with sqlite3.connect(desk.ws / "db") as database:
        assert database.execute("select count(*) from t").fetchone() == (2000,)
        assert database.execute("pragma integrity_check").fetchone() == ("ok",)
    database.close()


# --- leftovers


@both
def test_nothing_is_left_of_a_shadow_that_was_discarded_once_or_twice(desk: Desk):
    desk.lay("mkdir -p a/b; echo 1 >a/b/c")
    shadow = desk.shadow()
    desk.bash(shadow, "mkdir x; echo 1 >x/y; chmod 0 x; rm -r a; echo 1 >z")
    shadow.collect_effects(lambda _: False)
    before = seen(desk.ws)
    shadow.discard()
    shadow.discard()
    assert seen(desk.ws) == before
    assert os.listdir(desk.shelf.folder) == ["lock"]


@both
def test_a_shadow_whose_effects_nobody_asked_for_leaves_nothing(desk: Desk):
    shadow = desk.shadow()
    desk.bash(shadow, "mkdir -p x/y; chmod 0 x/y x")
    shadow.discard()
    assert os.listdir(desk.shelf.folder) == ["lock"]


@both
def test_of_a_commit_only_what_undo_needs_is_left(desk: Desk):
    desk.lay("echo 1 >f; echo 2 >g")
    with desk.ran("echo 2 >f; rm g; mkdir new") as effects:
        desk.commit(effects.files)
    (command,) = set(os.listdir(desk.shelf.folder)) - {"lock"}
    left = set(os.listdir(desk.shelf.path(command))) - {"lock", "note"}
    slots = {way: os.path.basename(side.slot) for way, side in desk.things(effects).items()}
    assert left == {slots["f"], slots["g"]}


@both
def test_what_a_killed_process_left_is_swept_by_the_next(desk: Desk):
    desk.lay("mkdir d; echo 1 >d/f")
    child = os.fork()
    if child == 0:
        shadow = desk.shadow()
        desk.bash(shadow, "rm -r d; mkdir -p d/x; echo 2 >d/x/f; chmod 0 d/x")
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert len(os.listdir(desk.shelf.folder)) == 2
    next_one = Workspace([desk.ws], Kept(), state=desk.state)
    next_one.get_staging_area(next_one.open_roots[0])
    assert os.listdir(desk.shelf.folder) == ["lock"]
    next_one.close()


@both
def test_inside_the_root_looks_as_it_does_outside(desk: Desk):
    desk.lay("chmod 2775 .")
    outside = os.stat(desk.ws)
    with desk.ran("stat -c '%a %Y' . >/tmp/told") as effects:
        assert effects.files == ()
        assert effects.notes == ()
    assert (desk.tmp / "told").read_text() == f"2775 {int(outside.st_mtime)}\n"
