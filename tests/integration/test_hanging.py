"""Row 48 of the nasties: a file system in the workspace dies or falls silent, and the tools live on."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from handhold import Reply, Toolbox
from handhold.backends import mounts
from handhold.backends.mounts import RemoteMounts
from handhold.core.policy.modes import ModePolicy
from tests.backends.shell import hanging
from tests.backends.shell.forked import NOBODY, as_user
from tests.suites.machine import has_shadows

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0 or not os.path.exists("/dev/fuse"), reason="needs root and /dev/fuse"),
    pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine"),
]

PATIENCE = 1.0  # seconds for an answer, here
SOON = 5.0  # seconds within which a call must come back on a busy machine

READING: list[tuple[str, dict[str, Any]]] = [
    ("read_file", {"path": "far/file"}),
    ("write_file", {"path": "far/new", "content": "x"}),
    ("edit_file", {"path": "far/file", "old_string": "afar", "new_string": "near"}),
    ("list_files", {"path": "far"}),
    ("grep", {"pattern": "afar"}),
    ("glob", {"pattern": "**/*"}),
]


@dataclass
class Desk:
    """A workspace with a folder that somebody else serves."""

    ws: Path
    box: Toolbox
    server: subprocess.Popen[bytes]

    def call(self, tool: str, within: float = SOON, **arguments: Any) -> Reply:
        began = time.monotonic()
        reply = self.box.call(tool, arguments)
        assert time.monotonic() - began < within, (tool, reply)
        return reply

    def lives_on(self) -> None:
        """Whatever lies elsewhere is read, written, and seen by commands."""
        assert "1→near" in self.call("read_file", path="near").text
        assert self.call("write_file", path="new", content="x\n").status == "success"
        assert self.call("bash", command="cat near new; rm new").text.startswith("near\nx\n")


NO_RULES = ModePolicy("open")  # with rules, what may not be seen in there would have to be found out first


@contextmanager
def served(folder: Path, owner: int) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, hanging.__file__, str(folder), str(owner)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
        assert server.stdout
        try:
            assert server.stdout.readline() == b"mounted\n"
            yield server
        finally:
            server.kill()


def sat(test: Callable[[Desk], None]) -> Callable[..., None]:
    """As root and as a plain user, on mounts that nobody else sees."""

    def wrapped(who: str, place: Path) -> None:
        owner = NOBODY if who == "nobody" else 0
        far = place / "ws" / "far"
        servers: list[Any] = []

        def first() -> None:
            far.mkdir(parents=True)
            (far.parent / "near").write_text("near\n")
            for path in (far.parent, far, far.parent / "near"):
                os.chown(path, owner, owner)
            servers.append(served(far, owner))
            servers.append(servers[0].__enter__())

        def work() -> None:
            signal.alarm(110)  # in a process of its own, which would outlive the test if it hung
            mounts.IO_TIMEOUT_SECONDS = PATIENCE
            context, server = servers
            try:
                with Toolbox.open(far.parent, state=place / "state", session="s", policy=NO_RULES) as box:
                    desk = Desk(far.parent, box, server)
                    assert "from afar" in desk.call("read_file", path="far/file").text
                    assert desk.call("bash", command="cat far/file").text.startswith("from afar\n")
                    test(desk)
            finally:
                context.__exit__(None, None, None)

        as_user(who, work, first=first)

    wrapped.__name__, wrapped.__doc__, wrapped.__module__ = test.__name__, test.__doc__, test.__module__
    return wrapped


@sat
def test_nasty_48_a_file_system_whose_server_is_dead_is_an_error_at_once(desk: Desk):
    mounts.IO_TIMEOUT_SECONDS = 100.0
    desk.server.kill()
    desk.server.wait()
    for tool, arguments in READING:
        reply = desk.call(tool, **arguments)
        assert reply.code == "IO_ERROR" or "could not be read" in reply.text, (tool, reply)
        assert tool in ("grep", "glob") or "ENOTCONN" in reply.text
    reply = desk.call("bash", command="cat far/file")
    assert reply.data["exit_status"] == 1
    assert "not connected" in reply.text
    desk.lives_on()


@pytest.mark.slow
@sat
def test_nasty_48_a_silent_file_system_is_not_waited_for_without_end(desk: Desk):
    desk.server.send_signal(signal.SIGSTOP)
    for tool, arguments in READING:
        reply = desk.call(tool, within=PATIENCE + SOON, **arguments)
        assert (reply.status, reply.code, reply.error_source) == ("error", "IO_ERROR", "infra"), (tool, reply)
        assert reply.data["path"] == str(desk.ws / "far")
        assert [each.call.tool for each in desk.box.log()][-1] == tool
    desk.lives_on()
    desk.server.send_signal(signal.SIGCONT)
    assert "from afar" in desk.call("read_file", path="far/file").text
    until = time.monotonic() + SOON
    while threading.active_count() > 1 and time.monotonic() < until:
        time.sleep(0.01)
    assert threading.active_count() == 1  # those that were left there came back


@sat
def test_nasty_48_a_command_in_a_silent_file_system_is_ended_at_its_limit(desk: Desk):
    desk.server.send_signal(signal.SIGSTOP)
    reply = desk.call("bash", command="echo begun; cat far/file", timeout=2)
    assert reply.data["timed_out"] is True
    assert reply.text.startswith("begun\n")
    job = desk.call("bash", command="cat far/file", background=True).data["job"]
    assert desk.call("bash_stop", job=job).data["running"] is False
    desk.lives_on()


@pytest.mark.slow
@sat
def test_nasty_48_a_command_that_not_even_a_kill_ends_is_told_and_left(desk: Desk):
    desk.server.send_signal(signal.SIGUSR1)
    reply = desk.call("bash", within=5 + SOON, command="cat far/file", timeout=0.5)
    assert (reply.status, reply.code, reply.error_source) == ("error", "UNENDED", "infra")
    assert desk.call("read_file", within=PATIENCE + SOON, path="far/file").code == "IO_ERROR"
    desk.lives_on()


@sat
def test_nasty_48_a_command_is_refused_where_nobody_can_find_out_what_to_hide(desk: Desk):
    with Toolbox.open(desk.ws, state=desk.ws.parent / "other", policy="open") as ruled:
        assert ruled.call("bash", {"command": "cat far/file"}).text.startswith("from afar\n")
        desk.server.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        reply = ruled.call("bash", {"command": "echo ran"})
        assert time.monotonic() - began < PATIENCE + SOON
        assert (reply.code, reply.data["path"]) == ("IO_ERROR", str(desk.ws / "far"))
        desk.server.send_signal(signal.SIGCONT)
        assert ruled.call("bash", {"command": "echo ran"}).text.startswith("ran\n")


@sat
def test_nasty_48_reading_from_a_silent_file_system_is_cancelled_at_once_and_holds_up_nobody(desk: Desk):
    mounts.IO_TIMEOUT_SECONDS = 100.0
    desk.server.send_signal(signal.SIGSTOP)

    async def cancelled() -> None:
        task = asyncio.ensure_future(desk.box.acall("read_file", {"path": "far/file"}))
        await asyncio.sleep(0.3)
        assert not task.done()
        other = await desk.box.acall("read_file", {"path": "near"})
        assert other.status == "success"
        began = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - began < 1.0

    asyncio.run(cancelled())
    desk.lives_on()


@pytest.mark.slow
def test_nasty_48_in_a_workspace_that_fell_silent_itself_every_call_comes_back(tmp_path: Path):
    far = tmp_path / "ws"

    def work() -> None:
        signal.alarm(110)
        mounts.IO_TIMEOUT_SECONDS = PATIENCE
        far.mkdir()
        with served(far, 0) as server, Toolbox.open(far, state=tmp_path / "state", policy="open") as box:
            server.send_signal(signal.SIGSTOP)
            desk = Desk(far, box, server)
            for tool, arguments in (*READING, ("bash", {"command": "true"})):
                reply = desk.call(tool, within=PATIENCE + SOON, **arguments)
                assert (reply.code, reply.data["path"]) == ("IO_ERROR", str(far)), (tool, reply)

    as_user("ourselves", work, first=lambda: None)


def test_a_mount_from_afar_is_noticed_when_it_comes_and_when_it_goes(tmp_path: Path):
    far = tmp_path / "far"

    def work() -> None:
        far.mkdir()
        around, inside, beside = (RemoteMounts([str(root)]) for root in (tmp_path, far, tmp_path / "far-off"))
        assert (around.description, inside.description, beside.description) == ("", "", "")
        with served(far, 0) as server:
            assert (around.description, inside.description, beside.description) == (str(far), str(far), "")
            server.kill()
        subprocess.run(["umount", far], check=True)
        assert (around.description, inside.description) == ("", "")

    as_user("ourselves", work, first=lambda: None)
