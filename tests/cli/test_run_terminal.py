"""`handhold run` at a terminal, as a job of a shell: questions, keys, and what the command may do to the terminal."""

import errno
import os
import pty
import select
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tests.cli.test_prompt import LAST, Terminal
from tests.cli.test_run import HANDHOLD, last_entry
from tests.suites.machine import has_shadows

pytestmark = pytest.mark.skipif(not has_shadows(), reason="commands cannot run on an overlay here")
# Runs a command as a shell does, as a job of its own on the terminal, and ends as it ended.
SHELL = """
import fcntl, os, signal, subprocess, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
background, *command = sys.argv[1:]
job = subprocess.Popen(command, process_group=0)
if not background:
    os.tcsetpgrp(0, job.pid)
status = job.wait()
if status < 0:
    signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
sys.exit(status)
"""


class RunTerminal(Terminal):
    """A terminal that is the controlling terminal of `handhold run`; standard output may go elsewhere."""

    def __init__(self, folder: Path, *words: str, stdout: int | None = None, background: str = "") -> None:
        self.ours, theirs = pty.openpty()
        self.settings = termios.tcgetattr(theirs)
        command = [sys.executable, "-c", SHELL, background, HANDHOLD, "run", *words]
        self.process = subprocess.Popen(
            command, cwd=folder, stdin=theirs, stdout=theirs if stdout is None else stdout, stderr=theirs
        )
        self.theirs = theirs
        os.set_inheritable(theirs, False)
        self.seen = ""

    def end(self) -> int:
        """The terminal stays open, so that its settings can be looked at."""
        status = self.process.wait(50)
        while select.select([self.ours], [], [], 0)[0]:
            self.read()
        return status

    def __enter__(self) -> "RunTerminal":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.ours)
        os.close(self.theirs)


def test_a_change_is_approved_at_the_terminal_apart_from_the_output(folder: Path, tmp_path: Path):
    with (
        open(tmp_path / "out", "wb") as out,
        RunTerminal(folder, "--", "bash", "-c", "echo printed; echo new > a.txt", stdout=out.fileno()) as screen,
    ):
        screen.wait_for(LAST)
        assert (folder / "a.txt").read_text() == "one\n"
        screen.type(b"y\n")
        assert screen.end() == 0
        assert "changed a.txt" in screen.seen
    assert (tmp_path / "out").read_bytes() == b"printed\n"
    assert (folder / "a.txt").read_text() == "new\n"
    assert last_entry(folder)["decision"] == "approved"


@pytest.mark.parametrize(("keys", "status"), [(b"n\n", 1), (b"\x03", -signal.SIGINT)], ids=["no", "ctrl-c"])
def test_whoever_does_not_approve_changes_nothing(folder: Path, keys: bytes, status: int):
    with RunTerminal(folder, "--", "bash", "-c", "echo new > a.txt") as screen:
        screen.wait_for(LAST)
        screen.type(keys)
        assert screen.end() == status
        assert ("its changes were discarded" in screen.seen) == (status == 1)
    assert (folder / "a.txt").read_text() == "one\n"


def test_a_question_can_be_answered_whatever_the_command_did_to_the_terminal(folder: Path):
    with RunTerminal(folder, "--", "bash", "-c", "stty raw -echo; echo new > a.txt") as screen:
        screen.wait_for(LAST)
        screen.type(b"y\r")  # as the key sends it
        assert screen.end() == 0
    assert (folder / "a.txt").read_text() == "new\n"


def test_ctrl_c_at_the_terminal_ends_a_command_and_restores_the_terminal(folder: Path):
    with RunTerminal(folder, "--", "bash", "-c", "stty -echo; echo new > a.txt; echo ready; sleep 1000") as screen:
        screen.wait_for("ready")
        assert termios.tcgetattr(screen.theirs) != screen.settings
        screen.type(b"\x03")
        assert screen.end() == -signal.SIGINT
        assert termios.tcgetattr(screen.theirs) == screen.settings
    assert (folder / "a.txt").read_text() == "one\n"


def test_a_command_is_on_the_terminal_and_ctrl_z_does_not_stop_us(folder: Path):
    script = "test -t 0 && test -t 1 && test -t 2 && echo ready; read line; echo got $line"
    with RunTerminal(folder, "--", "bash", "-c", script) as screen:
        screen.wait_for("ready")
        screen.type(b"\x1a")
        screen.type(b"typed\n")
        screen.wait_for("got typed")
        assert screen.end() == 0


def test_a_command_in_the_background_does_not_read_the_terminal(folder: Path):
    with RunTerminal(folder, "--", "bash", "-c", "cat; echo done", background="&") as screen:
        screen.wait_for("done")
        assert screen.end() == 0


def test_a_contained_command_cannot_push_input_into_our_terminal(folder: Path):
    (folder / "push.pl").write_text(
        'my $key = "x"; print ioctl(STDIN, 0x5412, $key) ? "pushed" : "refused: " . ($! + 0);'
    )
    with RunTerminal(folder, "--", "perl", "push.pl") as screen:
        assert screen.end() == 0
        assert f"refused: {errno.EPERM}" in screen.seen
        assert "pushed" not in screen.seen
