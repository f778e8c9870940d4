"""How a command ends, and that nothing of it remains: it is the first half of a transaction, so it must end."""

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from handhold.core.errors import NoShell, SystemFailure
from handhold.core.facts import ExitStatus
from tests.backends.shell.shells import MODES, Bench, alive, appears, bare, bench, gone, marked
from tests.counting import no_free_numbers
from tests.scale import scaled


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def shell(tmp_path: Path, mode: str) -> Iterator[Bench]:
    with bench(tmp_path, mode=mode) as opened:
        yield opened


# --- how it ends


def test_c81_a_failing_command_is_a_result(shell: Bench):
    finished = shell("echo out; echo err >&2; exit 3")
    assert (finished.exit_status.code, finished.exit_status.signal, finished.output.head) == (3, "", "out\nerr\n")
    assert 0 < finished.exit_status.seconds < 20


def test_c81_both_streams_come_in_the_order_they_were_written(shell: Bench):
    assert shell.shows("for n in 1 2 3; do echo $n; echo $n >&2; done") == "1\n1\n2\n2\n3\n3\n"


@pytest.mark.parametrize(
    ("command", "code", "name"),
    [("kill -9 $$", 137, "SIGKILL"), ("kill -TERM $$", 143, "SIGTERM"), ("sh -c 'kill -SEGV $$'", 139, "SIGSEGV")],
)
def test_a_command_that_a_signal_ended_names_it(shell: Bench, command: str, code: int, name: str):
    ended = shell(command).exit_status
    assert (ended.code, ended.signal) == (code, name)


def test_a_status_that_is_no_signal_names_none(shell: Bench):
    assert shell("exit 255").exit_status.signal == ""
    assert shell("exit 128").exit_status.signal == ""


def test_a_program_whose_reader_is_gone_ends_silently(shell: Bench):
    assert shell.shows("yes | head -1") == "y\n"


def test_u9_cat_returns_at_once(shell: Bench):
    finished = shell("cat; read line; echo done")
    assert finished.output.head == "done\n"
    assert finished.exit_status.seconds < 5


@pytest.mark.alone
def test_u9_a_shell_that_leaves_something_behind_has_ended_all_the_same(shell: Bench):
    took: list[float] = []
    for _ in range(3):  # other load may slow this machine down
        mark = marked()
        began = time.perf_counter()
        assert shell.shows(f"sleep {mark} & echo hi") == "hi\n"
        took.append(time.perf_counter() - began)
        assert not alive(mark)
    assert min(took) < 1


def test_u9_a_timeout_kills_the_whole_tree(shell: Bench):
    mark = marked()
    finished = shell(
        f"echo begun; sleep {mark} & (trap '' TERM; setsid sleep {mark} & sleep {mark}); wait", seconds=1.5
    )
    assert finished.exit_status.timed_out
    assert finished.exit_status.code is None
    assert 1.5 <= finished.exit_status.seconds < 6
    assert finished.output.head == "begun\n"
    assert not alive(mark)


def test_what_was_printed_before_the_end_is_all_there(shell: Bench):
    assert shell("head -c 900000 /dev/zero | tr '\\0' x").output.total_bytes == 900_000


def test_what_something_left_behind_printed_until_then_is_there(shell: Bench):
    assert "late" in shell.shows("(sleep 0.1; echo late; sleep 100) & sleep 0.5")


def test_a_command_is_an_argument_and_never_interpolated(shell: Bench):
    command = """echo "$0" '$x' "`echo a`" $# \\\n; echo 'it'"'"'s'"""
    assert shell.shows(command) == bare(command).stdout.decode()


def test_a_command_longer_than_an_argument_runs(shell: Bench):
    assert shell.shows(": " + "x" * 300_000 + "\necho done") == "done\n"


def test_a_command_that_no_program_can_be_given_is_refused(shell: Bench):
    with pytest.raises(NoShell):
        shell("echo \0")


def test_a_syntax_error_is_bashs_own(shell: Bench):
    finished = shell("if")
    assert finished.exit_status.code == 2
    assert "syntax error" in finished.output.head


def test_odd_names_and_words_come_through(shell: Bench):
    assert shell.shows("echo 'ü \udcff'; printf '\\xff'").encode() == "ü \ufffd\n\ufffd".encode()


# --- six ways to become a daemon

