"""`handhold run`: a command is held like an agent's, and looks from outside as if it ran alone."""

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner

from handhold.backends import shell
from handhold.cli.commands import handhold
from handhold.cli.run import CommandDialect, SignalReceiver
from handhold.core.errors import Cancelled, NoShell
from handhold.core.ports.shell import Shell
from handhold.core.requests import Run
from tests.backends.shell.forked import as_user
from tests.faults.trees import tree
from tests.suites.machine import has_shadows

pytestmark = pytest.mark.skipif(not has_shadows(), reason="commands cannot run on an overlay here")
HANDHOLD = str(Path(sys.executable).with_name("handhold"))
MAX_MORE_KIB = 4 * 1024  # of memory, for 50 MB of output


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


def test_undo_says_of_a_new_binary_file_that_it_was_removed(folder: Path):
    (folder / "old.bin").write_bytes(b"\0old")
    script = r"printf '\0x' > new.bin; rm old.bin"
    assert call(folder, "run", "--", "bash", "-c", script).returncode == 0
    assert call(folder, "undo").stdout.endswith(b": restored old.bin; removed new.bin.\n")


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
    command = "readlink /proc/self/fd/0 /proc/self/fd/2; cat; echo on; echo lost >&2"
    script = f'{HANDHOLD} run --policy open -- sh -c "{command}" <&- 2>&-'
    done = subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, check=False)
    assert (done.stdout, done.stderr) == (b"/dev/null\n/dev/null\non\n", b"")


def test_a_command_never_gets_a_file_of_ours_for_a_closed_stream(folder: Path):
    script = "from handhold.cli.run import get_streams; open('a.txt'); file = open('a.txt'); print(file.fileno(), *get_streams())"
    done = subprocess.run(
        ["bash", "-c", '"$0" -c "$1" <&-', sys.executable, script], cwd=folder, capture_output=True, check=False
    )
    ours, *streams = map(int, done.stdout.split())
    assert ours == 0
    assert ours not in streams
    assert streams[1:] == [1, 2]


def test_a_command_may_take_as_long_as_it_likes():
    request = CommandDialect().decode("bash", {"command": "make"})
    assert isinstance(request, Run)
    assert request.timeout_seconds == inf


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
    done = call(folder, "run", "--", "sh", "-c", "echo ran; sudo ls")
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


def test_every_user_runs_and_undoes_commands(who: str, place: Path):
    def work() -> None:
        root, out, err = place / "work", place / "out", place / "err"
        root.mkdir()
        (root / "a.txt").write_text("one\n")
        options = ["--root", str(root), "--state", str(place / "state")]
        script = r"printf '\xff'; printf e >&2; echo new > a.txt; kill -TERM $$"
        assert fork_handhold(out, err, "run", *options, "--", "bash", "-c", script) == -signal.SIGTERM
        assert (out.read_bytes(), err.read_bytes(), (root / "a.txt").read_text()) == (b"\xff", b"e", "new\n")
        assert fork_handhold(out, err, "undo", *options) == 0
        assert (root / "a.txt").read_text() == "one\n"

    as_user(who, work)


def fork_handhold(out: Path, err: Path, *words: str) -> int:
    """Run it in a fork: a plain user may not be able to start our interpreter."""
    child = os.fork()
    if not child:
        try:
            for fd, path in ((1, out), (2, err)):
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), fd)
            handhold(list(words))
        except SystemExit as ended:
            os._exit(ended.code if isinstance(ended.code, int) else 1)
        finally:
            os._exit(125)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


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


def test_a_signal_that_comes_just_when_the_command_ends_still_cancels_the_call():
    class EndingShell:
        def interrupt(self, thread: int | None = None) -> bool:
            return True

    receiver = SignalReceiver()
    receiver.shell = cast("Shell", EndingShell())
    with receiver.handle():
        signal.raise_signal(signal.SIGINT)
    with pytest.raises(Cancelled):
        receiver.token.raise_if_cancelled()
