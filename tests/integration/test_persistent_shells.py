"""C-86: what lasts from one command to the next, by dialect: nothing in `gemini`, the folder in `claude`, exports too in
`anthropic`; and what ends a shell ends one command, never the next."""

import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from handhold import Toolbox
from handhold.core.results import Reply
from tests.scale import scaled
from tests.suites.machine import has_shadows

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine"),
]

TOOLS = {"claude": "Bash", "anthropic": "bash", "gemini": "run_shell_command"}
LASTING = ("claude", "anthropic")
MANY = scaled(20, 1_000)
SAMPLE = scaled(6, 15)


class Shell:
    """The shell of one dialect, on a workspace with a folder `src`."""

    def __init__(self, box: Toolbox, workspace: Path, dialect: str) -> None:
        self.box, self.workspace, self.dialect = box, workspace, dialect

    def run(self, command: str, **arguments: str) -> Reply:
        return self.box.call(TOOLS[self.dialect], {"command": command, **arguments})

    def shows(self, command: str, **arguments: str) -> str:
        """What it printed, without the remarks of the reply."""
        text = self.run(command, **arguments).text
        return "" if text.startswith("[No output.") else text[: text.rindex("\n[Exit status")]

    @property
    def folder(self) -> str:
        return os.path.relpath(self.shows("pwd"), self.workspace)


@pytest.fixture
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shell]:
    workspace = tmp_path.resolve() / "ws"
    (workspace / "src/deep").mkdir(parents=True)
    with Toolbox.open(workspace, state=tmp_path / "state", dialect=request.param, settings=False) as box:
        yield Shell(box, workspace, request.param)


def of(*dialects: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("shell", dialects, indirect=True)


@of(*LASTING)
def test_c86_the_folder_lasts(shell: Shell):
    assert shell.folder == "."
    shell.run("cd src/deep")
    assert shell.folder == "src/deep"
    shell.run("cd .. && echo x > made")
    assert (shell.workspace / "src/made").exists()
    assert shell.folder == "src"


@of(*LASTING)
def test_c86_a_folder_that_undo_removed_is_left_for_the_root(shell: Shell):
    shell.run("mkdir new && cd new && touch f")
    assert shell.folder == "new"
    assert shell.box.undo().status == "success"
    assert shell.folder == "."


@of("gemini")
def test_c86_nothing_lasts_and_each_command_names_its_folder(shell: Shell):
    shell.run("cd src; export KEPT=1")
    assert shell.folder == "."
    assert shell.shows("echo ${KEPT-gone}") == "gone"
    assert shell.shows("pwd", dir_path="src/deep") == f"{shell.workspace}/src/deep"
    assert shell.folder == "."


@of("anthropic")
def test_c86_exported_variables_and_functions_last_and_others_do_not(shell: Shell):
    shell.run("export KEPT='a b'; other=1; kept() { echo \"kept $1\"; }; lost() { echo lost; }; export -f kept")
    assert (
        shell.shows('echo "$KEPT" ${other-gone}; kept too; lost 2>/dev/null || echo gone') == "a b gone\nkept too\ngone"
    )
    shell.run("unset KEPT; unset -f kept")
    assert shell.shows("echo ${KEPT-gone}; kept 2>/dev/null || echo gone") == "gone\ngone"


@of("claude")
def test_c86_variables_and_functions_do_not_last(shell: Shell):
    shell.run("export KEPT=1; f() { echo f; }; export -f f")
    assert shell.shows("echo ${KEPT-gone}; f 2>/dev/null || echo gone") == "gone\ngone"


@of("anthropic")
@pytest.mark.slow
def test_c86_an_activated_environment_lasts_until_restart(shell: Shell):
    shell.run("python3 -m venv --without-pip .venv && . .venv/bin/activate")
    assert shell.shows("command -v python") == f"{shell.workspace}/.venv/bin/python"
    assert shell.shows("python -c 'import sys; print(sys.prefix)'") == f"{shell.workspace}/.venv"
    assert shell.box.call("bash", {"restart": True}).status == "success"
    assert shell.shows("echo ${VIRTUAL_ENV-none}") == "none"


@of(*TOOLS)
def test_c86_a_process_in_the_background_of_a_command_ends_with_it(shell: Shell):
    begun = time.monotonic()
    assert shell.shows("(sleep 60; echo late > late) & echo started") == "started"
    assert shell.shows("jobs; pgrep -x sleep || echo none") == "none"
    assert time.monotonic() - begun < 30
    assert not (shell.workspace / "late").exists()


@of(*TOOLS)
def test_c86_an_exit_trap_of_a_command_runs_once_and_is_gone(shell: Shell):
    assert shell.shows("trap 'echo bye; echo x >> trapped' EXIT; echo work") == "work\nbye"
    assert shell.shows("echo next") == "next"
    assert (shell.workspace / "trapped").read_text() == "x\n"


ENDINGS = {
    "set -e; false; echo never": 1,
    "set -euo pipefail; false | true; echo never": 1,
    "exit 7": 7,
    "exec false": 1,
    "kill -9 $$": 137,
    "kill -TERM $$": 143,
    "set -u; echo $missing_one": 127,
    "if then": 2,
}


@of(*LASTING)
@pytest.mark.parametrize("command", ENDINGS)
def test_c86_what_ends_the_shell_ends_one_command(shell: Shell, command: str):
    shell.run("cd src; export KEPT=1")
    assert shell.run(command).data["exit_status"] == ENDINGS[command]
    assert shell.folder == "src"
    assert shell.shows("set -o | grep -c 'errexit.*on'; false; echo alive").endswith("alive")
    assert shell.shows("echo ${KEPT-gone}") == ("1" if shell.dialect == "anthropic" else "gone")


@of(*LASTING)
def test_c86_a_command_that_fails_half_way_keeps_the_folder_it_came_to(shell: Shell):
    assert shell.run("set -e; cd src; false; cd deep").data["exit_status"] == 1
    assert shell.folder == "src"


@of("anthropic")
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_c86_many_commands_in_one_shell_cost_the_same_and_leave_nothing_open(shell: Shell):
    """A few of them; 1,000 by `just nightly`."""
    shell.run("export COUNT=0; cd src")
    open_before = len(os.listdir("/proc/self/fd"))
    seconds: list[float] = []
    for _ in range(MANY):
        begun = time.perf_counter()
        assert shell.run("COUNT=$((COUNT + 1)); echo $COUNT > count").status == "success"
        seconds.append(time.perf_counter() - begun)
    first, last = statistics.median(seconds[:SAMPLE]), statistics.median(seconds[-SAMPLE:])
    print(f"{MANY} commands, median of the first {first * 1e3:.0f} ms, of the last {last * 1e3:.0f} ms")
    assert shell.shows("echo $COUNT; cat count") == f"{MANY}\n{MANY}"
    assert shell.folder == "src"
    assert len(os.listdir("/proc/self/fd")) <= open_before + 3
    assert last <= 3 * first + 0.1
    assert shell.box.undo().status == "success"
    assert (shell.workspace / "src/count").read_text() == f"{MANY - 1}\n"
