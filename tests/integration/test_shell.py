"""Commands on the road: they are looked at when they have ended, taken over as a whole, and taken back."""

import asyncio
import os
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from handhold import OutputChunk, Question, Reply, Rule, Target, Toolbox
from handhold.core.ports.policy import Decision, Verb, Verdict
from tests.backends.shell.forked import as_user
from tests.backends.shell.shadows import Facts, seen
from tests.scale import examples
from tests.suites.held_by import HeldBy, held_by  # noqa: F401 — a fixture
from tests.suites.policies import OnPlaces

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.usefixtures("held_by"),
]

OLD = 1_600_000_000_000_000_000  # a time that nothing gets by itself
GIT = "git -c user.name=a -c user.email=a@b -c init.defaultBranch=main"


@dataclass
class Desk:
    """A workspace, and a toolbox on it."""

    place: Path
    box: Toolbox

    @property
    def ws(self) -> Path:
        return self.place / "ws"

    def lay(self, script: str) -> None:
        """Make what is there before, all of it long ago."""
        subprocess.run(["bash", "-ec", script], cwd=self.ws, check=True, capture_output=True)
        for folder, _, files in os.walk(self.ws):
            for path in (folder, *(os.path.join(folder, name) for name in files)):
                os.utime(path, ns=(OLD, OLD), follow_symlinks=False)

    def bash(self, command: str, **arguments: Any) -> Reply:
        ids = {name: arguments.pop(name) for name in ("call_id", "turn") if name in arguments}
        return self.box.call("bash", {"command": command, **arguments}, **ids)

    def done(self, command: str, **arguments: Any) -> Reply:
        reply = self.bash(command, **arguments)
        assert reply.status == "success", reply.text
        assert reply.data["exit_status"] == 0, reply.text
        return reply

    def tool(self, name: str, **arguments: Any) -> Reply:
        return self.box.call(name, arguments)

    def see(self) -> Facts:
        return seen(self.ws)

    def text(self, name: str) -> str:
        return (self.ws / name).read_text()


def sat_at(place: Path, **options: Any) -> Desk:
    """Without anybody to ask, all that the sandbox allows: what asks beforehand has tests of its own."""
    (place / "ws").mkdir(exist_ok=True)
    if "approver" not in options:
        options = {"policy": "open"} | options
    return Desk(place, Toolbox.open(place / "ws", state=place / "state", session="s", **options))


@pytest.fixture
def desk(tmp_path: Path):
    desk = sat_at(tmp_path)
    with desk.box:
        yield desk


def both(test: Callable[[Desk], None]) -> Callable[..., None]:
    """As root and as a plain user."""

    def wrapped(who: str, place: Path) -> None:
        def work() -> None:
            desk = sat_at(place)
            with desk.box:
                test(desk)

        as_user(who, work)

    wrapped.__name__, wrapped.__doc__, wrapped.__module__ = test.__name__, test.__doc__, test.__module__
    return wrapped


def back_and_forth(desk: Desk, before: Facts, after: Facts) -> None:
    """Taken back, done again and taken back once more: each time exactly."""
    for verb, wanted in (("undo", before), ("redo", after), ("undo", before)):
        reply = getattr(desk.box, verb)(keep_times=True)
        assert reply.status == "success", reply.text
        assert desk.see() == wanted, verb


# --- taking back


@both
def test_u7_after_rm_rf_undo_restores_untracked_binary_linked_and_read_only_files(desk: Desk):
    desk.lay(
        f"""
        {GIT} init -q . && mkdir -p dir/deep dir/shut && echo tracked >dir/t && {GIT} add . && {GIT} commit -qm 1
        echo untracked >dir/u; head -c 100000 /dev/urandom >dir/deep/binary; ln -s u dir/link; ln -s nowhere dir/dangling
        ln dir/u dir/twin; echo locked >dir/shut/locked; chmod 400 dir/shut/locked; chmod 555 dir/shut
        echo run >dir/run; chmod 755 dir/run; mkdir dir/empty; mkfifo dir/pipe; printf 'x' >"dir/odd
name"
        """
    )
    before = desk.see()
    desk.done("chmod -R u+w dir && rm -rf dir")
    after = desk.see()
    assert not any(way == "dir" or way.startswith("dir/") for way in after)
    back_and_forth(desk, before, after)
    subprocess.run(["git", "fsck", "--strict"], cwd=desk.ws, check=True, capture_output=True)


@both
def test_u8_a_folder_without_git_previews_undoes_and_redoes(desk: Desk):
    desk.lay("mkdir src; echo 1 >src/a; echo 2 >src/b")
    before = desk.see()
    preview = desk.done("rm src/a; echo 3 >src/b; echo new >src/c", preview=True)
    assert desk.see() == before
    assert preview.data["preview"] is True
    assert "-2\n+3" in preview.ui_extra
    assert {each["verb"]: each["path"] for each in preview.data["files"]} == {
        "deleted": "src/a",
        "changed": "src/b",
        "created": "src/c",
    }
    desk.done("rm src/a; echo 3 >src/b; echo new >src/c")
    after = desk.see()
    assert "-3\n+2" in desk.box.undo(keep_times=True, preview=True).ui_extra
    assert desk.see() == after
    back_and_forth(desk, before, after)


