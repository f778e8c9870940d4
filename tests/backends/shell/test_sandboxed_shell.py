"""The parts together: a command on its overlay, and without one."""

import os
import shutil
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic

import pytest

from handhold.backends.shell import SandboxedShell, reaper
from handhold.backends.shell.output import OutputSink
from handhold.backends.shell.overlay import OverlayUnavailable, WorkspaceOverlay
from handhold.backends.shell.process import CommandProcess
from handhold.backends.shell.result_store import ResultStore
from handhold.backends.shell.sandbox import create_sandbox
from handhold.core.errors import NoShell, NotFound
from handhold.core.plans import Effects
from handhold.core.policy.protected_names import READ_ONLY_MOUNTS
from handhold.core.requests import JobOutput, Run
from tests.backends.shell.forked import as_user, place, who  # noqa: F401 — fixtures
from tests.backends.shell.shells import Bench, NamesOnly, alive, appears, bench, gone, marked


def changed(shell: Bench, effects: Effects | None) -> set[str]:
    assert effects is not None
    return {os.path.relpath(change.path, shell.ws) for change in effects.files}


def test_a_command_leaves_the_workspace_alone_and_tells_what_it_would_change(who: str, place: Path):  # noqa: F811
    def work() -> None:
        with bench(place) as shell:
            (shell.ws / "old").write_text("old\n")
            with shell.shell.run(Run("echo new > made; rm old; mkdir -p a/b; cat made", 10, 1_000)) as finished:
                assert finished.output.head == "new\n"
                assert changed(shell, finished.effects) == {"made", "old", "a"}
                assert (finished.undo_scope, finished.sandbox.shadow) == ("all", True)
                assert os.listdir(shell.ws) == ["old"]
            assert os.listdir(shell.ws) == ["old"]
            assert shell.shows("cat old") == "old\n"

    as_user(who, work)


def test_a_shadow_that_failed_once_is_tried_again_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def none(*_: object, **__: object) -> WorkspaceOverlay:
        raise OverlayUnavailable("just now")

    with bench(tmp_path) as shell:
        with monkeypatch.context() as broken:
            broken.setattr(WorkspaceOverlay, "create", none)
            with pytest.raises(NoShell), shell.shell.run(Run("true", 10, 100)):
                pass
        assert not shell.shell.sandbox.shadow
        shell.shell._overlay_failure = (shell.shell._overlay_failure[0], monotonic())
        assert shell.shell.sandbox.shadow
        assert shell.shows("echo on") == "on\n"


def test_u9_everything_ends_as_a_plain_user_too(who: str, place: Path):  # noqa: F811
    def work() -> None:
        mark = marked()
        with bench(place) as shell:
            assert shell.shows("cat; echo on") == "on\n"
            assert shell.shows(f"setsid nohup sleep {mark} & (sleep {mark} &); echo hi") == "hi\n"
            assert shell(f"trap '' TERM; setsid sleep {mark} & sleep {mark}", seconds=0.5).exit_status.timed_out
            job = shell.shell.start(Run(f"setsid nohup sleep {mark} & sleep {mark}", 100, 100, background=True)).job
            assert appears(mark)
            assert shell.shell.job(JobOutput(job, 100)).running
        assert not alive(mark)

    as_user(who, work)


def test_u10_long_output_as_a_plain_user_too(who: str, place: Path):  # noqa: F811
    def work() -> None:
        with bench(place) as shell:
            output = shell("seq 3000000").output
            assert output.omitted_lines == 2_999_990
            assert len(shell.kept(output.handle)) == output.kept_bytes == output.total_bytes
            assert shell.shows(f"tail -1 {output.handle}") == "3000000\n"

    as_user(who, work)


