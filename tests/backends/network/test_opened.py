"""Commands with allowed hosts: real programs reach those and no others, for every user."""

import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handhold import Toolbox
from tests.backends.network.served import Served, served
from tests.backends.shell.forked import as_user, place, who
from tests.backends.shell.shells import Bench, bench
from tests.suites.machine import has_shadows

__all__ = ["place", "who"]
pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine"),
]
PYTHON = "/usr/bin/python3"


def opened(who: str, place: Path, test: Callable[[Bench, Served], None]) -> None:
    def work() -> None:
        with served() as server, bench(place, network=server.opening(f"files.example.org:{server.port}")) as here:
            test(here, server)

    as_user(who, work)


def test_c83_curl_reaches_the_host_that_is_named_and_no_other(who: str, place: Path):
    def test(here: Bench, server: Served) -> None:
        got = here(f"curl -sS http://files.example.org:{server.port}/a")
        assert got.output.head == "hello from outside\n", got.output.head
        assert not got.notes
        refused = here(
            f"curl -sS http://evil.test:{server.port}/; curl -sS http://127.0.0.1:{server.port}/ --noproxy ''"
        )
        assert "hello" not in refused.output.head
        assert "evil.test" in refused.notes[0]
        assert [path for _, path in server.asked] == ["/a"]

    opened(who, place, test)


@pytest.mark.parametrize(
    "command",
    [
        "curl -sS --max-time 5 --noproxy '*' http://{there}/",
        "curl -sS --max-time 5 --noproxy '*' --resolve files.example.org:{port}:127.0.0.1 http://{there}/",
        "curl -sS --max-time 5 -x http://127.0.0.1:3128 -p http://127.0.0.1:{port}/",
        "curl -sS --max-time 5 -x http://127.0.0.1:3128 -p http://localhost:{port}/",
        "env -i /usr/bin/curl -sS --max-time 5 http://127.0.0.1:{port}/",
        "exec 3<>/dev/tcp/127.0.0.1/{port} && printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3 && timeout 2 cat <&3",
        PYTHON
        + " -c \"import socket; s=socket.create_connection(('127.0.0.1', {port}), 3); s.send(b'GET / HTTP/1.0\\r\\n\\r\\n'); print(s.recv(999))\"",
        PYTHON
        + " -c \"import socket; s=socket.socket(2, 2); s.settimeout(2); s.sendto(b'x', ('8.8.8.8', 53)); print(s.recv(99), 'hello')\"",
        "getent hosts files.example.org && echo hello",
    ],
)
def test_c83_there_is_no_way_around_it(who: str, place: Path, command: str):
    def test(here: Bench, server: Served) -> None:
        there = f"files.example.org:{server.port}"
        shown = here.shows(command.replace("{there}", there).replace("{port}", str(server.port)))
        assert "hello" not in shown
        assert not server.asked

    opened(who, place, test)


@pytest.mark.parametrize(
    "command",
    [
        PYTHON + " -c \"import urllib.request as u; print(u.urlopen('http://{there}/p').read().decode())\"",
        "wget -q -O - http://{there}/p",
        "git ls-remote http://{there}/p 2>&1; echo asked",
        PYTHON
        + " -m pip download --no-deps --index-url http://{there}/p --trusted-host files.example.org nothing-at-all 2>&1; echo asked",
    ],
)
def test_c83_programs_find_it_by_themselves(who: str, place: Path, command: str):
    program = command.split(maxsplit=1)[0]
    if not shutil.which(program):
        pytest.skip(f"{program} is not here")

    def test(here: Bench, server: Served) -> None:
        shown = here.shows(command.replace("{there}", f"files.example.org:{server.port}"), seconds=60)
        assert any(path.startswith("/p") for _, path in server.asked), shown

    opened(who, place, test)


def test_c83_a_tunnel_carries_what_it_is_given(who: str, place: Path):
    def test(here: Bench, server: Served) -> None:
        shown = here.shows(f"curl -sS -p http://files.example.org:{server.port}/through")
        assert shown == "hello from outside\n"
        assert server.asked == [(f"files.example.org:{server.port}", "/through")]

    opened(who, place, test)


def test_c83_a_job_in_the_background_has_it_too_and_takes_it_along_when_it_ends(place: Path):
    with served() as server, bench(place, network=server.opening(f"files.example.org:{server.port}")) as here:
        from handhold.core.requests import JobOutput, Run

        state = here.shell.start(Run(f"curl -sS http://files.example.org:{server.port}/", 20, 2000))
        shown = state.output.head
        until = time.monotonic() + 50
        while state.running and time.monotonic() < until:
            time.sleep(0.05)
            state = here.shell.job(JobOutput(state.job, 2000))
            shown += state.output.head
        assert "hello from outside" in shown


def test_c83_the_option_names_hosts_and_the_reply_says_what_was_refused(tmp_path: Path):
    (tmp_path / "ws").mkdir()
    with Toolbox.open(tmp_path / "ws", state=tmp_path / "state", network=["files.example.org"], policy="open") as box:
        reply = box.call("bash", {"command": "curl -sS http://evil.test/"})
        assert "evil.test:80 was refused" in reply.text
        assert any("evil.test" in note for note in reply.data["notes"])
        assert reply.data["sandbox"]["named_hosts"] is True


@pytest.mark.parametrize("host", ["*", "127.0.0.1", "*.org", "a b"])
def test_c83_r4_a_host_that_cannot_be_meant_is_refused_when_a_toolbox_is_opened(tmp_path: Path, host: str):
    (tmp_path / "ws").mkdir()
    with pytest.raises(ValueError, match="network"):
        Toolbox.open(tmp_path / "ws", state=tmp_path / "state", network=[host], policy="open")


@pytest.mark.parametrize("shell", ["contained", "brokered"])
def test_c95_without_an_allowed_host_the_proxy_refuses_each_and_the_reply_names_it(tmp_path: Path, shell: Any):
    (tmp_path / "ws").mkdir()
    with Toolbox.open(tmp_path / "ws", state=tmp_path / "state", settings=False, shell=shell) as box:
        reply = box.call(
            "bash", {"command": "touch made; curl -sSf http://a.example.org:8080/; curl -sSf http://10.0.0.1/"}
        )
    assert (reply.status, reply.data["exit_status"], reply.data["undo"]) == ("success", 22, "all")
    assert reply.data["refused_hosts"] == ["a.example.org:8080"], "an address cannot be allowed"
    (note,) = reply.data["notes"]
    assert "handhold allow a.example.org:8080" in note
    assert "10.0.0.1" in note
    assert (tmp_path / "ws/made").exists()


def test_c83_the_launcher_is_the_one_of_this_source():
    """The program that hands out the socket is compiled: an old build would not support it."""
    from handhold.backends.shell.sandbox_support import detect_sandbox_support

    done = subprocess.run([detect_sandbox_support().launcher, "-n"], capture_output=True, text=True, check=False)
    assert "nothing follows -n" in done.stderr