def test_u8_a_conflict_is_kept_and_never_overwritten(desk: Desk, held_by: HeldBy):  # noqa: F811
    desk.lay("echo 1 >a; echo 1 >b")
    sleeps = f"sleep 97.{os.getpid()}4"

    def by_hand() -> None:
        while not still_there(sleeps):
            time.sleep(0.05)
        by = desk.ws / "by"  # another inode: with the broker, what others write into the same one is the command's
        (by if held_by == "broker" else desk.ws / "a").write_text("by hand\n")
        if held_by == "broker":
            by.rename(desk.ws / "a")
        wake(sleeps)

    hand = threading.Thread(target=by_hand)
    hand.start()
    held = desk.bash(f"echo cmd >a; echo cmd >b; {sleeps}")
    hand.join()
    assert (desk.text("a"), desk.text("b")) == ("by hand\n", "cmd\n")
    assert held.status == "partial"
    [conflict] = held.data["conflicts"]
    assert conflict["path"] == "a"
    if held_by == "overlay":  # without one, theirs has replaced the command's version
        assert "cmd" in desk.tool("read_file", path=conflict["kept"]).text
    assert conflict["clash"] == "changed"
    assert desk.box.undo(keep_times=True).status == "success"
    assert (desk.text("a"), desk.text("b")) == ("by hand\n", "1\n")


def test_a_folder_that_comes_or_goes_whole_is_shown_file_by_file(desk: Desk):
    desk.lay("mkdir -p old/deep; echo gone >old/deep/f")
    reply = desk.done(
        "rm -r old; mkdir -p new/deep; echo came >new/deep/f; ln -s f new/deep/l; head -c 99 /dev/zero >new/b"
    )
    for line in (
        "-gone",
        "+++ b/new/deep/f",
        "+came",
        "[new/deep/l: nothing -> a link to f]",
        "[new/b: nothing -> binary",
    ):
        assert line in reply.ui_extra
    assert "+gone" in desk.box.undo(keep_times=True).ui_extra
    for n in range(3):
        desk.done(f"mkdir many{n}; cd many{n}; seq 1000 | xargs touch")
    assert "[800 more entries of many2 are not shown]" in desk.box.diff()


@both
def test_u7_folders_that_are_closed_come_and_go_whole(desk: Desk):
    desk.lay("mkdir shut")
    (desk.ws / "shut").chmod(0)
    before = desk.see()
    desk.done("chmod 700 shut; rmdir shut; mkdir new; touch new/f; chmod 0 new")
    back_and_forth(desk, before, desk.see())


@both
def test_sed_over_500_files_is_taken_back(desk: Desk):
    desk.lay("for n in $(seq 500); do printf 'one\\ntwo %s\\n' $n >f$n; done; chmod 600 f7; chmod 755 f8")
    before = desk.see()
    reply = desk.done("sed -i s/two/three/ f*")
    assert reply.data["totals"] == {"changed": 500}
    assert len(reply.data["files"]) == 100
    back_and_forth(desk, before, desk.see())


@both
def test_a_git_checkout_is_taken_back_and_git_stays_consistent(desk: Desk):
    desk.lay(
        f"""
        {GIT} init -q . && mkdir lib && echo 1 >a && echo 1 >lib/b && {GIT} add . && {GIT} commit -qm one
        {GIT} checkout -q -b other && echo 2 >a && {GIT} rm -q lib/b && mkdir new && echo n >new/n && {GIT} add .
        {GIT} commit -qm two && {GIT} checkout -q main
        """
    )
    before = desk.see()
    desk.done(f"{GIT} checkout -q other")
    assert desk.text("a") == "2\n"
    back_and_forth(desk, before, desk.see())
    for command in (["git", "fsck", "--strict"], ["git", "diff", "--exit-code"]):
        subprocess.run(["git", "update-index", "-q", "--refresh"], cwd=desk.ws, check=False)
        subprocess.run(command, cwd=desk.ws, check=True, capture_output=True)


@both
def test_c81_a_failed_build_is_a_result_whose_traces_count_and_can_be_taken_back(desk: Desk):
    desk.lay(
        "printf 'all:\\n\\tmkdir -p out && echo made >out/o && echo log >>log && false\\n' >Makefile; echo old >log"
    )
    before = desk.see()
    reply = desk.bash("make")
    assert (reply.status, reply.data["exit_status"], reply.code) == ("success", 2, None)
    assert "Exit status 2" in reply.text
    assert desk.text("out/o") == "made\n"
    back_and_forth(desk, before, desk.see())


