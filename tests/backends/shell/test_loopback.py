"""Commands of one session share a loopback, which nobody else can reach and which ends with the session."""

import ctypes
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from handhold.backends.seccomp_bpf import (
    BPF_JUMP_EQUAL,
    NR_OFFSET,
    SECCOMP_RET_ALLOW,
    SECCOMP_RET_ERRNO,
    load_word,
    return_action,
)
from handhold.backends.seccomp_bpf import jump_if as compare
from handhold.backends.shell.user_namespace import has_id_range
from handhold.core.ports.shell import JobState
from handhold.core.requests import JobOutput, Run
from tests.backends.network.served import served
from tests.backends.shell.forked import as_user, place, who
from tests.backends.shell.shells import PATIENCE, Bench, bench
from tests.suites.machine import has_shadows

__all__ = ["place", "who"]
pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine"),
]
PYTHON = "/usr/bin/python3"
SERVER = """\
import os, socket, sys
family, port = (socket.AF_INET6, 8001) if "v6" in sys.argv else (socket.AF_INET, 8000)
with socket.create_server(("::1" if family == socket.AF_INET6 else "127.0.0.1", port), family=family) as server:
    print("namespace", os.readlink("/proc/self/ns/net"), flush=True)
    while True:
        connection = server.accept()[0]
        connection.recv(4096)
        connection.sendall(b"HTTP/1.0 200 OK\\r\\nConnection: close\\r\\n\\r\\nserved\\n")
        connection.close()
"""
ASK = "curl -sS --max-time 5 http://localhost:8000/"
ASK_V6 = "curl -sS --max-time 5 'http://[::1]:8001/'"
REFUSED = 7  # curl: connection refused


def start(here: Bench, command: str) -> JobState:
    return here.shell.start(Run(command, 60, 10_000, background=True))


def prints(here: Bench, job: str, text: str) -> str:
    until = time.monotonic() + PATIENCE
    while text not in (printed := here.shell.job(JobOutput(job, 10_000, 0)).output.head):
        assert time.monotonic() < until, printed
        time.sleep(0.02)
    return printed


def serve(here: Bench, *options: str) -> str:
    """The network namespace of a background command's server in this session."""
    (here.ws / "server.py").write_text(SERVER)
    state = start(here, " ".join((PYTHON, "server.py", *options)))
    return re.findall(r"net:\[\d+\]", prints(here, state.job, "]\n"))[0]


def holders(namespace: str) -> list[str]:
    """What keeps a namespace alive, in any process: membership, an open descriptor, a mount."""
    found: list[str] = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                links = [f"/proc/{name}/ns/net", *(f"/proc/{name}/fd/{fd}" for fd in os.listdir(f"/proc/{name}/fd"))]
                mounts = Path(f"/proc/{name}/mountinfo").read_text()
            except OSError:
                continue
            found += [f"/proc/{name}/mountinfo"] if namespace in mounts else []
            for link in links:
                try:
                    found += [link] if os.readlink(link) == namespace else []
                except OSError:
                    continue
    return found


def is_gone(namespace: str) -> bool:
    until = time.monotonic() + PATIENCE
    while holders(namespace):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def test_e3_a_command_reaches_what_a_background_command_serves(who: str, place: Path):
    def work() -> None:
        with bench(place) as here:
            namespace = serve(here)
            serve(here, "v6")
            assert namespace != os.readlink("/proc/self/ns/net")
            assert here.shows(ASK) == "served\n"
            assert here.shows(ASK_V6) == "served\n"
            assert "served" in prints(here, start(here, ASK).job, "served")

    as_user(who, work)


def test_e3_a_second_session_does_not_reach_it_and_neither_does_this_machine(who: str, place: Path):
    def work() -> None:
        with bench(place) as first, bench(place, session="second") as second:
            namespace = serve(first)
            assert second(ASK).exit_status.code == REFUSED
            other = re.findall(
                r"net:\[\d+\]",
                prints(second, start(second, f"readlink /proc/self/ns/net; {ASK}; echo $?").job, "\n7\n"),
            )
            assert len({namespace, *other, os.readlink("/proc/self/ns/net")}) == 3
            assert second(ASK).exit_status.code == REFUSED
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", 8000), 5)

    as_user(who, work)


REACH = f"""\
{PYTHON} - <<'END'
import socket
for family, address in (socket.AF_INET, ("127.0.0.1", PORT)), (socket.AF_UNIX, "\\0NAME"):
    with socket.socket(family) as client:
        print(client.connect_ex(address))
END
grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status
ls -l /proc/self/fd | grep -c 'net:\\|user:'
unshare -U true || echo closed
"""


