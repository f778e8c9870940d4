"""Commands that have the caller's own descriptors as their standard streams: what passes, and that nothing else does."""

import errno
import fcntl
import os
import pty
import signal
import stat
import termios
from contextlib import ExitStack
from pathlib import Path

import pytest

from handhold.backends.shell.process import CommandProcess
from handhold.backends.shell.sandbox_support import detect_sandbox_support
from handhold.backends.shell.streams import duplicate_streams
from handhold.core.errors import NoShell
from tests.backends.shell.forked import as_user
from tests.backends.shell.shells import MODES, bench

landlocked = pytest.mark.skipif(not detect_sandbox_support().has_landlock, reason="no Landlock in this kernel")
PUSH_INPUT = """
import fcntl, os, sys, termios
for fd in 0, 1, 2:
    for key in b"id\\n":
        try:
            fcntl.ioctl(fd, termios.TIOCSTI, bytes([key]))
            print("pushed")
        except OSError as error:
            print(error.errno)
"""


def read_all(fd: int) -> bytes:
    os.lseek(fd, 0, os.SEEK_SET)
    return os.read(fd, 1 << 20)


def open_files(place: Path) -> tuple[int, int, int]:
    (place / "in").write_bytes(b"given\n")
    stdout, stderr = (os.open(place / name, os.O_RDWR | os.O_CREAT | os.O_APPEND) for name in ("out", "err"))
    return os.open(place / "in", os.O_RDONLY), stdout, stderr


def test_bytes_pass_in_both_directions_and_we_collect_none(who: str, place: Path):
    as_user(who, lambda: check_bytes(place, "contained"))


def test_bytes_pass_without_a_sandbox(tmp_path: Path):
    check_bytes(tmp_path, "external")


def check_bytes(place: Path, mode: str) -> None:
    streams = open_files(place)
    with bench(place, mode=mode) as shell:
        finished = shell("cat; printf '\\xff\\0'; printf '\\xfee' >&2; exit 3", streams=streams)
    assert (finished.exit_status.code, finished.output.total_bytes) == (3, 0)
    assert [read_all(fd) for fd in streams] == [b"given\n", b"given\n\xff\0", b"\xfee"]


@pytest.mark.parametrize("mode", MODES)
def test_a_command_has_no_other_descriptor(tmp_path: Path, mode: str):
    streams = open_files(tmp_path)
    with bench(tmp_path, mode=mode) as shell:
        shell("for n in {0..99}; do [ -e /proc/$$/fd/$n ] && echo $n; done", streams=streams)
    assert read_all(streams[1]).split() == [b"0", b"1", b"2"]


@landlocked
def test_a_stream_may_be_opened_again_to_write_only_if_it_is_open_for_that(who: str, place: Path):
    def work() -> None:
        streams = open_files(place)
        with bench(place) as shell:
            finished = shell("echo out >>/dev/stdout; echo err >>/dev/stderr; echo x >>/dev/stdin", streams=streams)
        assert finished.exit_status.code == 1
        assert read_all(streams[1]) == b"out\n"
        assert read_all(streams[2]).startswith(b"err\n")
        assert b"Permission denied" in read_all(streams[2])
        assert read_all(streams[0]) == b"given\n"

    as_user(who, work)


def test_pipes_and_terminals_may_be_opened_again_too(who: str, place: Path):
    def work() -> None:
        ours, terminal = pty.openpty()
        reader, writer = os.pipe()
        with bench(place) as shell:
            finished = shell("echo on >/dev/stdout && echo piped >/dev/stderr", streams=(terminal, terminal, writer))
        assert finished.exit_status.code == 0
        assert (os.read(ours, 100), os.read(reader, 100)) == (b"on\r\n", b"piped\n")

    as_user(who, work)


def test_a_contained_command_cannot_push_input_into_a_terminal(who: str, place: Path):
    def work() -> None:
        ours, terminal = pty.openpty()
        (place / "ws").mkdir()
        (place / "ws/push.py").write_text(PUSH_INPUT)
        if os.geteuid() == 0:
            fcntl.ioctl(terminal, termios.TIOCSTI, b"\n")  # this kernel lets root do it
            assert os.read(terminal, 10) == b"\n"
            os.read(ours, 10)  # the echo
        with bench(place) as shell:
            assert shell("/usr/bin/env python3 push.py", streams=(terminal,) * 3).exit_status.code == 0
        os.set_blocking(ours, False)
        assert os.read(ours, 1000).split() == [str(errno.EPERM).encode()] * 9
        os.set_blocking(terminal, False)
        with pytest.raises(BlockingIOError):
            os.read(terminal, 10)

    as_user(who, work)