def test_c80_what_a_command_did_until_its_time_ran_out_counts_and_can_be_taken_back(desk: Desk):
    reply = desk.bash("echo half >half; sleep 60", timeout=2)
    assert (reply.status, reply.data["timed_out"]) == ("partial", True)
    assert (reply.data["counts"], reply.data["undo"]) == ("all", "all")
    assert desk.text("half") == "half\n"
    assert desk.box.undo(keep_times=True).status == "success"
    assert desk.see() == {}


def test_c92_an_edit_after_a_command_and_then_the_command_are_taken_back(desk: Desk):
    desk.lay("echo one >a.py")
    before = desk.see()
    desk.tool("read_file", path="a.py")
    desk.done("sed -i s/one/two/ a.py; chmod 755 a.py")
    assert desk.tool("edit_file", path="a.py", old_string="two", new_string="three").status == "success"
    assert desk.text("a.py") == "three\n"
    assert desk.box.undo(keep_times=True).status == "success"
    assert desk.text("a.py") == "two\n"
    assert desk.box.undo(keep_times=True).status == "success"
    assert desk.see() == before


def test_c92_a_session_with_commands_is_taken_back_and_done_again_as_one(desk: Desk):
    desk.lay("echo 1 >a; mkdir d; echo 1 >d/x")
    before = _plain(desk)
    desk.tool("read_file", path="a")
    desk.tool("edit_file", path="a", old_string="1", new_string="2")
    desk.tool("write_file", path="new/w", content="w\n")
    desk.done("echo 3 >a; rm -r d; mv new moved")
    desk.tool("write_file", path="d/y", content="y\n")
    desk.done("echo 4 >>a; echo z >>d/y")
    after = _plain(desk)
    preview = desk.box.undo(Target.session(), keep_times=True, preview=True)
    assert len(preview.data["calls"]) == 5
    assert _plain(desk) == after
    reply = desk.box.undo(Target.session(), keep_times=True)
    assert reply.status == "success", reply.text
    assert _plain(desk) == before
    reply = desk.box.redo(keep_times=True)
    assert reply.status == "success", reply.text
    assert _plain(desk) == after
    assert desk.box.undo(Target.session(), keep_times=True).status == "success"
    assert _plain(desk) == before
    assert desk.box.redo(Target.session(), keep_times=True).status == "success"
    assert _plain(desk) == after


def _plain(desk: Desk) -> Facts:
    """Without times: a file that is written back is written now."""
    return seen(desk.ws, times=False)


def test_c92_a_file_that_came_back_after_its_folder_went_is_done_again(desk: Desk):
    desk.lay("mkdir d; echo 1 >d/f")
    before = desk.see()
    desk.done("echo 2 >d/f")
    desk.done("rm -r d")
    assert desk.tool("write_file", path="d/f", content="3\n").status == "success"
    assert desk.box.undo(Target.session(), keep_times=True).status == "success"
    assert desk.see() == before
    reply = desk.box.redo(Target.session(), keep_times=True)
    assert reply.status == "success", reply.text
    assert desk.text("d/f") == "3\n"


def test_c92_taking_back_a_command_is_refused_where_it_would_lose_a_later_change(desk: Desk):
    desk.lay("echo 1 >a; echo 1 >b")
    desk.done("echo 2 >a; echo 2 >b", call_id="c")
    (desk.ws / "b").write_text("by hand\n")
    reply = desk.box.undo(keep_times=True)
    assert (reply.code, reply.data["paths"]) == ("UNDO_CONFLICT", [str(desk.ws / "b")])
    assert (desk.text("a"), desk.text("b")) == ("2\n", "by hand\n")


def test_c92_a_turn_that_cannot_be_taken_back_as_a_whole_is_not_begun(desk: Desk):
    desk.lay("echo 1 >a; echo 1 >b")
    desk.done("echo 2 >a", turn="t")
    desk.done("echo 2 >b", turn="t")
    (desk.ws / "a").write_text("by hand\n")
    assert desk.box.undo(Target.turn("t"), keep_times=True).code == "UNDO_CONFLICT"
    assert (desk.text("a"), desk.text("b")) == ("by hand\n", "2\n")


def test_c92_a_step_that_fails_half_way_says_what_was_taken_back_and_what_was_not(desk: Desk):
    desk.done("mkdir d; echo 1 >d/x", call_id="one", turn="t")
    desk.done("echo 2 >d/x", call_id="two", turn="t")
    # Whether the folder is as it was made is known only after the first step.
    (desk.ws / "d" / "y").write_text("by hand\n")
    reply = desk.box.undo(Target.turn("t"), keep_times=True)
    assert (reply.status, reply.code) == ("error", "UNDONE_PARTLY")
    assert (reply.data["done"], reply.data["left"], reply.data["paths"]) == (["two"], ["one"], [str(desk.ws / "d")])
    assert (desk.text("d/x"), desk.text("d/y")) == ("1\n", "by hand\n")
    assert [entry.undone for entry in desk.box.log()][:2] == [False, True]
    assert desk.box.redo(keep_times=True).status == "success"
    assert desk.text("d/x") == "2\n"


