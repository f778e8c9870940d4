"""What somebody else changed while a command ran stays, and the command's version is kept."""

import os
from collections.abc import Callable
from pathlib import Path

from handhold.backends.shell.layer_extraction import MAX_ASIDE_COMMANDS
from tests.backends.shell.shadows import OLD, Desk, both, seen

LAID = (
    "mkdir -p d/sub e/sub other; echo 1 >f; echo 2 >g; echo 3 >d/a; echo 4 >d/sub/b; echo 5 >e/c; echo 6 >e/sub/c;"
    "echo 7 >other/a; ln -s f l"
)


def conflicts(desk: Desk, script: str, meanwhile: Callable[[Path], object], *expected: str) -> dict[str, str]:
    """Run it on an overlay: exactly these paths conflict, and the other side wins. Returns the kept files by path."""
    desk.lay(LAID)
    seen_theirs = {}

    def others() -> None:
        meanwhile(desk.ws)
        seen_theirs.update(seen(desk.ws))

    with desk.ran(script, meanwhile=others) as effects:
        found = {os.path.relpath(each.path, desk.ws): each.kept_path for each in effects.conflicts}
        assert all(bool(each.kept_path) == (each.kind == "changed") for each in effects.conflicts)
        assert sorted(found) == sorted(expected)
        desk.commit(effects.files)
        now = seen(desk.ws)
        for way in expected:
            assert now.get(way, ())[:5] == seen_theirs.get(way, ())[:5], way
        return found


def text(path: Path, words: str = "theirs\n") -> None:
    path.write_text(words)


def over(path: Path) -> None:
    """Another file in its place, with the same time."""
    new = path.with_name("new")
    text(new)
    os.utime(new, ns=(OLD, OLD))
    os.rename(new, path)


def again(path: Path) -> None:
    path.unlink()
    text(path)


@both
def test_a_file_that_was_edited_in_place(desk: Desk):
    kept = conflicts(desk, "echo ours >>f; echo fine >g", lambda ws: text(ws / "f"), "f")
    assert Path(kept["f"]).read_text() == "1\nours\n"
    assert (desk.ws / "g").read_text() == "fine\n"


@both
def test_a_file_that_was_replaced_by_one_as_old(desk: Desk):
    conflicts(desk, "echo ours >>f", lambda ws: over(ws / "f"), "f")


@both
def test_a_file_that_was_deleted(desk: Desk):
    kept = conflicts(desk, "echo ours >>d/a", lambda ws: (ws / "d/a").unlink(), "d/a")
    assert Path(kept["d/a"]).read_text() == "3\nours\n"


@both
def test_a_file_that_was_deleted_and_made_again(desk: Desk):
    conflicts(desk, "echo ours >>f", lambda ws: again(ws / "f"), "f")


@both
def test_a_file_whose_mode_was_changed(desk: Desk):
    conflicts(desk, "echo ours >>f", lambda ws: (ws / "f").chmod(0o600), "f")


@both
def test_a_file_that_was_written_through_another_name_of_it(desk: Desk):
    os.mkdir(desk.place / "elsewhere")

    def through(ws: Path) -> None:
        os.link(ws / "f", desk.place / "elsewhere" / "name")
        text(desk.place / "elsewhere" / "name")

    conflicts(desk, "echo ours >>f", through, "f")


@both
def test_a_deleted_file_that_was_edited(desk: Desk):
    kept = conflicts(desk, "rm f g", lambda ws: text(ws / "f"), "f")
    assert kept == {"f": ""}
    assert not (desk.ws / "g").exists()


@both
def test_a_deleted_file_that_was_deleted_and_made_again(desk: Desk):
    conflicts(desk, "rm f", lambda ws: again(ws / "f"), "f")


@both
def test_a_file_that_both_deleted_is_no_conflict(desk: Desk):
    conflicts(desk, "rm f", lambda ws: (ws / "f").unlink())


@both
def test_a_moved_file_whose_original_was_edited(desk: Desk):
    conflicts(desk, "mv d/a e/a", lambda ws: text(ws / "d/a"), "d/a")
    assert (desk.ws / "e/a").read_text() == "3\n"


@both
def test_a_new_file_or_link_where_somebody_else_made_one(desk: Desk):
    kept = conflicts(
        desk, "echo ours >new; ln -s ours link", lambda ws: (text(ws / "new"), text(ws / "link")), "new", "link"
    )
    assert Path(kept["new"]).read_text() == "ours\n"
    assert os.readlink(kept["link"]) == "ours"


