"""`handhold run`: a command is held like an agent's, and looks from outside as if it ran alone."""

import errno
import hashlib
import json
import os
import pty
import select
import signal
import subprocess
import sys
import termios
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from handhold.backends import shell
from handhold.cli.commands import handhold
from handhold.core.errors import NoShell
from tests.cli.test_prompt import LAST, Terminal
from tests.faults.trees import tree
from tests.suites.machine import has_shadows

pytestmark = pytest.mark.skipif(not has_shadows(), reason="commands cannot run on an overlay here")
HANDHOLD = str(Path(sys.executable).with_name("handhold"))
MAX_MORE_KIB = 4 * 1024  # of memory, for 50 MB of output
# Runs a command that has the terminal on its standard input as its own; with `&`, in the background.
ON_TERMINAL = """
import fcntl, os, subprocess, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
background, *command = sys.argv[1:]
if not background:
    os.execv(command[0], command)
sys.exit(subprocess.Popen(command, process_group=0).wait())
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "work"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_text("one\n")
    (folder / "sub/b.txt").write_text("two\n")
    return folder


def call(folder: Path, *words: str, **options: Any) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run([HANDHOLD, *words], cwd=folder, capture_output=True, check=False, **options)


def start(folder: Path, *words: str, stdin: int = subprocess.PIPE) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [HANDHOLD, "run", *words], cwd=folder, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def last_entry(folder: Path) -> Any:
    return json.loads(call(folder, "log", "--json").stdout)[-1]


# --- as without us


@pytest.mark.parametrize(
    "command",
    [
        ["bash", "-c", r"printf '\xff\0\r\n'; printf 'e\xfe' >&2; exit 3"],
        ["printf", "<%s>", "two words", "$HOME", "it's", "", "*", "a\nb", "ü\udcff"],
        ["bash", "-c", "cat; exec >&-; kill -KILL $$"],
        ["bash", "-c", "kill -PIPE $$"],
    ],
    ids=["bytes", "words", "signal", "pipe"],
)
def test_output_and_end_are_the_commands_own(folder: Path, command: Sequence[str]):
    given = b"\xff\n"
    done = call(folder, "run", "--", *command, input=given)
    alone = subprocess.run(command, cwd=folder, capture_output=True, check=False, input=given)
    assert (done.returncode, done.stdout, done.stderr) == (alone.returncode, alone.stdout, alone.stderr)


def test_a_program_that_is_not_there_is_reported_as_in_a_shell(folder: Path):
    done = call(folder, "run", "--", "no-such-program")
    assert (done.returncode, done.stdout) == (127, b"")
    assert done.stderr.endswith(b"no-such-program: command not found\n")


def test_two_streams_into_one_file_keep_their_order(folder: Path, tmp_path: Path):
    script = "for n in {1..300}; do echo out $n; echo err $n >&2; done"
    with open(tmp_path / "both", "wb") as both:
        subprocess.run([HANDHOLD, "run", "--", "bash", "-c", script], cwd=folder, stdout=both, stderr=both, check=True)
    expected = "".join(f"out {n}\nerr {n}\n" for n in range(1, 301))
    assert (tmp_path / "both").read_text() == expected


def test_output_comes_when_it_is_printed_and_input_is_not_read_ahead(folder: Path):
    reader, writer = os.pipe()
    with start(folder, "--", "bash", "-c", "echo ready; read line; echo got $line", stdin=reader) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        os.write(writer, b"first\nsecond\n")
        assert process.stdout.readline() == b"got first\n"
        assert process.wait() == 0
    assert os.read(reader, 100) == b"second\n"


def test_a_large_output_does_not_pass_through_us(folder: Path):
    most: list[int] = []
    for size in (0, 50_000_000):
        process = start(folder, "--", "bash", "-c", f"yes | head -c {size}")
        assert process.stdout
        sums = hashlib.sha256()
        while data := process.stdout.read(1 << 20):
            sums.update(data)
        assert sums.digest() == hashlib.sha256(b"y\n" * (size // 2)).digest()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        most.append(used.ru_maxrss)
        process.communicate()
    assert most[1] - most[0] < MAX_MORE_KIB


def test_a_closed_stream_is_empty(folder: Path):
    script = f'{HANDHOLD} run -- sh -c "cat; echo on; echo lost >&2; echo x > a.txt" <&- 2>&-'
    done = subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"on\n", b"")
    assert (folder / "a.txt").read_text() == "x\n"


# --- held


def test_what_a_command_changed_is_in_the_log_and_undone(folder: Path):
    before = tree(folder)
    done = call(folder, "run", "--", "bash", "-c", "echo new > a.txt; rm -r sub; mkdir made; exit 4")
    assert (done.returncode, done.stderr) == (4, b"")
    assert not (folder / "sub").exists()
    assert (folder / "made").is_dir()
    entry = last_entry(folder)
    assert json.loads(entry["call"]["arguments"])["command"].startswith("bash -c 'echo new")
    assert call(folder, "undo").returncode == 0
    assert tree(folder) == before


def test_a_preview_applies_nothing_and_shows_the_diff(folder: Path):
    before = tree(folder)
    done = call(folder, "run", "--preview", "--", "bash", "-c", "echo new > a.txt; cat a.txt; exit 5")
    assert (done.returncode, done.stdout) == (5, b"new\n")
    told = done.stderr.decode()
    assert "nothing was changed" in told
    assert "-one\n+new\n" in told
    assert tree(folder) == before


def test_a_refused_command_does_not_run(folder: Path, tmp_path: Path):
    done = call(folder, "run", "--", "sh", "-c", "echo ran; curl https://example.org")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"Error: NOT_APPROVED: ")
    assert b"handhold approve " in done.stderr


def test_a_command_whose_changes_are_refused_says_so(folder: Path):
    before = tree(folder)
    done = call(folder, "run", "--policy", "read-only", "--", "sh", "-c", "echo ran; echo new > a.txt")
    assert (done.returncode, done.stdout) == (1, b"ran\n")
    assert done.stderr.startswith(b"Error: DENIED: ")
    assert b"its changes were discarded" in done.stderr
    assert tree(folder) == before


def test_without_a_sandbox_nothing_runs(folder: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(_: str) -> None:
        raise NoShell("there is no sandbox")

    monkeypatch.setattr(shell, "create_sandbox", refuse)
    done = CliRunner().invoke(handhold, ["run", "--root", str(folder), "--", "touch", str(folder / "made")])
    assert done.exit_code == 1
    assert done.stderr.startswith("Error: NO_SHELL: ")
    assert not (folder / "made").exists()


def test_a_conflict_is_reported(folder: Path):
    with start(folder, "--", "bash", "-c", "echo mine > a.txt; echo ready; read line") as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        (folder / "a.txt").write_text("theirs\n")
        _, told = process.communicate(b"\n")
    assert process.returncode == 0
    assert b"a.txt was changed by someone else" in told
    assert (folder / "a.txt").read_text() == "theirs\n"


def test_a_file_on_standard_input_is_not_written_by_opening_it_again(folder: Path):
    with open(folder / "a.txt", "rb") as stdin:
        call(folder, "run", "--policy", "open", "--", "bash", "-c", "echo x >> /dev/stdin", stdin=stdin)
    assert (folder / "a.txt").read_text() == "one\n"


def test_a_command_runs_where_we_are_or_where_it_is_told(folder: Path):
    def where(*options: str, cwd: Path) -> bytes:
        return call(cwd, "run", *options, "--", "pwd").stdout

    top, sub = f"{folder}\n".encode(), f"{folder}/sub\n".encode()
    assert where("--root", str(folder), cwd=folder / "sub") == sub
    assert where("--cwd", "sub", cwd=folder) == sub
    assert where("--root", str(folder), cwd=folder.parent) == top
    for outside in ("/", ".."):
        refused = call(folder, "run", "--cwd", outside, "--", "pwd")
        assert (refused.returncode, refused.stdout) == (1, b"")
        assert refused.stderr.startswith(b"Error: OUTSIDE_WORKSPACE: ")


def test_the_policy_knows_where_a_command_runs(folder: Path, tmp_path: Path):
    (tmp_path / "flat").mkdir()
    words = ["--root", str(folder / "sub"), "--root", str(tmp_path / "flat"), "--cwd", str(tmp_path / "flat")]
    above = os.path.relpath("/proc/self/fd", tmp_path / "flat")  # in the first root, it would not leave /tmp
    refused = call(folder, "run", *words, "--", "ls", "-d", above)
    assert refused.stderr.startswith(b"Error: NOT_APPROVED: ")
    assert b" /proc/self/fd, " in refused.stderr


def test_a_command_that_was_approved_meanwhile_runs_when_it_is_repeated(folder: Path):
    words = ["run", "--", "ls", "-d", "/proc/self/fd"]
    assert call(folder, *words).returncode == 1
    (question,) = json.loads(call(folder, "approve", "--json").stdout)
    assert question["command"] == "ls -d /proc/self/fd"
    assert call(folder, "approve", "--yes", question["id"]).returncode == 0
    assert call(folder, *words).stdout == b"/proc/self/fd\n"


# --- signals


def wait_until_ready(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdout
    assert process.stdout.readline() == b"ready\n"


def test_an_interrupt_ends_the_command_and_discards_its_changes(folder: Path):
    before = tree(folder)
    with start(folder, "--", "bash", "-c", "trap '' INT; echo new > a.txt; echo ready; sleep 1000") as process:
        wait_until_ready(process)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == -signal.SIGINT
    assert tree(folder) == before
    assert last_entry(folder)["outcome"]["status"] == "interrupted"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_other_signals_go_to_the_command(folder: Path, number: signal.Signals):
    script = f"trap 'echo ended > a.txt; exit 7' {number.name[3:]}; echo ready; while :; do sleep 0.05; done"
    with start(folder, "--", "bash", "-c", script) as process:
        wait_until_ready(process)
        process.send_signal(number)
        assert process.wait(30) == 7
    assert (folder / "a.txt").read_text() == "ended\n"
    assert call(folder, "undo").returncode == 0
    assert (folder / "a.txt").read_text() == "one\n"


def test_a_signal_that_we_ignore_is_ignored_by_the_command(folder: Path):
    done = call(folder, "run", "--", "bash", "-c", "kill -HUP $$; echo on", preexec_fn=ignore_hangup)
    assert done.stdout == b"on\n"


def ignore_hangup() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


# --- at a terminal


class RunTerminal(Terminal):
    """A terminal that is the controlling terminal of `handhold run`; standard output may go elsewhere."""

    def __init__(self, folder: Path, *words: str, stdout: int | None = None, background: str = "") -> None:
        self.ours, theirs = pty.openpty()
        self.settings = termios.tcgetattr(theirs)
        command = [sys.executable, "-c", ON_TERMINAL, background, HANDHOLD, "run", *words]
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
        screen.type(b"y\n")
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