def test_nasties_19_to_21_a_command_on_strange_names_is_told_by_how_they_are_shown_and_taken_back(desk: Desk):
    """Among them one with a line break, and one that is written as the other is shown."""
    desk.lay(
        r"""for name in $'a\nb' 'a\nb' $'\xff\xfe.txt' $'ev\xe2\x80\xaetxt' 'C:\new'; do echo "of old" >"$name"; done"""
    )
    before = desk.see()
    reply = desk.done(r"""rm 'a\nb'; for name in *; do echo more >>"$name"; done; mkdir 'q\n'; echo x >'q\n/z\\t'""")
    after = desk.see()
    assert {each["path"]: each["verb"] for each in reply.data["files"]} == {
        r"a\nb": "changed",
        r"a\\nb": "deleted",
        r"\xff\xfe.txt": "changed",
        r"ev\u202etxt": "changed",
        r"C:\\new": "changed",
        r"q\\n": "created",
    }
    for shown in (r"a\nb", r"\xff\xfe.txt", r"ev\u202etxt", r"C:\\new"):
        assert shown in reply.text
        assert desk.tool("read_file", path=shown).text == "     1→of old\n     2→more"
    assert desk.tool("read_file", path=r"q\\n/z\\\\t").text == "     1→x"
    back_and_forth(desk, before, after)
    assert desk.box.redo(keep_times=True).status == "success"
    desk.done(r"""rm -r 'q\n' $'a\nb'; mv $'\xff\xfe.txt' $'\xfe'""")
    last = desk.see()
    for verb, wanted in (("undo", before), ("redo", last), ("undo", before)):
        taken = getattr(desk.box, verb)(Target.session(), keep_times=True)
        assert taken.status == "success", taken.text
        assert desk.see() == wanted


# --- before it counts


class Denying(OnPlaces):
    """Everything is allowed, except below some places."""

    name = "denying"

    def __init__(self, *places: str) -> None:
        self.places = places

    def decide(self, verb: Verb, target: str) -> Decision:
        if verb is not Verb.READ and any(place in target for place in self.places):
            return Decision(Verdict.DENY, "it belongs to somebody else")
        return Decision(Verdict.ALLOW, "free")


@pytest.mark.parametrize("command", ["echo x >theirs", "mkdir -p new/deep; echo x >new/deep/theirs", "rm -rf old"])
def test_a_denied_path_makes_nothing_of_the_command_count(tmp_path: Path, command: str):
    desk = sat_at(tmp_path, policy=Denying("theirs"))
    desk.lay("mkdir old; echo x >old/theirs; echo x >mine")
    before = desk.see()
    with desk.box:
        reply = desk.bash(f"echo printed; echo y >mine; {command}")
    assert (reply.status, reply.code) == ("error", "DENIED")
    assert desk.see() == before
    assert "printed" in reply.text
    assert reply.data["counts"] == "nothing"
    assert reply.data["path"].endswith(("theirs", "old"))


WAYS_TO_DENIED = [
    "echo x >gen/a",
    "echo x >>gen/a",
    "truncate -s 0 gen/a",
    "rm gen/a",
    "mv gen/a gen/b",
    "mv gen other",
    "cp mine new.lock",
    "mv mine new.lock",
    "ln mine new.lock",
    "mkdir new.lock",
    "mkdir d && touch d/a.lock",
    "chmod 600 gen/a",
    "touch gen/a",
]
GENERATED = Rule(
    "generated",
    "deny",
    ["change", "create", "delete"],
    "generated",
    covers=["gen/a", "x.lock"],
    does_not_cover=["a"],
    paths=["gen/**", "*.lock"],
)


@pytest.mark.parametrize("command", WAYS_TO_DENIED)
def test_a_denied_name_is_refused_before_anything_happens(tmp_path: Path, command: str, held_by: HeldBy):  # noqa: F811
    """With the broker the command itself is told; on an overlay nobody else sees what it does."""
    desk = sat_at(tmp_path, rules=[GENERATED])
    desk.lay("mkdir gen; echo x >gen/a; echo x >mine")
    before = desk.see()
    with desk.box:
        reply = desk.bash(f"({command}) && echo was changed; find . -name '*.lock'; stat -c %a-%s-%Y gen/a")
        assert desk.see() == before
        if not (held_by == "overlay" and command == "touch gen/a"):  # whose content is the same
            assert (reply.status, reply.code) == ("error", "DENIED")
        if held_by == "broker":
            assert "denied" in reply.text
            assert "was changed" not in reply.text
            assert "new.lock\n" not in reply.text.replace("'new.lock'", "")
            assert f"{before['gen/a'][1]:o}-2-{OLD // 10**9}" in reply.text
        assert desk.done("echo y >mine").status == "success"


