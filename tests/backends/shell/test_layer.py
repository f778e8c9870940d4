"""Reading a command's overlay layer as changes."""

import os
import stat
import subprocess
from pathlib import Path

import pytest

from handhold.core.errors import Stale, SystemFailure
from handhold.core.plans import DirectoryMetadata, FileChange, StagedContent, digest
from tests.backends.shell.shadows import OLD, Desk, both

ODD = ["-n", "a b", "ünï", "new\nline", "tab\t", "*", "'", '"', "\\", "\x7f", ".hidden", "x" * 255, "a:b,c", "#1"]


@both
def test_a_new_a_changed_and_a_deleted_file_are_three_changes(desk: Desk):
    desk.lay("echo 1 >changed; echo 2 >deleted; echo 3 >left")
    with desk.ran("echo more >>changed; rm deleted; echo new >new") as effects:
        assert desk.ways(effects) == {"changed": "other", "deleted": "gone", "new": "new"}
        assert not effects.conflicts
        assert not effects.notes


@both
def test_a_side_says_what_the_thing_is(desk: Desk):
    desk.lay("echo old >f; chmod 640 f")
    with desk.ran("echo newer >f; ln -s f l; mkdir -p t/u; echo 1 >t/u/x; mkfifo p") as effects:
        (f, *_), new = effects.files, desk.things(effects)
        was = os.lstat(desk.ws / "f")
        old = StagedContent(new["f"].slot, "file", digest(b"old\n"), 4, 0o640, (was.st_dev, was.st_ino), OLD)
        assert f.before == old
        facts = {way: (side.kind, side.hash, side.size, side.entry_count) for way, side in new.items() if way in "fl"}
        assert facts == {"f": ("file", digest(b"newer\n"), 6, 1), "l": ("link", digest(b"f"), 1, 1)}
        assert (new["p"].kind, new["p"].size) == ("other", 0)
        assert (new["t"].kind, new["t"].size, new["t"].entry_count) == ("tree", 2, 3)
        for change in effects.files:
            assert isinstance(change.after, StagedContent)
            lies = os.lstat(desk.shelf.path(change.after.slot))
            assert (lies.st_dev, lies.st_ino) == change.after.inode
            assert lies.st_mtime_ns == change.after.mtime_ns
            assert stat.S_IMODE(lies.st_mode) == change.after.mode


@both
def test_a_command_that_changes_nothing_has_no_effects(desk: Desk):
    desk.lay("mkdir d; echo 1 >d/f; ln -s f d/l")
    with desk.ran("cat d/f; echo 2 >x; rm x; mkdir y; rmdir y; mv d/f d/g; mv d/g d/f") as effects:
        assert effects.files == ()


@both
def test_a_file_that_was_only_opened_for_writing_is_no_change(desk: Desk):
    desk.lay("echo 1 >f")
    with desk.ran(": >>f; exec 3<>f") as effects:
        assert effects.files == ()


@both
def test_a_touched_file_and_a_file_with_another_mode_are_changes(desk: Desk):
    desk.lay("echo 1 >touched; echo 2 >executable")
    with desk.ran("touch touched; chmod +x executable") as effects:
        assert desk.ways(effects) == {"touched": "other", "executable": "other"}
        desk.commit(effects.files)
    assert os.access(desk.ws / "executable", os.X_OK)
    assert os.stat(desk.ws / "touched").st_mtime_ns > OLD


@both
def test_a_new_tree_is_one_change_and_keeps_what_belongs_to_it(desk: Desk):
    desk.lay("mkdir old")
    with desk.ran(
        "mkdir -p old/new/deep; cd old/new; echo 1 >deep/a; ln deep/a b; ln -s nowhere l; mkfifo p;"
        'chmod 1711 b; touch -d @1000000000.123456789 b deep; python3 -c \'import os; os.setxattr("b", "user.mine", b"1")\''
    ) as effects:
        assert desk.ways(effects) == {"old/new": "new"}
        desk.commit(effects.files)
    new = desk.ws / "old" / "new"
    assert os.stat(new / "b").st_nlink == 2
    assert os.stat(new / "b").st_mtime_ns == 1_000_000_000_123_456_789 == os.stat(new / "deep").st_mtime_ns
    assert stat.S_IMODE(os.stat(new / "deep" / "a").st_mode) == 0o1711
    assert os.listxattr(new / "b") == ["user.mine"]
    assert os.readlink(new / "l") == "nowhere"