@both
def test_a_new_folder_where_somebody_else_made_one_adds_to_theirs(desk: Desk):
    def made(ws: Path) -> None:
        (ws / "tree").mkdir()
        text(ws / "tree/x")
        text(ws / "tree/y")

    conflicts(desk, "mkdir tree; echo ours >tree/x; echo ours >tree/z", made, "tree/x")
    texts = {name: (desk.ws / "tree" / name).read_text() for name in "xyz"}
    assert texts == {"x": "theirs\n", "y": "theirs\n", "z": "ours\n"}


@both
def test_a_link_that_was_replaced(desk: Desk):
    def relinked(ws: Path) -> None:
        (ws / "l").unlink()
        os.symlink("g", ws / "l")

    kept = conflicts(desk, "ln -sfn d l", relinked, "l")
    assert os.readlink(kept["l"]) == "d"


@both
def test_a_deleted_folder_in_which_something_was_edited(desk: Desk):
    conflicts(desk, "rm -r d", lambda ws: text(ws / "d/sub/b"), "d")


@both
def test_a_deleted_folder_in_which_something_was_made_or_deleted(desk: Desk):
    conflicts(desk, "rm -r d e", lambda ws: (text(ws / "d/sub/new"), (ws / "e/c").unlink()), "d", "e")


@both
def test_a_folder_made_anew_in_whose_old_one_something_was_edited(desk: Desk):
    kept = conflicts(desk, "rm -r d; mkdir d; echo ours >d/n", lambda ws: text(ws / "d/sub/b"), "d")
    assert os.listdir(kept["d"]) == ["n"]
    assert (desk.ws / "d/a").read_text() == "3\n"


@both
def test_a_folder_in_place_of_a_file_that_was_edited_and_the_reverse(desk: Desk):
    script = "rm f; mkdir f; echo x >f/x; rm -r d; echo y >d"
    conflicts(desk, script, lambda ws: (text(ws / "f"), text(ws / "d/a")), "f", "d")


@both
def test_a_folder_that_was_deleted_while_the_command_worked_in_it(desk: Desk):
    def gone(ws: Path) -> None:
        os.unlink(ws / "e/sub/c")
        os.rmdir(ws / "e/sub")

    kept = conflicts(desk, "echo ours >e/sub/new; rm e/sub/c; echo fine >e/c", gone, "e/sub")
    assert os.listdir(kept["e/sub"]) == ["new"]
    assert (desk.ws / "e/c").read_text() == "fine\n"


@both
def test_a_folder_that_became_a_file(desk: Desk):
    def filed(ws: Path) -> None:
        os.rename(ws / "e", ws / "elsewhere")
        text(ws / "e")

    conflicts(desk, "echo ours >>e/c", filed, "e")


@both
def test_a_folder_in_whose_place_another_was_put(desk: Desk):
    def swapped(ws: Path) -> None:
        os.rename(ws / "d", ws / "old")
        os.rename(ws / "other", ws / "d")

    kept = conflicts(desk, "echo ours >>d/a", swapped, "d")
    assert Path(kept["d"], "a").read_text() == "3\nours\n"
    assert (desk.ws / "d/a").read_text() == "7\n"


@both
def test_a_mode_of_a_folder_that_both_changed(desk: Desk):
    conflicts(desk, "chmod 700 d; echo ours >d/a", lambda ws: (ws / "d").chmod(0o711), "d")
    assert (desk.ws / "d/a").read_text() == "ours\n"


@both
def test_changes_beside_those_of_the_command_are_no_conflicts(desk: Desk):
    def beside(ws: Path) -> None:
        text(ws / "d/new")
        text(ws / "d/sub/b")
        (ws / "e/c").unlink()
        text(ws / "g")

    conflicts(desk, "echo ours >d/a; echo ours >f; echo ours >e/mine; rm e/sub/c", beside)
    assert (desk.ws / "d/a").read_text() == "ours\n"
    assert (desk.ws / "d/sub/b").read_text() == "theirs\n"
    assert (desk.ws / "e/mine").read_text() == "ours\n"
    assert not (desk.ws / "e/c").exists()


