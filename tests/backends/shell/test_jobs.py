import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from handhold.backends.shell.jobs import MAX_RUNNING_JOBS
from handhold.core.errors import NoShell, NoSuchJob, SystemFailure
from handhold.core.ports.shell import JobState
from handhold.core.requests import JobInput, JobOutput, JobStop, Run
from tests.backends.shell.shells import MODES, PATIENCE, Bench, alive, appears, bench, gone, marked


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def shell(tmp_path: Path, mode: str) -> Iterator[Bench]:
    with bench(tmp_path, mode=mode) as opened:
        yield opened


def start(shell: Bench, command: str, *, seconds: float = 60) -> JobState:
    return shell.shell.start(Run(command, seconds, 10_000, background=True))


def asked(shell: Bench, job: str, *, offset: int | None = None, chars: int = 10_000) -> JobState:
    return shell.shell.job(JobOutput(job, chars, offset))


def ended(shell: Bench, job: str) -> JobState:
    until = time.monotonic() + PATIENCE
    while (state := asked(shell, job, offset=0)).running and time.monotonic() < until:
        time.sleep(0.02)
    assert not state.running
    return state


def printed(shell: Bench, job: str, text: str) -> None:
    until = time.monotonic() + PATIENCE
    while text not in asked(shell, job, offset=0).output.head:
        assert time.monotonic() < until
        time.sleep(0.02)


def test_c85_a_job_runs_on_while_it_is_asked(shell: Bench):
    state = start(shell, "echo one; read line; echo two $line; read line; echo three $line; exit 7")
    assert state.running
    assert state.exit_status is None
    printed(shell, state.job, "one")
    shell.shell.job(JobInput(state.job, "and\n"))
    printed(shell, state.job, "two and")
    shell.shell.job(JobInput(state.job, "more\n"))
    last = ended(shell, state.job)
    assert last.output.head == "one\ntwo and\nthree more\n"
    assert last.exit_status
    assert last.exit_status.code == 7


def test_c85_each_reply_goes_on_where_the_last_one_ended(shell: Bench):
    state = start(shell, "for n in {1..300}; do echo $n; done; sleep 0.5; echo end")
    ended(shell, state.job)
    seen, offset = "", 0
    while not seen.endswith("end\n"):
        page = asked(shell, state.job, offset=offset, chars=100)
        assert len(page.output.head) <= 100
        assert page.offset == offset
        seen, offset = seen + page.output.head, page.next_offset
    assert seen == "".join(f"{n}\n" for n in range(1, 301)) + "end\n"
    assert asked(shell, state.job).output.head == ""


def test_e17_a_prompt_is_shown_as_soon_as_it_is_printed(shell: Bench):
    state = start(shell, "echo 2; printf '>>> '; read line; echo $line; printf '>>> '; read line")
    printed(shell, state.job, ">>> ")
    assert asked(shell, state.job, offset=0).output.head == "2\n>>> "
    assert asked(shell, state.job, offset=0).next_offset == len("2\n>>> ")
    shell.shell.job(JobInput(state.job, "on\n"))
    printed(shell, state.job, "on\n>>> ")


def test_a_job_that_fails_at_once_says_so_at_once(shell: Bench):
    state = start(shell, "nosuchcommand")
    state = state if state.exit_status else ended(shell, state.job)
    assert state.exit_status
    assert state.exit_status.code == 127
    assert "nosuchcommand" in asked(shell, state.job, offset=0).output.head


def test_c85_a_stopped_job_is_gone_with_all_that_it_started(shell: Bench):
    mark = marked()
    state = start(shell, f"setsid nohup sleep {mark} & (sleep {mark} &) ; trap '' TERM; sleep {mark}")
    assert appears(mark)
    stopped = shell.shell.job(JobStop(state.job))
    assert not stopped.running
    assert stopped.exit_status
    assert stopped.exit_status.cancelled
    assert not alive(mark)
    assert not shell.shell.job(JobStop(state.job)).running  # stopping twice is harmless


def test_a_job_has_a_deadline(shell: Bench):
    mark = marked()
    state = start(shell, f"setsid sleep {mark} & sleep {mark}", seconds=0.6)
    last = ended(shell, state.job)
    assert last.exit_status
    assert last.exit_status.timed_out
    assert not alive(mark)


def test_a_job_outlives_the_thread_that_asked_for_it(shell: Bench):
    states: list[JobState] = []
    thread = threading.Thread(target=lambda: states.append(start(shell, "sleep 0.5; echo there")))
    thread.start()
    thread.join()
    assert ended(shell, states[0].job).output.head == "there\n"


def test_a_job_changes_the_workspace_itself_and_says_so(shell: Bench):
    state = start(shell, "echo x > made")
    ended(shell, state.job)
    assert (shell.ws / "made").read_text() == "x\n"
    assert not state.sandbox.shadow