@both
def test_files_that_are_one_file_stay_so_in_several_places(desk: Desk):
    desk.lay("mkdir a b")
    with desk.ran("echo 1 >a/x; ln a/x b/y; mkdir c; ln a/x c/z") as effects:
        assert desk.ways(effects) == {"a/x": "new", "b/y": "new", "c": "new"}
        desk.commit(effects.files)
    assert os.stat(desk.ws / "a" / "x").st_nlink == 3
    assert os.path.samefile(desk.ws / "b" / "y", desk.ws / "c" / "z")


@both
def test_a_folder_removed_and_made_again_replaces_the_old_one(desk: Desk):
    desk.lay("mkdir -p d/sub; echo 1 >d/old; echo 2 >d/sub/old")
    before = desk.see()
    with desk.ran("rm -r d; mkdir d; echo 3 >d/new") as effects:
        assert desk.ways(effects) == {"d": "other"}
        desk.commit(effects.files)
        assert os.listdir(desk.ws / "d") == ["new"]
        desk.undo(effects.files)
    assert desk.see() == before


@both
def test_files_and_folders_take_each_others_places(desk: Desk):
    desk.lay("echo 1 >file; mkdir -p folder/sub; echo 2 >folder/sub/x; ln -s file link")
    before = desk.see()
    with desk.ran(
        "rm file; mkdir file; echo 3 >file/in; rm -r folder; echo 4 >folder; rm link; mkdir link; rmdir link; ln -s folder link"
    ) as effects:
        assert desk.ways(effects) == {"file": "other", "folder": "other", "link": "other"}
        desk.commit(effects.files)
        assert (desk.ws / "file" / "in").read_text() == "3\n"
        assert (desk.ws / "link").read_text() == "4\n"
        desk.undo(effects.files)
    assert desk.see() == before


@both
def test_a_second_name_for_an_old_file_counts_for_both_names(desk: Desk):
    desk.lay("echo 1 >old")
    before = desk.see()
    with desk.ran("ln old new") as effects:
        assert desk.ways(effects) == {"old": "other", "new": "new"}
        desk.commit(effects.files)
        assert os.path.samefile(desk.ws / "old", desk.ws / "new")
        desk.undo(effects.files)
    assert desk.see() == before


@both
def test_old_names_of_one_file_come_apart_and_that_is_told(desk: Desk):
    desk.lay("echo 1 >a; ln a b; echo 2 >c; ln c d")
    with desk.ran("echo more >>a; rm c") as effects:
        assert desk.ways(effects) == {"a": "other", "c": "gone"}
        (note,) = effects.notes
        assert note.startswith(str(desk.ws / "a"))
        desk.commit(effects.files)
    assert (desk.ws / "b").read_text() == "1\n"
    assert (desk.ws / "d").read_text() == "2\n"


@both
def test_what_may_not_be_read_or_written_is_taken_over_with_its_mode(desk: Desk):
    desk.lay(
        "echo 1 >secret; echo 2 >hidden; mkdir -p shut/in; echo 3 >shut/in/x; mkdir tight; echo 4 >tight/y;"
        "chmod 400 secret; chmod 000 hidden; chmod 555 shut/in shut; chmod 500 tight"
    )
    before = desk.see()
    with desk.ran(
        "mv secret s2; mv hidden h2; chmod 755 shut; echo n >shut/n; chmod 555 shut; chmod 700 tight; rm tight/y;"
        "chmod 500 tight; mkdir -p new/a/b; echo 5 >new/a/b/c; chmod 000 new/a/b/c; chmod 000 new/a/b new/a; chmod 555 new;"
        "mkdir blind; echo 6 >blind/q; chmod 300 blind"
    ) as effects:
        moved = {"secret": "gone", "s2": "new", "hidden": "gone", "h2": "new"}
        assert desk.ways(effects) == moved | {"shut/n": "new", "tight/y": "gone", "new": "new", "blind": "new"}
        desk.commit(effects.files)
        modes = {name: stat.S_IMODE(os.lstat(desk.ws / name).st_mode) for name in os.listdir(desk.ws)}
        assert modes == {"s2": 0o400, "h2": 0, "shut": 0o555, "tight": 0o500, "new": 0o555, "blind": 0o300}
        no_traces(desk)
        desk.undo(effects.files)
    assert desk.see() == before