@both
def test_e17_a_file_moved_beside_something_that_changed(desk: Desk):
    conflicts(desk, "mv f d/f; mv d/a d/b; mv e/sub/c d/c; rm -r e/sub", lambda ws: text(ws / "d/new"))
    assert [(desk.ws / "d" / name).read_text() for name in ("f", "b", "c", "new")] == ["1\n", "3\n", "6\n", "theirs\n"]
    assert not (desk.ws / "f").exists()
    assert not (desk.ws / "d/a").exists()


@both
def test_e17_a_file_that_was_deleted_beside_one_that_was_moved(desk: Desk):
    """The file that the command changed in place was deleted by the other side; the moved one is its own."""
    kept = conflicts(desk, "echo ours >>d/a; mv f d/f", lambda ws: (ws / "d/a").unlink(), "d/a")
    assert Path(kept["d/a"]).read_text() == "3\nours\n"
    assert (desk.ws / "d/f").read_text() == "1\n"


@both
def test_e17_a_moved_file_whose_original_was_deleted_too_is_kept_to_be_safe(desk: Desk):
    """Whether the other side moved or deleted it is unknown, so nothing is dropped."""
    kept = conflicts(desk, "mv f d/f", lambda ws: ((ws / "f").unlink(), text(ws / "d/new")), "d/f")
    assert Path(kept["d/f"]).read_text() == "1\n"


@both
def test_what_was_kept_bears_no_trace_of_the_overlay(desk: Desk):
    kept = conflicts(desk, "rm -r d; mkdir d; mv e/c d/c; chmod 400 d/c; chmod 500 d", lambda ws: text(ws / "d/a"), "d")
    assert os.listxattr(kept["d"]) == []
    assert os.listxattr(os.path.join(kept["d"], "c")) == []


@both
def test_of_two_commands_at_once_the_second_yields_where_both_wrote(desk: Desk):
    desk.lay(LAID)
    one, two = desk.shadow(), desk.shadow()
    assert desk.bash(one, "echo one >f; echo one >g; mkdir new; echo one >new/x").returncode == 0
    assert desk.bash(two, "echo two >f; echo two >d/a; mkdir new; echo two >new/x; cat g >seen").returncode == 0
    desk.commit(one.collect_effects(lambda _: False).files)
    effects = two.collect_effects(lambda _: False)
    desk.commit(effects.files)
    assert [os.path.relpath(each.path, desk.ws) for each in effects.conflicts] == ["f", "new/x"]
    assert (desk.ws / "f").read_text() == "one\n"
    assert (desk.ws / "new/x").read_text() == "one\n"
    assert (desk.ws / "d/a").read_text() == "two\n"
    assert (desk.ws / "seen").read_text() == "2\n"
    one.discard()
    two.discard()


@both
def test_what_was_committed_a_moment_ago_is_no_conflict(desk: Desk):
    desk.lay(LAID)
    for number in range(25):
        text(desk.ws / "g", str(number))
        with desk.ran("echo more >>f; echo more >>g; rm -rf d; mkdir -p d/sub; echo 1 >d/sub/b") as effects:
            assert effects.conflicts == ()
            desk.commit(effects.files)
    assert len((desk.ws / "f").read_text().splitlines()) == 26


@both
def test_what_is_protected_in_a_conflict_is_not_asked_about(desk: Desk):
    desk.lay("mkdir -p d/hooks e; echo 1 >d/hooks/h")

    def theirs() -> None:
        text(desk.ws / "d/hooks/h")

    with desk.ran("rm -r d; mkdir e/hooks", meanwhile=theirs, protected=lambda path: "hooks" in path) as effects:
        assert [each.path for each in effects.conflicts] == [str(desk.ws / "d")]
        assert effects.protected == (str(desk.ws / "e/hooks"),)


@both
def test_versions_are_kept_of_the_last_commands_only(desk: Desk):
    desk.lay("echo 1 >f")
    kept: list[str] = []
    for number in range(MAX_ASIDE_COMMANDS + 3):
        with desk.ran(f"echo {number} >f", meanwhile=lambda: text(desk.ws / "f")) as effects:
            kept += [each.kept_path for each in effects.conflicts]
    assert [os.path.exists(each) for each in kept] == [False] * 3 + [True] * MAX_ASIDE_COMMANDS
    assert Path(kept[-1]).read_text() == f"{MAX_ASIDE_COMMANDS + 2}\n"