PROTECTED = [
    "mkdir -p .git/hooks && echo x >.git/hooks/pre-commit",
    "git init -q . && echo x >.git/commondir",
    "mkdir -p a/b/.vscode && echo '{}' >a/b/.vscode/tasks.json",
    "echo x >.envrc",
    "ln -s /tmp/evil .husky",
    "mkdir .Claude",
    "echo '{}' >.mcp.json",
]


@pytest.mark.parametrize("command", PROTECTED)
def test_a_protected_name_does_not_count_without_a_question(tmp_path: Path, command: str):
    """Even in `open`, where nothing is asked beforehand."""
    desk = sat_at(tmp_path, policy="open")
    with desk.box:
        reply = desk.bash(f"echo printed; echo x >beside; {command}")
        assert (reply.status, reply.code, reply.data["asked"]) == ("error", "NOT_APPROVED", False)
        assert desk.see() == {}
        assert "printed" in reply.text
        assert reply.data["counts"] == "nothing"
        assert desk.box.undo(keep_times=True).code == "NOTHING_TO_UNDO"


@pytest.mark.parametrize("answer", [True, False])
def test_somebody_who_can_be_asked_about_a_protected_name_is_shown_the_change(tmp_path: Path, answer: bool):
    """Before it runs, since its words tell; and with the change itself, before it counts."""
    asked: list[Question] = []

    def approver(question: Question) -> bool:
        asked.append(question)
        return answer

    desk = sat_at(tmp_path, policy="edit", approver=approver)
    with desk.box:
        desk.done("echo x >free")
        assert not asked
        reply = desk.bash("echo use flake >.envrc")
    assert {question.command for question in asked} == {"echo use flake >.envrc"}
    assert ["+use flake" in question.diff for question in asked] == ([False, True] if answer else [False])
    assert (reply.status, (desk.ws / ".envrc").exists()) == ("success" if answer else "error", answer)


def test_a_protected_name_is_asked_about_whichever_tool_changes_it(desk: Desk):
    reply = desk.tool("write_file", path=".vscode/tasks.json", content="{}")
    assert reply.code == "NOT_APPROVED"
    assert desk.see() == {}


def test_packages_may_ship_protected_names(desk: Desk):
    desk.done("mkdir -p node_modules/x/.vscode && echo '{}' >node_modules/x/.vscode/settings.json")
    assert (desk.ws / "node_modules/x/.vscode/settings.json").exists()


def test_in_read_only_mode_commands_run_and_change_nothing(tmp_path: Path):
    desk = sat_at(tmp_path, policy="read-only")
    desk.lay("echo 1 >a")
    with desk.box:
        assert desk.done("cat a").text.startswith("1\n")
        assert desk.done("rm a", preview=True).data["files"] == [{"verb": "deleted", "path": "a", "kind": "file"}]
        assert desk.bash("rm a").code == "DENIED"
        assert desk.bash("sleep 1", background=True).code == "DENIED"
    assert desk.text("a") == "1\n"


def test_u12_looking_at_a_repository_changes_nothing(tmp_path: Path):
    desk = sat_at(tmp_path, policy="read-only")
    desk.lay(f"{GIT} init -q . && echo 1 >a && {GIT} add . && {GIT} commit -qm 1 && touch a && echo 2 >b")
    with desk.box:
        for command in ("git status --short", "cd . && git diff | head", "git log --oneline"):
            assert desk.done(command).data["totals"] == {}


def test_a_configuration_of_git_that_says_the_same_asks_nobody(desk: Desk):
    desk.lay(f"{GIT} init -q; {GIT} commit -q --allow-empty -m 1; git branch side; git branch other")
    config = desk.see()[".git/config"]
    desk.done("git branch -d side")
    assert not (desk.ws / ".git/refs/heads/side").exists()
    assert desk.see()[".git/config"] == config
    assert desk.bash("git branch -d other; git config core.hooksPath here").code == "NOT_APPROVED"
    assert desk.bash("chmod a+w .git/config").code == "NOT_APPROVED"
    assert (desk.ws / ".git/refs/heads/other").exists()


def test_a_command_is_refused_when_another_folder_has_taken_the_place_of_the_workspace(desk: Desk):
    desk.lay("echo 1 >f")
    desk.done("cat f")
    desk.ws.rename(desk.place / "aside")
    desk.ws.mkdir()
    assert desk.bash("echo 2 >f").code == "IO_ERROR"
    assert os.listdir(desk.ws) == []
    assert (desk.place / "aside/f").read_text() == "1\n"


def test_in_ask_mode_only_what_changes_something_asks(tmp_path: Path):
    asked: list[Question] = []

    def approver(question: Question) -> bool:
        asked.append(question)
        return True

    desk = sat_at(tmp_path, approver=approver)
    with desk.box:
        desk.done("ls; cat /etc/hostname")
        assert not asked
        desk.done("echo 1 >a; mkdir d; echo 2 >d/b")
        assert "+1" in asked[0].diff
        desk.bash("sleep 0.1", background=True)
        assert (asked[1].command, asked[1].files) == ("sleep 0.1", ())


