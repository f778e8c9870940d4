"""The next shell ends what a killed one left behind, and nothing else."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handhold.backends.shell.orphans import (
    TOOL_ID_PATTERN,
    TOOL_VARIABLE,
    build_tool_environment,
    build_tool_id,
    kill_orphans,
)
from tests.backends.shell.people import NOBODY, ROOT
from tests.backends.shell.shells import PATIENCE


@contextmanager
def of_tool(tool: str | bytes, **options: object) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"], env={TOOL_VARIABLE: tool}, **options) as process:  # pyright: ignore[reportArgumentType, reportCallIssue]
        try:
            yield process
        finally:
            process.kill()


def gone_tool() -> str:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as tool:
        return build_tool_id(tool.pid)


def ended(process: subprocess.Popen[bytes]) -> bool:
    return process.wait(PATIENCE) == -9


def lives(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(0.5)
    except subprocess.TimeoutExpired:
        return True
    return False


def test_u9_a_sandbox_whose_tool_is_gone_is_ended_by_the_next_shell():
    with of_tool(gone_tool()) as left:
        kill_orphans()
        assert ended(left)


def test_a_sandbox_whose_tool_lives_is_left_alone():
    with of_tool(build_tool_id(os.getpid())) as running:
        kill_orphans()
        assert lives(running)


def test_the_same_number_at_another_time_is_another_tool():
    number, _, place = build_tool_id(os.getpid()).split("-", 2)
    with of_tool(f"{number}-1-{place}") as left:
        kill_orphans()
        assert ended(left)


def test_what_counts_its_numbers_elsewhere_is_left_alone():
    with of_tool(gone_tool().replace("pid:[", "pid:[9")) as elsewhere:
        kill_orphans()
        assert lives(elsewhere)


def test_a_process_is_marked_for_as_long_as_it_is_itself():
    assert build_tool_environment(os.getpid()) == {TOOL_VARIABLE: build_tool_id(os.getpid())}
    time.sleep(0.02)
    assert build_tool_environment(os.getpid()) == {TOOL_VARIABLE: build_tool_id(os.getpid())}


def test_the_command_does_not_see_the_mark(tmp_path):
    from handhold import Toolbox

    (tmp_path / "ws").mkdir()
    with Toolbox.open(tmp_path / "ws", state=tmp_path / "state", policy="open") as box:
        printed = box.call("bash", {"command": "env; cat /proc/self/environ"}).text
    assert "PATH=" in printed
    assert TOOL_VARIABLE not in printed


MALFORMED = {
    "a word": "x",
    "nothing": "",
    "no number": "x-1-{here}",
    "a negative number": "-1-1-{here}",
    "a number too long to be one": f"{'9' * 5000}-1-{{here}}",
    "digits of another script": "١-1-{here}",
    "a path": "1/../self-1-{here}",
    "not text": b"\xff-1-{here}",
}


@pytest.mark.parametrize("mark", MALFORMED.values(), ids=MALFORMED.keys())
def test_r19_a_malformed_mark_is_not_ours(mark: str | bytes):
    here = os.readlink("/proc/self/ns/pid")
    filled = mark.replace(b"{here}", here.encode()) if isinstance(mark, bytes) else mark.replace("{here}", here)
    with of_tool(filled) as somebodys:
        kill_orphans()
        assert lives(somebodys)


@given(st.text())
def test_r19_only_what_we_write_has_the_form_of_a_mark(text: str):
    assert TOOL_ID_PATTERN.fullmatch(build_tool_id(os.getpid()))
    if match := TOOL_ID_PATTERN.fullmatch(text):
        assert int(match["pid"]) > 0


@pytest.mark.root
@pytest.mark.skipif(not ROOT, reason="needs root")
@pytest.mark.parametrize("uids", [{"user": NOBODY}, {"preexec_fn": lambda: os.setresuid(NOBODY, 0, 0)}])
def test_r19_a_process_of_another_user_is_left_alone(uids: dict[str, object]):
    """Even if it runs as us but somebody else started it, as with set-user-id programs: its environment is theirs."""
    with of_tool(gone_tool(), **uids) as theirs:
        kill_orphans()
        assert lives(theirs)
