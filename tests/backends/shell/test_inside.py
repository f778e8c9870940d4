"""The launcher by itself: the second barrier must hold without the first."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from handhold.backends.shell.sandbox_support import LANDLOCK_SCOPES_VERSION, LANDLOCK_USABLE, detect_sandbox_support

LAUNCHER = detect_sandbox_support().launcher
pytestmark = pytest.mark.skipif(not LAUNCHER, reason="the launcher was not built")
landlocked = pytest.mark.skipif(
    detect_sandbox_support().landlock < LANDLOCK_USABLE, reason="no Landlock in this kernel"
)


def run(*words: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([LAUNCHER, *words], cwd=cwd, env=env, capture_output=True, text=True, check=False)


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    for name in ("open", "shut"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("old\n")
    return tmp_path / "open", tmp_path / "shut"


ATTACKS = {
    "write": "echo x >>{0}/file",
    "truncate": "truncate -s 0 {0}/file",
    "make": "echo x >{0}/new",
    "delete": "rm {0}/file",
    "make a folder": "mkdir {0}/folder",
    "make a link": "ln -s x {0}/link",
    "make a pipe": "mkfifo {0}/pipe",
    "link": "ln {0}/file {0}/file2",
    "move within": "mv {0}/file {0}/file2",
}


@landlocked
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
def test_it_writes_where_it_may_and_nowhere_else(two: tuple[Path, Path], attack: str):
    may, may_not = two
    before = {path.name: path.read_text() for path in may_not.iterdir()}
    done = run("-w", str(may), "--", "sh", "-c", attack.format(may_not))
    assert done.returncode != 0
    assert "Permission denied" in done.stderr
    assert {path.name: path.read_text() for path in may_not.iterdir()} == before
    assert run("-w", str(may), "--", "sh", "-c", attack.format(may)).returncode == 0
    assert run("--", "sh", "-c", attack.format(may_not)).returncode == 0


@landlocked
def test_a_file_moves_between_folders_that_are_open_and_not_out_of_them(two: tuple[Path, Path]):
    may, may_not = two
    (may / "sub").mkdir()
    assert run("-w", str(may), "--", "mv", "-n", "file", "sub/file", cwd=may).returncode == 0
    # mv falls back to copying if it cannot rename, so it is told not to
    rename = f"import os; os.rename('{may_not}/file', '{may}/taken')"
    assert run("-w", str(may), "--", sys.executable, "-c", rename).returncode != 0
    assert (may_not / "file").exists()


@landlocked
def test_a_single_file_can_be_open(two: tuple[Path, Path]):
    may, may_not = two
    assert run("-w", str(may_not / "file"), "--", "sh", "-c", f"echo x >{may_not}/file").returncode == 0
    assert run("-w", str(may_not / "file"), "--", "sh", "-c", f"rm {may_not}/file").returncode != 0
    assert run("-w", str(may / "gone"), "--", "sh", "-c", f"echo x >{may}/file").returncode != 0


@pytest.mark.skipif(detect_sandbox_support().landlock < LANDLOCK_SCOPES_VERSION, reason="needs Landlock 6")
def test_signals_and_abstract_sockets_stay_inside(tmp_path: Path):
    name = f"handhold-inside-{os.getpid()}"
    with subprocess.Popen(["sleep", "60"]) as victim, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{name}")
        listener.listen()
        try:
            knock = f"import socket; socket.socket(socket.AF_UNIX).connect('\\0{name}')"
            for flags, expected in ((("-w", "/tmp", "-s"), False), (("-w", "/tmp"), True)):
                assert (run(*flags, "--", "kill", "-0", str(victim.pid)).returncode == 0) is expected
                assert (run(*flags, "--", sys.executable, "-c", knock).returncode == 0) is expected
        finally:
            victim.kill()


def test_it_gives_up_privileges_and_core_files():
    done = run("--", "sh", "-c", "grep NoNewPrivs /proc/self/status; ulimit -Hc").stdout.split()
    assert done == ["NoNewPrivs:", "1", "0"]


def test_limits_are_set_and_never_raised():
    assert run("-m", "200000000", "-p", "100", "--", "bash", "-c", "ulimit -Hv -Hu").stdout.split()[-1] == "100"
    lowered = run("-p", "50", "--", LAUNCHER, "-p", "100", "--", "bash", "-c", "ulimit -Hu")
    assert lowered.stdout == "50\n"


def test_a_command_is_found_as_a_shell_would(tmp_path: Path):
    for folder, mode in (("first", 0o644), ("second", 0o755)):
        (tmp_path / folder).mkdir()
        program = tmp_path / folder / "program"
        program.write_text(f"#!/bin/sh\necho {folder} $*\n")
        program.chmod(mode)
    path = {"PATH": f"{tmp_path}/none:{tmp_path}/first::{tmp_path}/second"}
    assert run("--", "program", "a b", "", env=path).stdout == "second a b\n"
    assert run("--", "./program", cwd=tmp_path / "second", env={}).stdout == "second\n"
    assert run("--", "program", env={}).returncode == 127
    assert run("--", "program", env={"PATH": f"{tmp_path}/first"}).returncode == 126
    assert run("--", str(tmp_path), env=path).returncode == 126


def test_arguments_pass_through_untouched():
    words = ["-w", "--", "", "a b", "é", "\n", "-s"]
    done = run("--", "printf", "%s|", *words)
    assert done.stdout == "".join(f"{word}|" for word in words)


@pytest.mark.parametrize("words", [("-x", "--", "true"), ("-w",), ("-m", "many", "--", "true"), ("true",), (), ("--",)])
def test_what_it_does_not_understand_it_does_not_run(words: tuple[str, ...]):
    done = run(*words)
    assert done.returncode == 125
    assert done.stderr.startswith("handhold: ")


def test_a_command_whose_output_nobody_can_read_is_not_begun(tmp_path: Path):
    """This happens if the caller was killed while the sandbox was being set up."""
    for closed in (True, False):
        reader, writer = os.pipe()
        if closed:
            os.close(reader)
        subprocess.run([LAUNCHER, "--", "touch", "made"], cwd=tmp_path, stdout=writer, stderr=writer, check=False)
        assert (tmp_path / "made").exists() is not closed
        os.close(writer)
    os.close(reader)
