"""The machine's unix sockets: no command reaches one, however it was bound, and none prevents commands from running."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

import pytest

from handhold.backends.shell.sandbox_support import detect_sandbox_support
from tests.backends.shell.people import ROOT, USERS, Person, person, system_python
from tests.scale import sampled

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(detect_sandbox_support().bubblewrap is None, reason="nothing confines commands on this machine"),
    pytest.mark.skipif(not ROOT, reason="needs root, to make folders that every command sees"),
]

# Each binds to the given path and answers until its input ends.
LISTENER = """
import os, socket, sys
how, path = sys.argv[1:]
listener = socket.socket(socket.AF_UNIX)
folder, name = os.path.split(path)
if how == "relative":
    os.chdir(folder); listener.bind(name)
elif how == "renamed":
    listener.bind(path + ".new"); os.rename(path + ".new", path)
elif how == "linked":
    listener.bind(path + ".new"); os.link(path + ".new", path); os.unlink(path + ".new")
elif how == "through /proc":
    os.chdir(folder); listener.bind("/proc/self/cwd/" + name)
else:
    listener.bind(path)
os.chmod(path, 0o777)
listener.listen()
print("bound", flush=True)
sys.stdin.read()
"""
WAYS = ("by its path", "relative", "renamed", "linked", "through /proc", "another network")


@pytest.fixture(params=USERS)
def who(request: pytest.FixtureRequest) -> Iterator[Person]:
    made = person(request.param)
    yield made
    shutil.rmtree(made.base)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A socket that every command sees, since it is part of the system."""
    made = Path(mkdtemp(prefix="handhold-", dir="/opt"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@contextmanager
def listening(how: str, path: Path, within: tuple[str, ...] = ()) -> Iterator[None]:
    alone = ("unshare", "--net") if how == "another network" else ()
    command = [*within, *alone, sys.executable, "-c", LISTENER, how, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as listener:
        assert listener.stdin
        assert listener.stdout
        assert listener.stdout.readline() == b"bound\n"
        try:
            yield
        finally:
            listener.stdin.close()


def ring(path: Path) -> str:
    return (
        f"""{system_python()} -c 'import socket; socket.socket(socket.AF_UNIX).connect("{path}"); print("reached")'"""
    )


@pytest.mark.parametrize("how", sampled(list(WAYS), 3))
def test_r17_no_socket_of_the_machine_is_reached(who: Person, folder: Path, how: str):
    """With network access too."""
    with listening(how, folder / "s.sock"):
        assert who.bare(ring(folder / "s.sock")).stdout == "reached\n"
        done = who.contained(f"echo runs; {ring(folder / 's.sock')}", network=True)
        assert done.stdout == "runs\n", done
        assert "ConnectionRefusedError" in done.stderr


@pytest.mark.parametrize("how", sampled(list(WAYS), 3))
def test_r17_no_socket_in_a_read_only_root_is_reached(who: Person, how: str):
    with listening(how, who.outside / "s.sock"):
        assert who.bare(ring(who.outside / "s.sock")).stdout == "reached\n"
        done = who.contained(f"echo runs; {ring(who.outside / 's.sock')}")
        assert done.stdout == "runs\n", done


@pytest.mark.parametrize("how", sampled(list(WAYS), 3))
def test_r17_no_socket_of_the_machine_is_reached_by_what_works_on_the_files_themselves(
    who: Person, folder: Path, how: str
):
    """As background commands do."""
    with listening(how, folder / "s.sock"):
        done = who.contained(f"echo runs; {ring(folder / 's.sock')}", shadow=False)
        assert done.stdout == "runs\n", done


def test_r17_a_socket_that_is_bound_later_is_not_reached(who: Person, folder: Path):
    """Bind it while the command runs. The command signals its start and waits for the socket."""
    ready, path = who.root / "ready", folder / "s.sock"
    wait = f"touch {ready}; for n in {{1..1000}}; do ls {folder} | grep -q sock && break; sleep 0.02; done; echo runs; {ring(path)}"
    binder = f'until test -e {ready}; do sleep 0.02; done; exec {sys.executable} -c "$0" later {path}'
    with subprocess.Popen(["bash", "-c", binder, LISTENER], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as listener:
        done = who.contained(wait, shadow=False)
        assert who.bare(ring(path)).stdout == "reached\n"
        assert listener.stdin
        listener.stdin.close()
    assert done.stdout == "runs\n", done
    assert "ConnectionRefusedError" in done.stderr


@contextmanager
def own_machine(script: str) -> Iterator[tuple[str, ...]]:
    """Separate mounts and network, set up by a script: the argv prefix that starts other programs inside."""
    with subprocess.Popen(
        ["unshare", "--mount", "--net", "bash", "-c", f"set -e; {script}; echo ready; read"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdin
        assert holder.stdout
        assert holder.stdout.readline() == b"ready\n"
        try:
            yield ("nsenter", f"--target={holder.pid}", "--mount", "--net", "--")
        finally:
            holder.stdin.close()


@pytest.mark.parametrize("how", sampled(list(WAYS), 3))
def test_r17_where_no_overlay_can_lie_sockets_are_searched_for(who: Person, folder: Path, how: str):
    """Something is mounted in the folder, so it is shown unchanged."""
    (folder / "mounted").mkdir()
    with own_machine(f"mount -t tmpfs none {folder}/mounted") as within, listening(how, folder / "s.sock"):
        who.within = within
        done = who.contained(f"echo runs; {ring(folder / 's.sock')}")
        assert done.stdout == "runs\n", done
        assert who.contained(f"stat -f -c %T {folder}").stdout != "overlayfs\n"


@pytest.mark.parametrize("link", ["/var/lock", "/var/run"])
@pytest.mark.parametrize("overlay", [True, False])
def test_r18_a_socket_below_an_absolute_link_keeps_no_command_from_running(who: Person, link: str, overlay: bool):
    if not os.path.islink(link):
        pytest.skip(f"{link} is no link here")
    path = Path(link) / f"handhold-{os.getpid()}.sock"
    mount = "true" if overlay else "mount -t tmpfs none /var/cache"
    with own_machine(mount) as within, listening("by its path", path, within):
        who.within = within
        done = who.contained("echo runs")
    path.unlink()
    assert (done.returncode, done.stdout) == (0, "runs\n"), done