def test_e15_a_folder_of_programs_may_come_and_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    programs = tmp_path / "programs/bin"  # below /tmp; commands have a /tmp of their own
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    with bench(tmp_path) as shell:
        for said in ("first", "again"):
            assert shell.shows("command -v mine") == ""
            programs.mkdir(parents=True)
            (programs / "mine").write_text(f"#!/bin/sh\necho {said}\n")
            (programs / "mine").chmod(0o755)
            assert shell.shows("mine") == f"{said}\n"
            shutil.rmtree(programs)


LEAKS = r"""
#include <stdio.h>
#include <stdlib.h>
int main(int count, char **words) {
    char *place = malloc(10);
    if (rename("old", "new")) perror("rename");
    puts("ran");
    if (count > 1) place[10] = 1;
    return 0;
}
"""


@pytest.mark.parametrize("sanitizer", ["address", "leak", "undefined", "thread"])
def test_e10_programs_with_sanitizers_run(tmp_path: Path, sanitizer: str):
    build = ["gcc", f"-fsanitize={sanitizer}", "-o", "program", "program.c"]
    with bench(tmp_path) as shell:
        (shell.ws / "program.c").write_text(LEAKS)
        (shell.ws / "old/inner").mkdir(parents=True)
        if subprocess.run(build, cwd=shell.ws, capture_output=True, check=False).returncode:
            pytest.skip(f"no compiler here, or none with -fsanitize={sanitizer}")
        assert shell.shows("./program && ls new; echo $?") == "ran\ninner\n0\n"
        if sanitizer == "address":
            assert "heap-buffer-overflow" in shell.shows("ASAN_OPTIONS=exitcode=7 ./program x", lines=5)


def test_two_commands_at_once_do_not_see_each_other(tmp_path: Path):
    with (
        bench(tmp_path) as shell,
        shell.shell.run(Run("echo one > same", 10, 1_000)) as first,
        shell.shell.run(Run("ls; echo two > same", 10, 1_000)) as second,
    ):
        assert second.output.head == ""
        assert changed(shell, first.effects) == changed(shell, second.effects) == {"same"}


def test_on_request_a_command_runs_direct_with_what_is_protected_read_only(tmp_path: Path):
    with bench(tmp_path) as shell:
        (shell.ws / ".git").mkdir()
        (shell.ws / ".git" / "config").write_text("[core]\n")
        commands = " ".join(f"echo x > {name}; mkdir -p {name} && echo x > {name}/x;" for name in READ_ONLY_MOUNTS)
        finished = shell(f"echo x > made; {commands}", direct=True)
        assert (finished.undo_scope, finished.effects, finished.sandbox.shadow) == ("file tools only", None, False)
        assert sorted(os.listdir(shell.ws)) == [".git", "made"]
        assert (shell.ws / ".git" / "config").read_text() == "[core]\n"
        assert os.listdir(shell.ws / ".git") == ["config"]


def test_where_there_is_no_shadow_it_is_said_before_and_a_preview_is_refused(tmp_path: Path):
    with bench(tmp_path) as shell:
        without = SandboxedShell(
            shell.files.open_roots, lambda _: None, NamesOnly(str(shell.ws)), state=shell.state, session="s"
        )
        assert not without.sandbox.shadow
        assert "no overlay" in without.sandbox.why_not[-1]
        with pytest.raises(NoShell), without.run(Run("echo x > made", 10, 1_000, preview=True)):
            pass
        assert os.listdir(shell.ws) == []
        with without.run(Run("echo x > made", 10, 1_000, direct=True)) as finished:
            assert (finished.undo_scope, finished.effects) == ("file tools only", None)
        assert os.listdir(shell.ws) == ["made"]
        without.close()