DAEMONS = {
    "setsid nohup": "setsid nohup sleep {mark} >/dev/null 2>&1 &",
    "double fork": "(setsid bash -c 'sleep {mark} >/dev/null 2>&1 & exec >&- 2>&-; exit' & ) & wait",
    "ignored TERM": """bash -c 'trap "" TERM HUP INT QUIT; while :; do sleep 0.1; done' {mark} >/dev/null 2>&1 &""",
    "fork chain": """bash -c 'next() {{ sleep 0.002; next & }}; next &' {mark} >/dev/null 2>&1 &""",
    "disown": "sleep {mark} >/dev/null 2>&1 & disown -a",
    "reparented": "(sleep {mark} </dev/null >/dev/null 2>&1 &)",
}
LATER = "\nsleep 0.03"


@pytest.mark.parametrize("kind", DAEMONS)
def test_daemons_of_these_kinds_do_outlive_a_bare_shell(kind: str):
    mark = marked()
    group = int(bare("echo $$\n" + DAEMONS[kind].format(mark=mark) + LATER).stdout)
    try:
        assert appears(mark)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)  # no fork escapes that
        for pid in alive(mark):  # processes that made a group of their own and do not fork again
            with suppress(ProcessLookupError):
                os.killpg(os.getpgid(pid), signal.SIGKILL)
    assert gone(mark)


@pytest.mark.parametrize("kind", DAEMONS)
def test_c80_no_daemon_outlives_its_command(shell: Bench, kind: str):
    mark = marked()
    for _ in range(5):
        shell(DAEMONS[kind].format(mark=mark) + LATER)
        assert not alive(mark)


@pytest.mark.parametrize("kind", DAEMONS)
def test_c80_no_daemon_outlives_a_time_limit(shell: Bench, kind: str):
    mark = marked()
    assert shell(DAEMONS[kind].format(mark=mark) + "\nsleep 100", seconds=0.6).exit_status.timed_out
    assert not alive(mark)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", DAEMONS)
def test_c80_of_many_daemons_none_is_left(tmp_path: Path, kind: str):
    mark = marked()
    with bench(tmp_path) as shell:
        for _ in range(scaled(8, 200)):
            shell(DAEMONS[kind].format(mark=mark) + LATER)
            assert not alive(mark)


# --- ended from outside


def test_an_interruption_from_another_thread_ends_a_command(shell: Bench):
    mark = marked()
    ended: list[ExitStatus] = []
    thread = threading.Thread(target=lambda: ended.append(shell(f"setsid sleep {mark} & sleep {mark}").exit_status))
    thread.start()
    assert appears(mark)
    shell.shell.interrupt()
    thread.join()
    assert ended[0].cancelled
    assert not alive(mark)


def test_an_interruption_of_nothing_is_harmless(shell: Bench):
    shell.shell.interrupt()
    assert shell.shows("echo on") == "on\n"


def test_nothing_of_a_cancelled_command_counts(tmp_path: Path):
    mark = marked()
    effects: list[object] = []
    with bench(tmp_path) as shell:
        thread = threading.Thread(target=lambda: effects.append(shell(f"echo x > made; sleep {mark}").effects))
        thread.start()
        assert appears(mark)
        shell.shell.interrupt()
        thread.join()
        assert shell.shell.sandbox.shadow
        assert effects[0] is not None
        assert not effects[0].files  # pyright: ignore[reportAttributeAccessIssue]


def test_ctrl_c_kills_the_command_and_goes_on_up(shell: Bench):
    mark = marked()
    descriptors = open_descriptors()
    main = threading.main_thread().ident
    assert main

    def press() -> None:
        appears(mark)
        signal.pthread_kill(main, signal.SIGINT)

    waiting = threading.Thread(target=press)
    waiting.start()
    with pytest.raises(KeyboardInterrupt):
        shell(f"sleep {mark} & sleep {mark}")
    waiting.join()
    assert not alive(mark)
    assert open_descriptors() == descriptors
    assert shell.shows("echo on") == "on\n"


def test_a_watcher_that_fails_ends_the_command(shell: Bench):
    mark = marked()

    def fail(_: str) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        shell(f"echo x; sleep {mark}", watch=fail)
    assert not alive(mark)


def test_nothing_outlives_the_death_of_the_tool(tmp_path: Path, mode: str):
    mark = marked()
    script = f"""if True:
        import sys
        from pathlib import Path
        from tests.backends.shell.shells import Bench
        Bench(Path(sys.argv[1]), mode="{mode}")("setsid nohup sleep {mark} & sleep {mark}", seconds=1000)
    """
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)]) as tool:
        assert appears(mark)
        tool.kill()
    assert gone(mark)


