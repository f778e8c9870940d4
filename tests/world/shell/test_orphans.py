"""What a tool that was killed left behind is ended by the next one, and nothing else is."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from handhold.world.shell.orphans import MARK, end_orphans, mark, named
from tests.world.shell.shells import PATIENCE


@contextmanager
def of_tool(tool: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"], env={MARK: tool}) as process:
        try:
            yield process
        finally:
            process.kill()


def gone_tool() -> str:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as tool:
        return named(tool.pid)


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
        end_orphans()
        assert ended(left)


def test_a_sandbox_whose_tool_lives_is_left_alone():
    with of_tool(named(os.getpid())) as running:
        end_orphans()
        assert lives(running)


def test_the_same_number_at_another_time_is_another_tool():
    number, _, place = named(os.getpid()).split("-", 2)
    with of_tool(f"{number}-1-{place}") as left:
        end_orphans()
        assert ended(left)


def test_what_counts_its_numbers_elsewhere_is_left_alone():
    with of_tool(gone_tool().replace("pid:[", "pid:[9")) as elsewhere:
        end_orphans()
        assert lives(elsewhere)


def test_a_process_is_marked_for_as_long_as_it_is_itself():
    assert mark(os.getpid()) == {MARK: named(os.getpid())}
    time.sleep(0.02)
    assert mark(os.getpid()) == {MARK: named(os.getpid())}


def test_the_command_does_not_see_the_mark(tmp_path):
    from handhold import Toolbox

    (tmp_path / "ws").mkdir()
    with Toolbox.open(tmp_path / "ws", state=tmp_path / "state", policy="open") as box:
        printed = box.call("bash", {"command": "env; cat /proc/self/environ"}).text
    assert "PATH=" in printed
    assert MARK not in printed