@pytest.mark.root
def test_a_mount_below_the_workspace_means_direct_and_is_named(tmp_path: Path):
    (tmp_path / "ws" / "volume").mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "none", tmp_path / "ws" / "volume"], check=True)
    try:
        with bench(tmp_path) as shell:
            assert any("volume is a mount point" in why for why in shell.shell.sandbox.why_not)
            with pytest.raises(NoShell):
                shell("echo x > volume/made")
            with shell.shell.run(Run("echo x > volume/made", 10, 1_000, direct=True)) as finished:
                assert finished.undo_scope == "file tools only"
            assert (shell.ws / "volume" / "made").exists()
    finally:
        subprocess.run(["umount", tmp_path / "ws" / "volume"], check=True)


def test_a_sandbox_that_cannot_be_made_is_no_exit_status(tmp_path: Path):
    box = create_sandbox("contained")
    assert box.bubblewrap
    sink = OutputSink(ResultStore(tmp_path / "results"))
    launch = box.prepare_launch(
        ["true"], mounts=(), folder="/nosuchfolder", tmp=str(tmp_path), home=str(tmp_path), results=None
    )
    try:
        with pytest.raises(NoShell) as refused:
            CommandProcess(launch, sink, folder="/", bubblewrap=box.bubblewrap.path).wait(10)
        assert "/nosuchfolder" in refused.value.because
    finally:
        launch.close()


def test_a_command_that_is_ended_while_its_sandbox_is_made_leaves_nothing(tmp_path: Path):
    box = create_sandbox("contained")
    assert box.bubblewrap
    mark = marked()
    for _ in range(10):
        sink = OutputSink(ResultStore(tmp_path / "results"))
        launch = box.prepare_launch(
            ["sleep", mark], mounts=(), folder="/", tmp=str(tmp_path), home=str(tmp_path), results=None
        )
        process = CommandProcess(launch, sink, folder="/", bubblewrap=box.bubblewrap.path)
        with ThreadPoolExecutor(1) as waiting:
            ended = waiting.submit(process.wait, 30)
            while not reaper.read_children(process._popen.pid):  # pyright: ignore[reportPrivateUsage]
                pass
            process.cancel()
            assert ended.result().cancelled
        launch.close()
    assert gone(mark)


def test_a_workspace_that_is_gone_is_not_found(tmp_path: Path):
    with bench(tmp_path) as shell:
        shell.ws.rename(tmp_path / "elsewhere")
        with pytest.raises((NotFound, NoShell)):
            shell("echo x")
        (tmp_path / "elsewhere").rename(shell.ws)
        assert shell.shows("echo x") == "x\n"


def test_there_is_no_network_unless_it_is_opened(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        command = f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]} && echo in"
        with bench(tmp_path) as shell:
            assert not shell.shell.sandbox.network
            assert "refused" in shell.shows(command)
        with bench(tmp_path, network=True) as shell:
            assert shell.shell.sandbox.network
            assert shell.shows(command) == "in\n"


def test_a_shell_that_nothing_confines_says_so(tmp_path: Path):
    with bench(tmp_path, mode="unconfined") as shell:
        finished = shell("echo x > made")
        assert (finished.sandbox.by, finished.sandbox.shadow, finished.undo_scope) == (
            "nothing",
            False,
            "file tools only",
        )
        assert (shell.ws / "made").exists()


def test_a_change_that_somebody_made_meanwhile_stays_and_ours_can_be_read(tmp_path: Path):
    mark = marked()
    with bench(tmp_path) as shell:
        (shell.ws / "both").write_text("old\n")

        def theirs(_: str) -> None:
            (shell.ws / "both").write_text("theirs\n")

        with shell.shell.run(Run(f"echo ours > both; echo {mark}; sleep 0.3", 10, 1_000), on_output=theirs) as finished:
            assert finished.effects
            assert finished.effects.files == ()
            conflict = finished.effects.conflicts[0]
        assert conflict.path == f"{shell.ws}/both"
        assert conflict.kept_path.startswith("/large_tool_results/conflicts/")
        assert shell.files.read(conflict.kept_path).data == b"ours\n"
        assert shell.shows(f"cat {conflict.kept_path} both") == "ours\ntheirs\n"
