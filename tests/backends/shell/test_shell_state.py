import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from handhold.backends.shell.cleanup import STAMP_FILE
from handhold.core.requests import Run
from tests.backends.shell.shells import MODES, Bench, bench


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def shell(tmp_path: Path, mode: str) -> Iterator[Bench]:
    """Its working directory and its exports persist."""
    with bench(tmp_path, mode=mode, persistence="exports") as opened:
        (opened.ws / "src" / "deep down").mkdir(parents=True)
        yield opened


def test_c86_the_working_directory_lasts(shell: Bench):
    assert shell("cd src && cd 'deep down'").cwd == f"{shell.ws}/src/deep down"
    assert shell.shows("pwd") == f"{shell.ws}/src/deep down\n"
    assert shell.shows("cd ../..; pwd") == f"{shell.ws}\n"


def test_c86_exports_last_and_other_variables_do_not(shell: Bench):
    shell("export KEPT=$'two\\nlines = \\\\'; other=1; export PATH=/opt/mine:$PATH")
    assert shell.shows('printf "%s|%s" "$KEPT" "$other"') == "two\nlines = \\|"
    assert shell.shows("echo $PATH").startswith("/opt/mine:")
    shell("export KEPT=new")
    shell("true")
    assert shell.shows("echo $KEPT") == "new\n"
    shell("unset KEPT")
    assert shell.shows("echo ${KEPT-gone}") == "gone\n"


def test_c86_what_was_not_exported_is_not_remembered(shell: Bench, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LANG", "C.UTF-8")
    shell("export KEPT=1")
    monkeypatch.setenv("LANG", "C")
    assert shell.shows("echo $LANG $KEPT") == "C 1\n"


def test_c86_where_only_the_folder_lasts_exports_do_not(tmp_path: Path, mode: str):
    with bench(tmp_path, mode=mode, persistence="folder") as shell:
        shell("cd /tmp; export KEPT=1")
        assert shell.shows("pwd; echo ${KEPT-gone}") == "/tmp\ngone\n"


def test_c86_where_nothing_lasts_nothing_does(tmp_path: Path, mode: str):
    with bench(tmp_path, mode=mode) as shell:
        assert shell("cd /; export KEPT=1").cwd == str(shell.ws)
        assert shell.shows("pwd; echo ${KEPT-gone}") == f"{shell.ws}\ngone\n"


def test_a_folder_that_is_gone_is_left_for_the_root(shell: Bench):
    shell("cd src")
    (shell.ws / "src").rename(shell.ws / "other")
    assert shell.shows("pwd") == f"{shell.ws}\n"


def test_a_folder_that_did_not_count_is_left_for_the_root(tmp_path: Path):
    with bench(tmp_path, persistence="folder") as shell:
        assert shell("mkdir made; cd made").cwd == f"{shell.ws}/made"  # an overlay that was not committed
        assert shell.shows("pwd") == f"{shell.ws}\n"


@pytest.mark.parametrize(
    "command", ["exit 3", "set -e; false", "nosuchcommand", "kill -TERM $$", "cd src; exit 4", "(exit 5)"]
)
def test_lasting_changes_no_exit_status(shell: Bench, mode: str, tmp_path: Path, command: str):
    (tmp_path / "plain").mkdir()
    with bench(tmp_path / "plain", mode=mode) as plain:
        (plain.ws / "src").mkdir()
        assert shell(command).exit_status.code == plain(command).exit_status.code


def test_lasting_says_nothing_through_the_output(shell: Bench):
    assert shell("cd src; export A=1").output.total_bytes == 0


def test_a_command_finds_nothing_of_ours_in_its_variables(shell: Bench):
    assert "HANDHOLD" not in shell.shows("env; set")
    assert "BASH_ENV" not in shell.shows("env")
    assert shell.shows("echo ${OLDPWD-none}") == "none\n"


def test_what_a_shell_says_of_itself_is_data_and_never_run(shell: Bench):
    shell("export X='$(touch ran)' Y='`touch ran`' 'Z=\"; touch ran; \"'")
    shell("true", direct=True)
    assert not (shell.ws / "ran").exists()
    assert shell.shows('echo "$X"') == "$(touch ran)\n"


def test_too_many_exports_are_forgotten_and_the_command_counts(shell: Bench):
    shell("export KEPT=1")
    finished = shell(
        "cd src; export LARGE=$(head -c 100000 /dev/zero | tr '\\0' x) MORE=$(head -c 100000 /dev/zero | tr '\\0' x); true"
    )
    assert finished.exit_status.code == 0
    assert finished.output.total_bytes == 0
    assert shell.shows("echo $KEPT ${#LARGE}; pwd") == f"1 0\n{shell.ws}\n"


def test_a_shell_that_timed_out_leaves_things_as_they_were(shell: Bench):
    shell("cd src")
    shell("cd ..; sleep 10", seconds=0.3)
    assert shell.shows("pwd") == f"{shell.ws}/src\n"


def test_c86_tmp_is_private_and_lasts_for_the_session(tmp_path: Path):
    with bench(tmp_path) as shell:
        shell("echo x > /tmp/handhold-kept")
        assert shell.shows("cat /tmp/handhold-kept") == "x\n"
        assert not Path("/tmp/handhold-kept").exists()
    with bench(tmp_path) as again:
        assert again.shows("cat /tmp/handhold-kept") == "x\n"
    with bench(tmp_path, session="other") as other:
        assert other("cat /tmp/handhold-kept").exit_status.code == 1


@pytest.mark.parametrize("session", ["..", "../../x", "a/b", "", ".", "x" * 300, "né"])
def test_no_session_is_so_named_that_its_tmp_lies_elsewhere(tmp_path: Path, session: str):
    with bench(tmp_path, session=session) as shell:
        shell("echo x > /tmp/here")
        assert list((shell.state / "sessions").glob("*/tmp/here"))


def test_c86_home_is_a_layer_of_the_workspace_that_is_never_committed(tmp_path: Path):
    with (
        bench(tmp_path) as shell,
        shell.shell.run(Run("mkdir -p ~/.cache; echo x > ~/.cache/y", 10, 1_000)) as finished,
    ):
        assert finished.effects is not None
        assert finished.effects.files == ()
        assert shell.shows("cat ~/.cache/y") == "x\n"


def test_the_tmp_of_a_session_that_nobody_used_for_a_week_goes(tmp_path: Path):
    with bench(tmp_path, session="old") as shell:
        shell("mkdir -p /tmp/a/b; echo x > /tmp/a/b/c; chmod 500 /tmp/a/b")
    with bench(tmp_path, session="used") as shell:
        shell("echo x > /tmp/kept")
        long_ago = time.time() - 8 * 24 * 3600
        os.utime(shell.state / "sessions" / "old", (long_ago, long_ago))
        os.utime(shell.state / "sessions" / "used" / "tmp", (long_ago, long_ago))
        os.utime(shell.state / "sessions" / STAMP_FILE, (long_ago, long_ago))
    with bench(tmp_path, session="new") as shell:
        assert sorted(os.listdir(shell.state / "sessions")) == [STAMP_FILE, "used"]
        shell("true")
        assert sorted(os.listdir(shell.state / "sessions")) == [STAMP_FILE, "new", "used"]
