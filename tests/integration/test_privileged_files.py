"""Files that run with somebody else's rights: no command makes one, and none is taken over without a question."""

import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from handhold import Question, Toolbox
from tests.backends.shell.forked import as_user
from tests.backends.shell.people import system_python
from tests.suites.held_by import held_by  # noqa: F401 — a fixture

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.usefixtures("held_by"),
]

REFUSED = {
    "chmod": "chmod u+s tool",
    "install": "install -m 4755 tool new",
    "open": "{python} -c 'import os; os.umask(0); os.open(\"new\", os.O_CREAT | os.O_WRONLY, 0o4755)'",
    "mknod": "{python} -c 'import os; os.umask(0); os.mknod(\"new\", 0o104755)'",
    "open, set-group-id": "{python} -c 'import os; os.umask(0); os.open(\"new\", os.O_CREAT | os.O_WRONLY, 0o2755)'",
}


def box_on(place: Path, approver: Callable[[Question], bool] | None = None) -> Toolbox:
    tool = place / "ws/tool"
    if not tool.parent.exists():
        tool.parent.mkdir()
        tool.write_text("#!/bin/sh\n")
        tool.chmod(0o755)
        os.utime(tool, (1_600_000_000, 1_600_000_000))
    return Toolbox.open(place / "ws", state=place / "state", policy="open", approver=approver)


def privileged(ws: Path) -> list[str]:
    return sorted(
        str(path.relative_to(ws))
        for path in ws.rglob("*")
        if path.is_file() and path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID)
    )


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("command", REFUSED.values(), ids=REFUSED.keys())
def test_r14_no_command_makes_a_set_user_id_file(who: str, place: Path, command: str, background: bool):
    def work() -> None:
        with box_on(place) as box:
            run = f"{command.format(python=system_python())}; echo status $?"
            reply = box.call("bash", {"command": run, "background": background})
            text = reply.text
            while background and "status" not in text:
                text += box.call("bash_output", {"job": reply.data["job"]}).text
            assert "status 1" in text
            assert "not permitted" in text
            assert privileged(place / "ws") == []

    as_user(who, work)


def test_r14_a_job_makes_no_set_group_id_file(who: str, place: Path):
    """It works on the files themselves, and nobody looks at them afterwards."""

    def work() -> None:
        with box_on(place) as box:
            reply = box.call("bash", {"command": "chmod g+s tool; echo status $?", "background": True})
            text = reply.text
            while "status" not in text:
                text += box.call("bash_output", {"job": reply.data["job"]}).text
            assert "status 1" in text
            assert privileged(place / "ws") == []

    as_user(who, work)


LEFT = {
    "set-group-id": ("true", "chmod g+s tool", "tool"),
    "set-group-id in a new folder": ("true", "mkdir -p a/b && cp tool a/b && chmod g+s a/b/tool", "a/b/tool"),
    "a set-user-id file that was there": ("chmod u+s tool", "mv tool other", "other"),
    "and into a new folder": ("chmod u+s tool", "mkdir a && mv tool a", "a/tool"),
}


@pytest.mark.parametrize(("before", "command", "name"), LEFT.values(), ids=LEFT.keys())
def test_r14_what_would_be_privileged_is_asked_about(who: str, place: Path, before: str, command: str, name: str):
    def work() -> None:
        asked: list[str] = []

        def approver(question: Question) -> bool:
            asked.append(question.because)
            return len(asked) > 1

        with box_on(place, approver) as box:
            subprocess.run(["bash", "-c", before], cwd=place / "ws", check=True)
            there = privileged(place / "ws")
            assert box.call("bash", {"command": command}).code == "NOT_APPROVED"
            assert privileged(place / "ws") == there
            assert box.call("bash", {"command": command}).status == "success"
            assert privileged(place / "ws") == [name]
            assert all("set-user-id" in because for because in asked)
            assert len(asked) == 2
        with box_on(place) as box:  # nobody can be asked
            assert box.call("bash", {"command": f"mv {name} elsewhere"}).code == "NOT_APPROVED"

    as_user(who, work)


def test_r14_what_would_be_privileged_is_shown_first_among_many_changes(who: str, place: Path):
    def work() -> None:
        asked: list[Question] = []

        def approver(question: Question) -> bool:
            asked.append(question)
            return False

        with box_on(place, approver) as box:
            command = "mkdir -p a z; for n in $(seq 300); do seq 20 >a/$n; done; cp tool z; chmod g+s z/tool"
            assert box.call("bash", {"command": command}).code == "NOT_APPROVED"
        first = asked[-1].diff.splitlines()[: asked[-1].uncut]
        assert "[z/tool: new file, mode 2755]" in first
        assert not any("a/" in line for line in first)

    as_user(who, work)


@pytest.mark.root
def test_r14_a_file_with_capabilities_is_asked_about(tmp_path: Path):
    with box_on(tmp_path) as box:
        if subprocess.run(["setcap", "cap_net_raw+ep", tmp_path / "ws/tool"], check=False).returncode:
            pytest.skip("no capabilities on this file system")
        assert box.call("bash", {"command": "mv tool other"}).code == "NOT_APPROVED"
        assert box.call("bash", {"command": "mkdir a && mv tool a"}).code == "NOT_APPROVED"


def test_r14_folders_may_be_set_group_id(who: str, place: Path):
    """As those of a shared repository are."""

    def work() -> None:
        with box_on(place) as box:
            command = "mkdir -p a/b && chmod g+s a a/b && chmod -R g+w a && mkdir a/c && chmod 755 tool"
            reply = box.call("bash", {"command": command})
            assert (reply.status, reply.data["exit_status"]) == ("success", 0), reply.text
            assert (place / "ws/a/c").stat().st_mode & stat.S_ISGID

    as_user(who, work)


def test_r14_undo_restores_a_set_user_id_file_only_after_a_question(who: str, place: Path):
    def work() -> None:
        answers = iter([False, True])
        with box_on(place, lambda _: next(answers)) as box:
            (place / "ws/tool").chmod(0o4755)
            assert box.call("bash", {"command": "rm tool"}).status == "success"
            assert box.undo().code == "NOT_APPROVED"
            assert privileged(place / "ws") == []
            assert box.undo().status == "success"
            assert stat.S_IMODE((place / "ws/tool").stat().st_mode) == 0o4755

    as_user(who, work)