@both
def test_what_is_done_in_a_folder_that_was_closed_to_us_is_kept_aside(desk: Desk):
    desk.lay("mkdir d e; echo 1 >d/f; chmod 000 d e; echo 2 >g")
    with desk.ran("chmod 700 d e; echo 3 >d/f; echo 4 >g") as effects:
        if os.geteuid() == 0:
            assert desk.ways(effects) == {"d": "other", "d/f": "other", "e": "other", "g": "other"}
        else:
            assert desk.ways(effects) == {"e": "other", "g": "other"}
            (conflict,) = effects.conflicts
            assert conflict.path == str(desk.ws / "d")
            assert Path(conflict.kept_path, "f").read_text() == "3\n"
            assert conflict.kind == "closed"
        desk.commit(effects.files)
    assert (desk.ws / "g").read_text() == "4\n"


@both
def test_a_folder_that_was_closed_can_be_removed_and_comes_back(desk: Desk):
    desk.lay("mkdir d; echo 1 >d/f; chmod 000 d")
    with desk.ran("chmod 700 d; rm -r d; mkdir d") as effects:
        assert desk.ways(effects) == {"d": "other"}
        desk.commit(effects.files)
        assert os.listdir(desk.ws / "d") == []
        desk.undo(effects.files)
    assert stat.S_IMODE(os.stat(desk.ws / "d").st_mode) == 0
    (desk.ws / "d").chmod(0o700)
    assert (desk.ws / "d/f").read_text() == "1\n"


@both
def test_a_root_that_may_not_be_written_can_be_opened_and_closed_again(desk: Desk):
    desk.lay("echo 1 >f; chmod 555 .")
    before = desk.see()
    with desk.ran("chmod 755 .; rm f; echo 2 >g; chmod 555 .") as effects:
        assert desk.ways(effects) == {"f": "gone", "g": "new"}
        assert effects.notes == ()
        desk.commit(effects.files)
        assert os.listdir(desk.ws) == ["g"]
        assert stat.S_IMODE(os.stat(desk.ws).st_mode) == 0o555
        desk.undo(effects.files)
    assert desk.see() == before
    desk.ws.chmod(0o755)


@both
def test_a_mode_of_a_folder_that_stays_is_a_change_of_its_own(desk: Desk):
    desk.lay("mkdir -p d/e; echo 1 >d/e/f")
    before = desk.see()
    with desk.ran("chmod 750 d; chmod 2711 d/e; echo 2 >d/e/f") as effects:
        assert [(change.before, change.after) for change in effects.files[:2]] == [
            (DirectoryMetadata(0o755), DirectoryMetadata(0o750)),
            (DirectoryMetadata(0o755), DirectoryMetadata(0o2711)),
        ]
        desk.commit(effects.files)
        assert stat.S_IMODE(os.stat(desk.ws / "d" / "e").st_mode) == 0o2711
        desk.undo(effects.files)
    assert desk.see() == before


@both
def test_e14_attributes_of_a_folder_that_stays_are_a_change_of_its_own(desk: Desk):
    desk.lay("mkdir d")
    mark = 'python3 -c \'import os; os.setxattr("d", "user.mine", b"1")\''
    with desk.ran(mark) as effects:
        was, now = DirectoryMetadata(0o755, xattrs=()), DirectoryMetadata(0o755, xattrs=(("user.mine", b"1"),))
        assert effects.files == (FileChange(f"{desk.ws}/d", was, now),)
        assert effects.notes == ()
        desk.commit(effects.files)
        assert os.getxattr(desk.ws / "d", "user.mine") == b"1"
        desk.undo(effects.files)
    assert os.listxattr(desk.ws / "d") == []


@both
def test_e14_an_access_list_and_the_mode_that_it_brings_are_taken_over_and_back(desk: Desk):
    desk.lay("mkdir d; chmod 750 d; setfacl -d -m g::rx d")
    first = os.getxattr(desk.ws / "d", "system.posix_acl_default")
    with desk.ran("setfacl -m g::rwx,m::rwx d; setfacl -k d; chmod 2770 d") as effects:
        desk.commit(effects.files)
        assert os.listxattr(desk.ws / "d") == ["system.posix_acl_access"]
        assert stat.S_IMODE(os.stat(desk.ws / "d").st_mode) == 0o2770
        desk.undo(effects.files)
    assert stat.S_IMODE(os.stat(desk.ws / "d").st_mode) == 0o750
    assert {name: os.getxattr(desk.ws / "d", name) for name in os.listxattr(desk.ws / "d")} == {
        "system.posix_acl_default": first
    }