# --- the road


def test_f3_the_same_call_runs_once(desk: Desk):
    first = desk.done("date +%N >>a; cat a", call_id="c")
    again = desk.done("date +%N >>a; cat a", call_id="c")
    assert (again.replayed, again.text) == (True, first.text)
    assert len(desk.text("a").splitlines()) == 1
    assert desk.bash("echo other", call_id="c").code == "CALL_ID_REUSED"


def test_c91_a_command_is_journalled_with_what_was_decided_and_done(desk: Desk):
    desk.done("echo 1 >a")
    [entry] = desk.box.log()
    assert (entry.call.tool, entry.decision, entry.changed, entry.outcome and entry.outcome.status) == (
        "bash",
        "allowed",
        1,
        "success",
    )
    assert entry.paths == (str(desk.ws / "a"),)


def test_u3_an_edit_after_a_formatter_needs_no_new_read(desk: Desk):
    desk.lay("printf 'x=1\\ny=2\\n' >a.py")
    desk.tool("read_file", path="a.py")
    reply = desk.done("sed -i 's/=/ = /' a.py")
    assert "-x=1\n-y=2\n+x = 1\n+y = 2" in reply.text
    assert desk.tool("edit_file", path="a.py", old_string="y = 2", new_string="y = 3").status == "success"
    assert desk.text("a.py") == "x = 1\ny = 3\n"


def test_c10_a_change_too_large_to_be_shown_makes_a_file_stale(desk: Desk):
    desk.lay("seq 1000 >a")
    desk.tool("read_file", path="a")
    reply = desk.done("sed -i s/^/x/ a")
    assert "a" in [each["path"] for each in reply.data["seen"] if not each["complete"]]
    assert desk.tool("edit_file", path="a", old_string="x7\n", new_string="y\n").code == "STALE"


def test_c10_a_file_that_was_moved_is_still_known(desk: Desk):
    desk.lay("echo one >a")
    desk.tool("read_file", path="a")
    assert desk.done("mv a b").data["totals"] == {"moved": 1}
    assert desk.tool("edit_file", path="b", old_string="one", new_string="two").status == "success"


def test_c10_the_files_of_a_folder_that_was_moved_are_still_known(desk: Desk):
    desk.lay("mkdir d; echo one >d/a; echo two >d/b")
    desk.tool("read_file", path="d/a")
    assert desk.done("mv d e").data["totals"] == {"moved": 1}
    assert desk.tool("edit_file", path="e/a", old_string="one", new_string="1").status == "success"
    assert desk.tool("edit_file", path="e/b", old_string="two", new_string="2").code == "UNREAD"


def test_c10_a_file_in_a_folder_that_was_replaced_must_be_read_again(desk: Desk):
    desk.lay("mkdir d; echo one >d/a")
    desk.tool("read_file", path="d/a")
    reply = desk.done("rm -r d; mkdir d; echo two >d/a; echo b >d/b")
    if "-one\n+two" not in reply.text:  # the change is not shown, so the file must be read again
        assert "d/a" in reply.text
        assert desk.tool("edit_file", path="d/a", old_string="two", new_string="2").code == "STALE"
    desk.done("rm -r d")
    desk.done("mkdir d; echo two >d/a")
    assert desk.tool("edit_file", path="d/a", old_string="two", new_string="2").code == "UNREAD"


def test_c10_a_file_that_was_deleted_and_made_anew_is_not_known(desk: Desk):
    desk.lay("echo one >a")
    desk.tool("read_file", path="a")
    desk.done("rm a")
    desk.done("echo two >a")
    assert desk.tool("edit_file", path="a", old_string="two", new_string="x").code == "UNREAD"


def test_c86_the_working_directory_lasts_in_the_dialect_that_promises_it(tmp_path: Path):
    desk = sat_at(tmp_path, dialect="claude")
    with desk.box:
        desk.box.call("Bash", {"command": "mkdir sub && cd sub"})
        assert desk.box.call("Bash", {"command": "pwd"}).text.startswith(f"{desk.ws}/sub\n")


def test_c5_offloaded_output_can_be_read(desk: Desk):
    reply = desk.bash("seq 100000")
    assert reply.status == "partial"
    assert reply.text.startswith("1\n2\n3\n4\n5\n[… 99,990 lines left out here …]\n99996\n")
    page = desk.tool("read_file", path=reply.data["output"]["handle"], offset=50_000, limit=2)
    assert " 50000→50000\n 50001→50001" in page.text