def test_a_job_cannot_make_what_is_protected(tmp_path: Path):
    with bench(tmp_path) as shell:
        (shell.ws / ".git" / "hooks").mkdir(parents=True)
        state = start(
            shell, "echo x > .git/hooks/pre-commit; mkdir -p .vscode && echo x > .vscode/tasks.json; echo x > .envrc"
        )
        ended(shell, state.job)
        assert sorted(os.listdir(shell.ws)) == [".git"]
        assert os.listdir(shell.ws / ".git" / "hooks") == []


def test_what_is_protected_stays_so_when_another_job_ends(tmp_path: Path):
    """Each covers names that do not exist; removing the placeholder of one would end the other's mount on it."""
    with bench(tmp_path) as shell:
        first = start(shell, "read").job
        second = start(
            shell, "read; mkdir -p .git/hooks && echo x > .git/hooks/post-commit; echo x > .envrc; echo done"
        ).job
        shell.shell.job(JobInput(first, "\n"))
        ended(shell, first)
        third = start(shell, "echo x > .git/config; echo x > .mcp.json").job
        ended(shell, third)
        shell.shell.job(JobInput(second, "\n"))
        assert ended(shell, second).output.head.endswith("done\n")
        assert os.listdir(shell.ws) == []


def test_a_job_that_nobody_knows_names_those_that_are_known(shell: Bench):
    state = start(shell, "true")
    with pytest.raises(NoSuchJob) as unknown:
        asked(shell, "nosuch")
    assert unknown.value.known == (state.job,)


def test_there_are_only_so_many_at_once(shell: Bench):
    jobs = [start(shell, "sleep 100").job for _ in range(MAX_RUNNING_JOBS)]
    assert len(set(jobs)) == MAX_RUNNING_JOBS
    with pytest.raises(NoShell):
        start(shell, "sleep 100")
    shell.shell.job(JobStop(jobs[0]))
    assert start(shell, "sleep 100").running


def test_input_that_is_not_read_is_not_said_to_be_sent(shell: Bench):
    state = start(shell, "sleep 100")
    with pytest.raises(SystemFailure):
        shell.shell.job(JobInput(state.job, "x" * 1_000_000))


def test_a_letter_that_is_half_printed_waits_for_the_rest(shell: Bench):
    state = start(shell, r"printf 'a \xe2\x82'; read; printf '\xac\n'")
    printed(shell, state.job, "a ")
    assert not asked(shell, state.job, offset=0).output.has_undecodable_bytes
    shell.shell.job(JobInput(state.job, "\n"))
    assert ended(shell, state.job).output.head == "a €\n"


def test_a_jobs_whole_output_can_be_read_as_a_file_while_it_runs(shell: Bench):
    state = start(shell, "seq 200000; echo ready; sleep 100")
    until = time.monotonic() + PATIENCE
    while asked(shell, state.job, offset=1_288_895).output.head != "ready\n":
        assert time.monotonic() < until
        time.sleep(0.05)
    handle = asked(shell, state.job, offset=0).output.handle
    assert shell.kept(handle).endswith(b"200000\nready\n")
    assert asked(shell, state.job, offset=0, chars=4).output.head == "1\n2\n"


def test_no_job_outlives_its_shell(tmp_path: Path, mode: str):
    mark = marked()
    with bench(tmp_path, mode=mode) as shell:
        for _ in range(3):
            start(shell, f"setsid nohup sleep {mark} & sleep {mark}")
        assert appears(mark)
    assert not alive(mark)


def test_a_closed_shell_starts_nothing(tmp_path: Path, mode: str):
    with bench(tmp_path, mode=mode) as shell:
        shell.shell.close()
        with pytest.raises(NoShell):
            start(shell, "sleep 100")
        with pytest.raises(NoShell):
            shell("true")


def test_no_job_outlives_the_death_of_the_tool(tmp_path: Path, mode: str):
    mark = marked()
    script = f"""if True:
        import sys, time
        from pathlib import Path
        from handhold.core.requests import Run
        from tests.backends.shell.shells import Bench
        shell = Bench(Path(sys.argv[1]), mode="{mode}")
        shell.shell.start(Run("setsid nohup sleep {mark} & sleep {mark}", 1000, 1000, background=True))
        time.sleep(1000)
    """
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)]) as tool:
        assert appears(mark)
        tool.kill()
    assert gone(mark)


def test_no_descriptor_and_no_thread_is_left_of_jobs(tmp_path: Path, mode: str):
    before, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    with bench(tmp_path, mode=mode) as shell:
        for command in ("true", "sleep 100", "nosuchcommand", "seq 100000"):
            start(shell, command)
    assert len(os.listdir("/proc/self/fd")) == before
    assert threading.active_count() == threads
