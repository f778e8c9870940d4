"""Where neither an overlay nor the broker holds a command, it cannot be undone: it asks first, whatever its text says."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from handhold import Toolbox
from handhold.core.choices import Confinement, Mode
from handhold.core.ports.approvals import Consent, Question
from tests.suites.held_by import HeldBy, held_by  # noqa: F401 — a fixture

COMMANDS = ("rm keep.txt", "ls", "python3 -c 'print(1)'")


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws/keep.txt").write_text("the only copy\n")
    return tmp_path / "ws"


@pytest.mark.parametrize("shell", ["external", "unconfined"])
@pytest.mark.parametrize("mode", ["ask", "edit"])
def test_c95_n3_nothing_runs_unasked_where_it_cannot_be_undone(ws: Path, shell: Confinement, mode: Mode):
    with Toolbox.open(ws, state=ws.parent / "state", settings=False, policy=mode, shell=shell) as box:
        for command in COMMANDS:
            reply = box.call("bash", {"command": command})
            assert reply.code == "NOT_APPROVED", command
            assert "this cannot be undone" in reply.text
    assert (ws / "keep.txt").exists()


def test_c95_n3_a_yes_runs_it_and_the_mode_open_agrees_to_all(ws: Path):
    asked: list[Question] = []

    def approve(question: Question, /) -> Consent:
        asked.append(question)
        return Consent.ONCE

    with Toolbox.open(ws, state=ws.parent / "state", settings=False, shell="unconfined", approver=approve) as box:
        assert box.call("bash", {"command": "rm keep.txt"}).ok
    assert not (ws / "keep.txt").exists()
    (question,) = asked
    assert question.because.startswith("this cannot be undone")
    assert question.rule == "no undo (built in)"
    with Toolbox.open(ws, state=ws.parent / "state", settings=False, shell="unconfined", policy="open") as box:
        assert box.call("bash", {"command": "echo 1 > a"}).ok


def test_c95_n3_in_the_background_only_the_broker_needs_no_question(ws: Path, held_by: HeldBy):  # noqa: F811
    with Toolbox.open(ws, state=ws.parent / "state", settings=False) as box:
        reply = box.call("bash", {"command": "sleep 0.1; rm -f keep.txt", "background": True})
    if held_by == "broker":
        assert reply.ok, reply.text
    else:
        assert reply.code == "NOT_APPROVED"
        assert "this cannot be undone" in reply.text


# What git obeys, in the HOME of the session, which is not checked.
PLANT = """
import os
tmp, home = os.environ.get("TMPDIR", "/tmp"), os.path.expanduser("~")
with open(f"{tmp}/planted", "w") as script:
    script.write("#!/bin/sh\\necho planted | tee keep.txt other.txt\\n")
os.chmod(f"{tmp}/planted", 0o755)
with open(f"{home}/.gitconfig", "w") as settings:
    settings.write(f"[diff]\\n\\texternal = {tmp}/planted\\n")
"""


def test_what_nobody_was_asked_about_only_reads_the_workspace_in_the_background(ws: Path, held_by: HeldBy):  # noqa: F811
    (ws / "plant.py").write_text(PLANT)
    for arguments in (["init", "-q"], ["add", "keep.txt"]):
        subprocess.run(["git", *arguments], cwd=ws, check=True, env={**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"})
    (ws / "keep.txt").write_text("changed\n")
    with Toolbox.open(ws, state=ws.parent / "state", settings=False) as box:
        assert box.call("bash", {"command": "python3 plant.py"}).ok
        job = box.call("bash", {"command": "git diff; cat keep.txt", "background": True})
        assert job.ok, job.text
        shown = job.text
        while "exit status" not in shown:
            time.sleep(0.05)
            shown = box.call("bash_output", {"job": job.data["job"], "offset": 0}).text
        assert "planted" in shown, "git did not run what was planted"
        if held_by == "broker":
            assert box.undo().status == "success"
    assert (ws / "keep.txt").read_text() == "changed\n"
    assert not (ws / "other.txt").exists()


@pytest.mark.root
def test_c95_n3_a_mount_in_the_workspace_makes_every_command_ask(ws: Path):
    """As a user meets it, with `explain` and `doctor`. Nobody is there to answer."""
    if os.getuid() or shutil.which("unshare") is None:
        pytest.skip("needs root")
    (ws / "volume").mkdir()
    handhold = '"$0" -c "from handhold.cli import main; main()"'
    script = f"""
        mount -t tmpfs none volume || exit 77
        {handhold} run --state ../state -- rm keep.txt; echo "run: $?"
        {handhold} explain --json --command "rm keep.txt"
        {handhold} doctor --state ../state
    """
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, sys.executable],
        cwd=ws,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode == 77 or "NO_SHELL" in done.stderr:
        pytest.skip(done.stderr)
    assert (ws / "keep.txt").exists(), done
    assert done.stdout.startswith("run: 1\n"), done
    assert "NOT_APPROVED" in done.stderr
    assert "this cannot be undone" in done.stderr
    explained = json.loads(done.stdout[done.stdout.index("{") : done.stdout.rindex("}") + 1])
    assert (explained["decision"], explained["rule"]) == ("ask", "no undo")
    assert "which cannot be undone: each needs approval" in done.stdout