def test_c85_a_job_is_started_read_written_to_and_stopped(desk: Desk):
    begun = desk.bash("while read line; do echo got $line; done; echo over", background=True)
    assert begun.data["undo"] == "file tools only"
    job = begun.data["job"]
    written = desk.tool("bash_input", job=job, text="one\n")
    assert written.status == "success"
    deadline = time.monotonic() + 50
    printed = written.text  # a quick job has answered already, and what was shown is not shown again
    while "got one" not in printed and time.monotonic() < deadline:
        printed += desk.tool("bash_output", job=job).text
    assert "got one" in printed
    assert desk.tool("bash_stop", job=job).data["running"] is False
    assert desk.tool("bash_output", job="none").code == "NO_SUCH_JOB"


def test_a_workspace_in_memory_has_no_shell():
    with Toolbox.in_memory({"a": "1"}) as box:
        reply = box.call("bash", {"command": "ls"})
    assert (reply.status, reply.code, reply.error_source) == ("error", "NO_SHELL", "tool")


def test_without_a_shadow_every_surface_says_so(tmp_path: Path):
    desk = sat_at(tmp_path, shell="unconfined")
    with desk.box:
        reply = desk.done("echo 1 >a")
        assert reply.data["undo"] == "file tools only"
        assert desk.text("a") == "1\n"
        assert desk.box.undo(keep_times=True).code == "NOTHING_TO_UNDO"
        assert desk.bash("echo 2 >a", preview=True).code == "NO_SHELL"
        assert desk.text("a") == "1\n"


# --- live


def test_u20_output_arrives_while_the_command_runs(desk: Desk):
    async def events() -> list[tuple[float, Any]]:
        command = "for n in 1 2 3; do echo $n; sleep 0.4; done; echo x >a"
        async with desk.box.stream("bash", {"command": command}) as stream:
            return [(time.monotonic(), event) async for event in stream]

    *pieces, (end, reply) = asyncio.run(events())
    assert "".join(piece.text for _, piece in pieces if isinstance(piece, OutputChunk)) == "1\n2\n3\n"
    assert end - pieces[0][0] > 0.5
    assert reply.text.startswith("1\n2\n3\n[Exit status 0")
    assert desk.text("a") == "x\n"


def test_a_stream_of_a_file_tool_is_its_reply(desk: Desk):
    async def events() -> list[Any]:
        async with desk.box.stream("write_file", {"path": "a", "content": "1"}) as stream:
            return [event async for event in stream]

    [reply] = asyncio.run(events())
    assert reply.status == "success"


def still_there(what: str) -> bool:
    found = subprocess.run(["pgrep", "-f", f"^{what}$"], check=False, capture_output=True).stdout
    return bool(found.strip())


def wake(what: str) -> None:
    subprocess.run(["pkill", "-f", f"^{what}$"], check=True)


def test_cancelling_acall_leaves_no_process_and_nothing_of_the_command(desk: Desk):
    sleeps = f"sleep 97.{os.getpid()}1"

    async def cancelled() -> None:
        task = asyncio.ensure_future(desk.box.acall("bash", {"command": f"echo x >a; {sleeps}"}, call_id="c"))
        while not still_there(sleeps):
            await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not still_there(sleeps)

    asyncio.run(cancelled())
    assert desk.see() == {}
    assert desk.box.undo(keep_times=True).code == "NOTHING_TO_UNDO"
    [entry, *_] = desk.box.log()
    assert entry.outcome
    assert entry.outcome.status == "interrupted"
    assert not any((desk.place / "state" / "shelf").glob("[0-9a-f]*"))


def test_leaving_a_stream_ends_the_command(desk: Desk):
    sleeps = f"sleep 97.{os.getpid()}2"

    async def left() -> None:
        async with desk.box.stream("bash", {"command": f"echo x >a; echo ready; {sleeps}"}) as stream:
            async for _ in stream:
                break
        assert not still_there(sleeps)

    asyncio.run(left())
    assert desk.see() == {}


def test_a_cancelled_call_does_not_end_another_one(desk: Desk):
    sleeps = f"sleep 97.{os.getpid()}3"

    async def two() -> Reply:
        other = asyncio.ensure_future(desk.box.acall("bash", {"command": "sleep 1.5; echo lives"}))
        task = asyncio.ensure_future(desk.box.acall("bash", {"command": sleeps}))
        while not still_there(sleeps):
            await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await other

    reply = asyncio.run(two())
    assert reply.text.startswith("lives\n")


def test_a_call_that_was_cancelled_runs_when_it_is_sent_again(desk: Desk):
    sleeps = f"sleep 97.{os.getpid()}5"
    command = f"[ -e go ] || {sleeps}; echo x >>a"

    async def cancelled() -> None:
        task = asyncio.ensure_future(desk.box.acall("bash", {"command": command}, call_id="c"))
        while not still_there(sleeps):
            await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    desk.lay("touch go")
    assert desk.done(command, call_id="c").replayed is False
    assert desk.text("a") == "x\n"


