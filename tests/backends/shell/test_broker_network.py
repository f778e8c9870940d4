"""A brokered command reaches its own servers on the loopback interface, and nothing else."""

import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.backends.network.served import served
from tests.backends.shell.listeners import Listeners
from tests.backends.shell.shells import Bench, bench

WAYS = Path(__file__).with_name("network_ways.py")


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Bench]:
    with bench(tmp_path, mode="brokered") as opened:
        yield opened


@pytest.fixture
def listeners(tmp_path: Path) -> Iterator[Listeners]:
    with ExitStack() as stack:
        yield Listeners(tmp_path, stack)


def test_no_way_leads_to_a_listener_of_others(shell: Bench, listeners: Listeners, tmp_path: Path):
    arguments = [str(listeners.tcp_port), str(listeners.udp_port), listeners.path]
    (shell.ws / "ways.py").write_bytes(WAYS.read_bytes())
    ran = shell(f"python3 ways.py {' '.join(arguments)}", seconds=50)
    assert "tried" in ran.output.head, ran.output
    assert listeners.arrived == 0, ran.output.head
    folder = tmp_path / "bare"
    folder.mkdir()
    subprocess.run([sys.executable, WAYS, *arguments], cwd=folder, check=True, capture_output=True, timeout=50)
    assert listeners.arrived > 20  # without a broker most of them arrive


SERVERS = {
    "an HTTP server": "python3 -m http.server --bind 127.0.0.1 0 >log 2>&1 & "
    "until port=$(grep -so 'port [0-9]*' log); do sleep 0.05; done; "
    "curl -s http://127.0.0.1:${port#port }/a",
    "a server on every address": "python3 -c '\n"
    "import socket, threading\n"
    'server = socket.create_server(("0.0.0.0", 0))\n'
    'def serve(): c = server.accept()[0]; c.sendall(b"old\\n"); c.close()\n'
    "threading.Thread(target=serve).start()\n"
    'c = socket.create_connection(("localhost", server.getsockname()[1])); print(c.recv(9).decode(), end="")\'',
    "a Unix socket": "python3 -c '\n"
    "import socket, threading\n"
    'server = socket.socket(socket.AF_UNIX); server.bind("sock"); server.listen()\n'
    'def serve(): c = server.accept()[0]; c.sendall(b"old\\n"); c.close()\n'
    "threading.Thread(target=serve).start()\n"
    'c = socket.socket(socket.AF_UNIX); c.connect("sock"); print(c.recv(9).decode(), end="")\'',
    "asyncio": "python3 -c '\n"
    "import asyncio\n"
    'async def serve(r, w): w.write(b"old\\n"); await w.drain(); w.close()\n'
    "async def main():\n"
    '    s = await asyncio.start_server(serve, "127.0.0.1", 0)\n'
    '    r, w = await asyncio.open_connection("127.0.0.1", s.sockets[0].getsockname()[1])\n'
    '    print((await r.read()).decode(), end="")\n'
    "asyncio.run(main())'",
    "a server that would share its port": "python3 -c '\n"
    "import socket\n"
    's = socket.create_server(("127.0.0.1", 0), reuse_port=True); socket.create_connection(s.getsockname()); print("old")\'',
    "a port that is free while a process waits for a pipe": "mkfifo p; python3 -c '\n"
    "import socket, subprocess, time\n"
    's = socket.socket(); s.bind(("127.0.0.1", 0)); address = s.getsockname()\n'
    'waiting = subprocess.Popen(["sh", "-c", "echo; cat p"], stdout=subprocess.PIPE)\n'
    "waiting.stdout.read(1); time.sleep(0.2); s.listen(); s.close()\n"
    "try: socket.create_connection(address)\n"
    "except ConnectionRefusedError: pass\n"
    's = socket.socket(); s.bind(address); waiting.kill(); print("old")\'',
    "a socket with a high number": "python3 -c '\n"
    "import fcntl, socket\n"
    's = socket.socket(); s.bind(("127.0.0.1", 0))\n'
    "high = socket.socket(fileno=fcntl.fcntl(s, fcntl.F_DUPFD_CLOEXEC, 1024)); s.close()\n"
    "try: socket.socket().bind(high.getsockname())\n"
    'except OSError: high.listen(); print("old")\'',
    "a port that was free before": "python3 -c '\n"
    "import socket\n"
    's = socket.socket(); s.bind(("127.0.0.1", 0)); port = s.getsockname()[1]; s.close()\n'
    's = socket.socket(); s.bind(("127.0.0.1", port)); s.listen(); print("old")\'',
}