def test_where_orphans_come_to_us_none_is_left_unburied(tmp_path: Path, mode: str):
    """As in a container, where the tool may be the first process."""
    script = f"""if True:
        import ctypes, os, sys
        from pathlib import Path
        from tests.backends.shell.shells import Bench
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
        shell = Bench(Path(sys.argv[1]), mode="{mode}")
        shell("true")
        def buried():
            try:
                return os.waitpid(-1, os.WNOHANG)[0] or sys.exit("something lives")
            except ChildProcessError:
                return 0
        while buried():  # what was tried once, to see what the machine can do
            pass
        for _ in range(5):
            shell("setsid sleep 100 & (sleep 100 &); true")
            shell("sleep 100", seconds=0.3)
        sys.exit(buried())
    """
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True)


# --- while it runs


def test_u20_output_arrives_while_the_command_runs(shell: Bench):
    moments: list[tuple[float, str]] = []
    shell("for n in 1 2 3; do echo $n; sleep 0.5; done", watch=lambda text: moments.append((time.monotonic(), text)))
    assert "".join(text for _, text in moments) == "1\n2\n3\n"
    assert moments[-1][0] - moments[0][0] > 0.4


def test_a_watcher_is_called_at_most_twenty_times_a_second(shell: Bench):
    calls: list[str] = []
    finished = shell("for n in {1..400}; do echo $n; sleep 0.001; done", watch=calls.append)
    assert "".join(calls) == finished.output.head
    assert len(calls) <= finished.exit_status.seconds / 0.05 + 2


# --- cost


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_no_descriptor_is_left_after_many_commands(tmp_path: Path):
    with bench(tmp_path, persistence="exports") as shell:
        shell("true")
        before = open_descriptors()
        for n in range(scaled(40, 1_000)):
            shell("false" if n % 2 else "seq 100000 | head -c 300000")
        assert open_descriptors() == before


def test_no_descriptor_is_left_after_commands_that_end_badly(shell: Bench):
    shell("true")
    before = open_descriptors()
    for _ in range(5):
        shell("sleep 100 &", seconds=0.2)
        shell("sleep 100", seconds=0.05)
        with pytest.raises(NoShell):
            shell("\0")
    assert open_descriptors() == before


def test_nasties_47_without_descriptors_there_is_a_clean_error_and_no_leak(shell: Bench):
    shell("true")
    with no_free_numbers():
        refused = count_refused(shell)
    assert refused > 2
    assert shell.shows("echo on") == "on\n"


def count_refused(shell: Bench) -> int:
    """How many commands fail, each with one descriptor more to use than the one before."""
    before = open_descriptors()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    refused = 0
    try:
        for room in range(24):
            resource.setrlimit(resource.RLIMIT_NOFILE, (open_descriptors() + room, hard))
            try:
                assert shell.shows("echo on") == "on\n"
            except SystemFailure:
                refused += 1
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            assert open_descriptors() <= before, "idle ones may be closed to make room"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return refused


def test_u10_fifty_megabytes_are_kept_and_both_ends_shown(shell: Bench):
    output = shell("seq 7000000").output
    assert output.total_bytes > 50_000_000
    assert output.head == "1\n2\n3\n4\n5"
    assert output.tail == "6999996\n6999997\n6999998\n6999999\n7000000"
    assert output.omitted_lines == 6_999_990
    assert output.kept_bytes == output.total_bytes == len(shell.kept(output.handle))
    assert len(output.handle) < 40


def test_a_hundred_megabytes_in_one_line_cost_no_memory(tmp_path: Path):
    script = """if True:
        import sys
        from pathlib import Path
        from bench._memory import peak_kib
        from tests.backends.shell.shells import Bench
        shell = Bench(Path(sys.argv[1]))
        shell("true")
        idle = peak_kib()
        output = shell("head -c 100000000 /dev/zero | tr '\\\\0' x").output
        assert (output.total_lines, output.total_bytes, output.kept_bytes) == (1, 100_000_000, 100_000_000), output
        assert len(output.head) + len(output.tail) < 3_000
        print((peak_kib() - idle) // 1024)
        shell.close()
    """
    told = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True)
    assert int(told.stdout) <= 32