def test_e3_it_leads_to_no_socket_of_this_machine_and_gives_no_privilege(who: str, place: Path):
    def work() -> None:
        name = f"handhold-{os.getpid()}"
        with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as abstract:
            abstract.bind(f"\0{name}")
            abstract.listen()
            command = REACH.replace("PORT", str(tcp.getsockname()[1])).replace("NAME", name)
            with bench(place) as here:
                alone = here.shows(command).splitlines()
                serve(here)
                shared = here.shows(command).splitlines()
        assert shared == alone
        owners = 0b1001 if has_id_range() else 0  # root's commands always have these (test_ids.py)
        assert {int(line.split()[1], 16) for line in shared if line.startswith("Cap")} == {owners}, shared
        assert shared[0] == "111"  # ECONNREFUSED
        assert shared[1] in ("1", "111")  # Landlock returns EPERM
        assert {"NoNewPrivs:\t1", "Seccomp:\t2", "0", "closed"} <= {*shared}

    as_user(who, work)


def test_e3_named_hosts_are_reached_from_both_and_each_reply_tells_its_own_refusals(who: str, place: Path):
    def work() -> None:
        with served() as server, bench(place, network=server.opening(f"files.example.org:{server.port}")) as here:
            outside = f"curl -sS http://files.example.org:{server.port}/"
            serve(here)
            prints(here, start(here, f"{outside}; curl -sS http://early.test/; echo over").job, "over")
            asked = here(f"{outside}; {ASK}")
            assert (asked.output.head, asked.notes) == ("hello from outside\nserved\n", ())
            refused = here("curl -sS http://evil.test/; curl -sS http://127.0.0.1:3128/ --noproxy '*' -x ''")
            assert "evil.test" in refused.notes[0]
            assert "early.test" not in refused.notes[0]
            again = here("curl -sS http://evil.test/")
            assert "evil.test" in again.notes[0]

    as_user(who, work)


def test_e3_nothing_of_it_is_left_when_the_session_is_closed(who: str, place: Path):
    def work() -> None:
        with bench(place) as here:
            namespace = serve(here)
            assert here.shows(ASK) == "served\n"
            assert holders(namespace)
        assert is_gone(namespace)

    as_user(who, work)


def test_e3_a_loopback_that_is_closed_is_joined_by_nobody(tmp_path: Path):
    """By then, another session may use its descriptor number."""
    from contextlib import ExitStack

    from handhold.backends.shell.loopback import Loopback
    from handhold.backends.shell.sandbox_support import detect_sandbox_support
    from handhold.core.errors import NoShell

    found = detect_sandbox_support().bubblewrap
    assert found
    loopback = Loopback(found.path)
    loopback.close()
    with ExitStack() as opened, pytest.raises(NoShell):
        loopback.prepare_join(opened)


def test_e3_nothing_of_it_is_left_when_the_process_is_killed(tmp_path: Path):
    program = (
        "import sys, time; from pathlib import Path; from tests.backends.shell import test_loopback as t\n"
        "here = t.Bench(Path(sys.argv[1])); print(t.serve(here), flush=True); print(here.shows(t.ASK), flush=True)\n"
        "here('sleep 60')\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True) as tool:
        assert tool.stdout
        namespace = tool.stdout.readline().strip()
        assert tool.stdout.readline() == "served\n"
        assert len([each for each in holders(namespace) if "/ns/" in each]) >= 2
        tool.send_signal(signal.SIGKILL)
    assert is_gone(namespace)


def without_setns() -> None:
    """As in a container where nobody may join a namespace."""
    filter_ = b"".join(
        [
            load_word(NR_OFFSET),
            compare(BPF_JUMP_EQUAL, 308, 0, 1),
            return_action(SECCOMP_RET_ERRNO | 1),
            return_action(SECCOMP_RET_ALLOW),
        ]
    )
    steps = ctypes.create_string_buffer(filter_)

    class Program(ctypes.Structure):
        _fields_ = [("count", ctypes.c_ushort), ("steps", ctypes.c_void_p)]

    program = Program(len(filter_) // 8, ctypes.addressof(steps))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, ctypes.byref(program), 0, 0) == 0


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the filter has numbers of x86_64")
@pytest.mark.parametrize("who", ["nobody"])  # in a separate process: the filter would stay
def test_e3_where_none_can_be_joined_each_command_has_its_own_and_the_reply_says_so(who: str, place: Path):
    def work() -> None:
        without_setns()
        with bench(place) as here:
            serve(here)
            assert here(ASK).exit_status.code == REFUSED
            assert "handhold: cannot join" in here.shell.sandbox.why_not[-1]
            assert any("localhost" in why for why in start(here, "true").sandbox.why_not)

    as_user(who, work)