def test_a_folder_is_no_stream(tmp_path: Path):
    folder = os.open(tmp_path, os.O_RDONLY)
    with bench(tmp_path) as shell, pytest.raises(NoShell, match="folder"):
        shell("touch made", streams=(folder, 1, 2))
    os.close(folder)


def test_without_landlock_a_file_is_no_input(tmp_path: Path):
    stdin, stdout, stderr = open_files(tmp_path)
    with ExitStack() as stack:
        with pytest.raises(NoShell, match="pipe"):
            duplicate_streams((stdin, stdout, stderr), stack, has_landlock=False)
        null = os.open(os.devnull, os.O_RDONLY)
        passed = duplicate_streams((null, stdout, stderr), stack, has_landlock=False)
        assert [stat.S_ISREG(os.fstat(fd).st_mode) for fd in passed] == [False, True, True]
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(passed[0])


def test_why_a_sandbox_cannot_be_created_is_not_printed_to_the_streams(tmp_path: Path):
    streams = open_files(tmp_path)
    with bench(tmp_path) as shell, pytest.raises(NoShell, match="no-such-folder"):
        shell("true", streams=streams, folder=str(tmp_path / "ws/no-such-folder"))
    assert read_all(streams[2]) == b""


@pytest.mark.parametrize("mode", MODES)
def test_a_command_starts_in_its_folder(tmp_path: Path, mode: str):
    with bench(tmp_path, mode=mode) as shell:
        (tmp_path / "ws/sub").mkdir()
        assert shell.shows("pwd", folder=str(tmp_path / "ws/sub")) == f"{tmp_path}/ws/sub\n"
        assert shell.shows("pwd") == f"{tmp_path}/ws\n"


# --- signals


def test_a_signal_goes_to_the_program_that_runs(who: str, place: Path):
    as_user(who, lambda: check_signal(place, "contained"))


def test_a_signal_goes_to_the_program_without_a_sandbox(tmp_path: Path):
    check_signal(tmp_path, "external")


def check_signal(place: Path, mode: str) -> None:
    sent: list[bool] = []
    with bench(place, mode=mode) as shell:
        assert not shell.shell.send_signal(signal.SIGUSR1)
        script = "trap 'echo got it; exit 7' USR1; echo on; while :; do sleep 0.05; done"
        finished = shell(
            f'sh -c "{script}"',
            watch=lambda text: sent.append("on" in text and shell.shell.send_signal(signal.SIGUSR1)),
        )
    assert (finished.exit_status.code, finished.output.head, sent[0]) == (7, "on\ngot it\n", True)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("holder", ["shell", "process"])
def test_a_signal_handler_may_end_a_command_whatever_lock_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, holder: str
):
    ended: list[bool] = []

    class Registry(dict[CommandProcess, int]):
        def __setitem__(self, process: CommandProcess, thread: int) -> None:
            super().__setitem__(process, thread)
            signal.raise_signal(signal.SIGUSR1)

    def kill(process: CommandProcess) -> None:
        if not ended:
            signal.raise_signal(signal.SIGUSR1)
        plain_kill(process)

    plain_kill = CommandProcess._kill  # pyright: ignore[reportPrivateUsage]
    with bench(tmp_path, mode=mode) as shell:
        if holder == "shell":
            monkeypatch.setattr(shell.shell, "_running", Registry())
        else:
            monkeypatch.setattr(CommandProcess, "_kill", kill)
        before = signal.signal(signal.SIGUSR1, lambda *_: ended.append(shell.shell.interrupt()))
        try:
            finished = shell("sleep 1000" if holder == "shell" else "true", seconds=40)
        finally:
            signal.signal(signal.SIGUSR1, before)
    assert ended == [True]
    assert finished.exit_status.cancelled == (holder == "shell")