@both
def test_e14_what_somebody_else_made_of_a_folder_since_is_not_undone(desk: Desk):
    desk.lay("mkdir d")
    mark = 'python3 -c \'import os; os.setxattr("d", "user.mine", b"1")\''
    with desk.ran(mark) as effects:
        desk.commit(effects.files)
        os.setxattr(desk.ws / "d", "user.mine", b"theirs")
        with pytest.raises(Stale):
            desk.undo(effects.files)
    assert os.getxattr(desk.ws / "d", "user.mine") == b"theirs"


@both
def test_the_mode_of_the_root_itself_is_a_change_like_others(desk: Desk):
    desk.lay("echo 1 >f")
    with desk.ran("chmod 711 .; echo 2 >f") as effects:
        assert effects.files[0] == FileChange(str(desk.ws), DirectoryMetadata(0o755), DirectoryMetadata(0o711))
        desk.commit(effects.files)
        assert stat.S_IMODE(os.stat(desk.ws).st_mode) == 0o711
        desk.undo(effects.files)
    assert stat.S_IMODE(os.stat(desk.ws).st_mode) == 0o755
    assert (desk.ws / "f").read_text() == "1\n"


@both
def test_a_root_is_never_closed_so_that_it_can_be_opened_again(desk: Desk):
    desk.lay("mkdir d; echo 1 >d/f")
    before = desk.see()
    with desk.ran("chmod 644 d; chmod 644 .") as effects:
        assert [note.partition(":")[0] for note in effects.notes] == [str(desk.ws)]
        desk.commit(effects.files)
        assert stat.S_IMODE(os.stat(desk.ws / "d").st_mode) == 0o644
        desk.undo(effects.files)
    assert desk.see() == before


@both
def test_nothing_of_the_overlay_is_left_on_what_is_taken_over(desk: Desk):
    desk.lay("mkdir -p a/b c; echo 1 >a/f; echo 2 >a/b/g; echo 3 >c/h; ln -s x c/l; chmod 444 a/f")
    forge = "import os; [os.setxattr(n, 'user.overlay.' + k, b'y') for n in ('new', 'dir') for k in ('opaque', 'whiteout', 'mine')]"
    with desk.ran(
        f'mkdir dir; : >new; python3 -c "{forge}"; mv a/f dir/; mv a/b/g dir/g; chmod 444 dir/g; rm c/h c/l; mkdir c/h;'
        "rm -r a; mkdir -p a/b; echo 4 >a/b/g; rm a/b/g; mv dir dir2; echo 5 >>c/h/x; chmod 500 c/h"
    ) as effects:
        desk.commit(effects.files)
    no_traces(desk)
    assert sorted(os.listdir(desk.ws / "dir2")) == ["f", "g"]


def no_traces(desk: Desk) -> None:
    for folder, folders, files in os.walk(desk.place):
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            found = os.lstat(path)
            assert not stat.S_ISCHR(found.st_mode), path
            if not stat.S_ISLNK(found.st_mode):
                assert [each for each in os.listxattr(path) if each.startswith("user.overlay.")] == [], path


@both
def test_odd_names_are_names(desk: Desk):
    for name in ODD:
        (desk.ws / name).write_text("1")
    before = desk.see()
    with desk.ran(
        "for f in ./* ./.[!.]*; do echo 2 >>\"$f\"; done; mkdir $'d\\xff'; echo 1 >$'d\\xff/\\xfe'"
    ) as effects:
        assert desk.ways(effects) == dict.fromkeys(ODD, "other") | {os.fsdecode(b"d\xff"): "new"}
        desk.commit(effects.files)
        desk.undo(effects.files)
    assert desk.see() == before


@both
def test_trees_may_be_deeper_than_any_path_is_long(desk: Desk):
    deep = (
        "for ((i = 0; i < 300; i++)); do mkdir d_is_for_deep_and_longish; cd d_is_for_deep_and_longish; done; echo 1 >f"
    )
    desk.lay("mkdir gone")
    as_is = f"cd gone && {deep}"
    subprocess.run(["bash", "-c", as_is], cwd=desk.ws, check=True)
    with desk.ran(f"rm -r gone; mkdir new; cd new; {deep}; chmod 0 f .") as effects:
        entries = {way: side.entry_count for way, side in desk.things(effects).items()}
        assert entries == {"gone": 302, "new": 302 if os.geteuid() == 0 else 301}
        desk.commit(effects.files)
        desk.undo(effects.files)