def test_two_commands_at_once_both_count(desk: Desk):
    async def both_of_them() -> list[Reply]:
        commands = [f"echo {n} >f{n}; sleep 0.5" for n in (1, 2)]
        return await asyncio.gather(*(desk.box.acall("bash", {"command": command}) for command in commands))

    assert [reply.status for reply in asyncio.run(both_of_them())] == ["success", "success"]
    assert (desk.text("f1"), desk.text("f2")) == ("1\n", "2\n")


def test_u13_an_edit_while_a_command_runs_is_not_lost(desk: Desk, held_by: HeldBy):  # noqa: F811
    desk.lay("echo 1 >a; echo 1 >b")
    desk.tool("read_file", path="a")
    sleeps = f"sleep 97.{os.getpid()}6"

    async def both_of_them() -> Reply:
        running = asyncio.ensure_future(desk.box.acall("bash", {"command": f"{sleeps}; echo cmd >a; echo cmd >b"}))
        while not still_there(sleeps):
            await asyncio.sleep(0.05)
        edited = await desk.box.acall("edit_file", {"path": "a", "old_string": "1", "new_string": "edited"})
        assert edited.status == "success"
        wake(sleeps)
        return await running

    reply = asyncio.run(both_of_them())
    if held_by == "broker":  # the command has seen the edit, and wrote over it
        assert (desk.text("a"), desk.text("b")) == ("cmd\n", "cmd\n")
        assert desk.box.undo().status == "success"
        assert (desk.text("a"), desk.text("b")) == ("edited\n", "1\n")
        return
    assert [each["path"] for each in reply.data["conflicts"]] == ["a"]
    assert (desk.text("a"), desk.text("b")) == ("edited\n", "cmd\n")


# --- whatever happens


SCRIPTS = (
    "echo $RANDOM >a",
    "echo $RANDOM >>b",
    "rm -f a",
    "rm -rf d",
    "mkdir -p d/e; echo $RANDOM >d/e/f",
    "mv d x || mv x d",
    "mv a d/",
    "ln -sf a l",
    "chmod 755 a d; chmod 640 b",
    "rm -rf d; echo file >d",
    "rm -f d x; mkdir d x; echo 1 >x/y",
    "sed -i s/1/2/ a b d/e/f",
    "cp -r d copy",
    "exit 3",
)


class Histories(RuleBasedStateMachine):
    """Whatever commands and file tools do, whatever is undone and redone: undoing the session gives the start."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory(prefix="handhold-")
        self.desk = sat_at(Path(self.folder.name))
        self.desk.lay("echo 1 >a; echo 1 >b; mkdir -p d/e; echo 1 >d/e/f")
        self.start = _plain(self.desk)

    @rule(script=st.sampled_from(SCRIPTS))
    def command(self, script: str) -> None:
        reply = self.desk.bash(script)
        assert reply.code is None, reply

    @rule(name=st.sampled_from(["a", "b", "d/e/f", "d/new", "x/y"]), content=st.sampled_from(["1\n", "2\n", ""]))
    def write(self, name: str, content: str) -> None:
        self.desk.tool("read_file", path=name)
        self.desk.tool("write_file", path=name, content=content)

    @rule()
    def undo(self) -> None:
        self.back_and_forth("undo")

    @rule()
    def redo(self) -> None:
        self.back_and_forth("redo")

    def back_and_forth(self, verb: str) -> None:
        before = _plain(self.desk)
        reply = getattr(self.desk.box, verb)(keep_times=True)
        if reply.status == "error":
            assert _plain(self.desk) == before, reply

    def teardown(self) -> None:
        reply = self.desk.box.undo(Target.session(), keep_times=True)
        assert reply.code in (None, "NOTHING_TO_UNDO"), reply
        assert _plain(self.desk) == self.start
        self.desk.box.close()
        self.folder.cleanup()


# To find a shorter history would take longer than the test may.
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_whatever_happens_undoing_the_session_gives_the_start():
    run_state_machine_as_test(
        Histories,
        settings=settings(max_examples=examples(30), stateful_step_count=14, deadline=None, phases=UNSHRUNK),
    )


# --- limits


def test_a_command_gets_no_more_memory_than_it_may(tmp_path: Path):
    with sat_at(tmp_path, memory=200_000_000).box as box:
        hungry = "python3 -c 'print(len(bytearray(400_000_000)))'"
        assert "MemoryError" in box.call("bash", {"command": hungry}).text
        assert box.call("bash", {"command": hungry.replace("400", "50")}).data["exit_status"] == 0
    with sat_at(tmp_path).box as box:
        assert box.call("bash", {"command": hungry}).data["exit_status"] == 0


@pytest.mark.parametrize("processes", [20, None])
def test_a_command_of_a_plain_user_has_no_more_processes_than_it_may(plain: Path, processes: int | None):
    def work() -> None:
        with sat_at(plain, processes=processes).box as box:
            reply = box.call("bash", {"command": "for n in {1..40}; do sleep 5 & done; kill $(jobs -p)", "timeout": 60})
            assert ("Resource temporarily unavailable" in reply.text) is (processes is not None), reply.text

    as_user("nobody", work)