def test_a_unix_socket_has_the_name_that_it_was_bound_to(shell: Bench):
    program = (
        "import os, socket\n"
        "from multiprocessing.managers import SyncManager\n"
        "def bind(name):\n"
        "    s = socket.socket(socket.AF_UNIX); s.bind(name); s.listen()\n"
        "    c = socket.socket(socket.AF_UNIX); c.connect(s.getsockname())\n"
        "    print(s.getsockname() == c.getpeername() == name and os.path.exists(name))\n"
        "os.mkdir('d')\n"
        "for name in ('sock', 'd/sock', os.path.abspath('other'), os.environ['TMPDIR'] + '/sock', 'x' * 100): bind(name)\n"
        "if __name__ == '__main__':\n"
        "    with SyncManager(address='manager') as manager: print(manager.list(['old']))\n"
    )
    (shell.ws / "bind.py").write_text(program)
    assert shell.shows("python3 bind.py") == "True\n" * 5 + "['old']\n"
    assert os.listdir(shell.ws) == ["bind.py"]


@pytest.mark.parametrize("command", SERVERS.values(), ids=SERVERS.keys())
def test_a_command_reaches_its_own_server(shell: Bench, command: str):
    (shell.ws / "a").write_text("old\n")
    assert shell.shows(command) == "old\n"


def test_a_command_does_not_share_a_port_with_others(shell: Bench):
    """Some of their connections would be its own, and some of its own theirs."""
    program = (
        "import socket, sys\n"
        "for before in (True, False):\n"
        "    s = socket.socket()\n"
        "    if before: s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)\n"
        "    try: s.bind(('127.0.0.1', int(sys.argv[1]))); print('bound')\n"
        "    except OSError as error: print(error.strerror)\n"
        "s = socket.create_server(('127.0.0.1', 0)); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)\n"
        "print(s.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT))\n"
    )
    with socket.create_server(("127.0.0.1", 0), reuse_port=True) as theirs:
        port = theirs.getsockname()[1]
        printed = shell.shows(f"python3 -c {shlex.quote(program)} {port}")
    assert printed.splitlines() == ["Address already in use", "Address already in use", "0"]


def test_named_hosts_are_reached_through_the_proxy_and_no_others(tmp_path: Path, listeners: Listeners):
    with served() as server:
        opening = server.opening(f"files.example.org:{server.port}")
        with bench(tmp_path, mode="brokered", network=opening) as shell:
            assert shell.shows(f"curl -sS http://files.example.org:{server.port}/") == "hello from outside\n"
            refused = shell(f"curl -sS http://evil.test/; curl -sS --noproxy '*' http://127.0.0.1:{server.port}/")
            assert "evil.test" in refused.notes[0]
            assert "hello" not in refused.output.head
            shell(f"curl -sS --noproxy '*' -m 2 http://127.0.0.1:{listeners.tcp_port}/")
    assert listeners.arrived == 0


def test_an_open_network_does_not_open_the_sockets_of_the_machine(tmp_path: Path, listeners: Listeners):
    with bench(tmp_path, mode="brokered", network=True) as shell:
        script = (
            "import socket\n"
            "def reach(family, address, kind=socket.SOCK_STREAM):\n"
            "    try: s = socket.socket(family, kind); s.connect(address); print('reached', address)\n"
            "    except OSError: pass\n"
            f"reach(socket.AF_UNIX, {listeners.path!r})\n"
            f"reach(socket.AF_UNIX, {listeners.path + 'd'!r}, socket.SOCK_DGRAM)\n"
            f"reach(socket.AF_UNIX, '\\0{listeners.tcp_port}')\n"
            f"reach(socket.AF_INET, ('127.0.0.1', {listeners.tcp_port}))\n"
        )
        (shell.ws / "try.py").write_text(script)
        assert shell.shows("python3 try.py") == f"reached ('127.0.0.1', {listeners.tcp_port})\n"


def test_what_is_not_reached_is_refused_as_on_a_machine_without_it(shell: Bench, listeners: Listeners):
    script = (
        "import errno, socket\n"
        f"for host, port in (('127.0.0.1', {listeners.tcp_port}), ('192.0.2.1', 80)):\n"
        "    try: socket.create_connection((host, port), 2)\n"
        "    except OSError as error: print(errno.errorcode[error.errno])\n"
    )
    (shell.ws / "try.py").write_text(script)
    assert shell.shows("python3 try.py") == "ECONNREFUSED\nENETUNREACH\n"