@both
def test_protected_places_are_named_also_inside_trees_that_come_or_go(desk: Desk):
    desk.lay("mkdir -p git/hooks other; echo 1 >git/hooks/old; echo 2 >git/x; mkdir -p same/hooks")
    asked: list[str] = []

    def protected(path: str) -> bool:
        asked.append(path)
        return "/hooks" in path

    with desk.ran(
        "rm -r git; mkdir -p new/hooks; echo 1 >new/hooks/h; chmod 700 same/hooks", protected=protected
    ) as effects:
        assert [os.path.relpath(path, desk.ws) for path in effects.protected] == [
            *("git/hooks", "git/hooks/old", "new/hooks", "new/hooks/h", "same/hooks")
        ]
        assert str(desk.ws / "git/x") in asked


@both
def test_a_layer_whose_content_is_elsewhere_is_refused(desk: Desk):
    desk.lay("echo 1 >f; mkdir d")
    for name, mark in (("f", "metacopy"), ("d", "redirect")):
        shadow = desk.shadow()
        upper = Path(shadow.mounts[0].upper)
        (upper / "d").mkdir()
        (upper / "f").write_text("")
        os.setxattr(upper / name, f"user.overlay.{mark}", b"")
        with pytest.raises(SystemFailure):
            shadow.collect_effects(lambda _: False)
        shadow.discard()


@both
def test_a_deletion_may_be_noted_by_an_attribute(desk: Desk):
    """As in layers that were created inside another overlay."""
    desk.lay("echo 1 >f; mkdir d")
    shadow = desk.shadow()
    upper = Path(shadow.mounts[0].upper)
    (upper / "new").mkdir()
    for name in ("f", "new/stray", "none"):
        (upper / name).write_text("")
        os.setxattr(upper / name, "user.overlay.whiteout", b"")
    effects = shadow.collect_effects(lambda _: False)
    assert desk.ways(effects) == {"f": "gone", "new": "new"}
    assert desk.things(effects)["new"].entry_count == 1
    desk.commit(effects.files)
    shadow.discard()
    assert os.listdir(desk.ws / "new") == []


@both
def test_e12_folders_get_the_times_that_the_command_gave_them(desk: Desk):
    desk.lay("mkdir -p a/b/c d; echo 1 >a/b/f")
    before = desk.see()
    with desk.ran(
        "echo 2 >a/b/c/g; rm a/b/f; touch -d @1500000000 a; touch -d @1400000000.5 a/b; touch -d @1300000000 d"
    ) as effects:
        inside = {os.path.relpath(time.path, desk.ws): time.after for time in effects.folder_mtimes}
        desk.commit(effects.files, effects.folder_mtimes)
    assert {way: os.stat(desk.ws / way).st_mtime_ns for way in inside} == inside
    assert inside["a/b"] == 1_400_000_000_500_000_000
    assert inside.keys() == {"a", "a/b", "a/b/c", "d"}
    desk.undo(effects.files)
    assert desk.see() == before
    desk.commit(effects.files)
    assert {way: os.stat(desk.ws / way).st_mtime_ns for way in inside} == inside


@both
def test_e12_of_two_times_the_later_one_stays(desk: Desk):
    desk.lay("mkdir -p theirs ours; echo 1 >ours/f")
    later = 4_000_000_000_000_000_000

    def meanwhile() -> None:
        (desk.ws / "theirs" / "new").write_text("a person's")
        os.utime(desk.ws / "theirs", ns=(later, later))
        (desk.ws / "ours" / "new").write_text("a person's")

    script = "touch theirs/by_command; echo 2 >ours/f; touch -d @4100000000 ours"
    with desk.ran(script, meanwhile=meanwhile) as effects:
        assert not effects.conflicts
        desk.commit(effects.files, effects.folder_mtimes)
    assert os.stat(desk.ws / "theirs").st_mtime_ns == later
    assert os.stat(desk.ws / "ours").st_mtime == 4_100_000_000
    desk.undo(effects.files)
    assert os.stat(desk.ws / "theirs").st_mtime_ns == later


@both
def test_e12_a_folder_that_went_away_meanwhile_is_no_failure(desk: Desk):
    desk.lay("mkdir -p d/touched; echo 1 >f")
    with desk.ran("echo 2 >f; touch d/touched") as effects:
        os.rmdir(desk.ws / "d" / "touched")
        os.rmdir(desk.ws / "d")
        desk.commit(effects.files, effects.folder_mtimes)
    assert (desk.ws / "f").read_text() == "2\n"
    (desk.ws / "d").write_text("a file now")
    desk.undo(effects.files)
    assert (desk.ws / "f").read_text() == "1\n"
