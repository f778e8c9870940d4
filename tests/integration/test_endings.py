"""However the tool ends while a command runs: nothing of the command lives on, nothing of it counts, and the next starts.

The tool is a process of its own here, as root and as a plain user.
"""

import json
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.backends.shell.people import USERS, Person, copies, interpreter, person
from tests.backends.shell.shadows import seen
from tests.backends.shell.shells import PATIENCE, appears, gone, marked
from tests.scale import sampled, scaled
from tests.suites.machine import has_shadows

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine"),
]

OPENED = """
import asyncio, json, sys
from handhold import Toolbox

def opened():
    return Toolbox.open(sys.argv[1], state=sys.argv[2], session="s", policy="open")
"""
CALLED = """
with opened() as box:
    box.call("bash", {"command": sys.argv[3], "timeout": 300}, call_id="c")
"""
AWAITED = """
with opened() as box:
    asyncio.run(box.acall("bash", {"command": sys.argv[3], "timeout": 300}, call_id="c"))
"""
READY = """
with opened() as box:
    print("ready", flush=True)
    box.call("bash", {"command": sys.argv[3], "timeout": 300})
"""
INTERRUPTED = """
with opened() as box:
    try:
        box.call("bash", {"command": sys.argv[3], "timeout": 300}, call_id="c")
    except KeyboardInterrupt:
        sys.exit(box.call("bash", {"command": "exit 7"}).data["exit_status"])
"""
NEXT = """
with opened() as box:
    done = box.call("bash", {"command": sys.argv[3], "timeout": 300}, call_id="c")
    after = box.call("bash", {"command": "cat *"}).text
    back = box.undo(keep_times=True)
    print(json.dumps([done.text, done.replayed, after, back.status]))
"""

ENDINGS = {
    "ctrl-c": (CALLED, signal.SIGINT),
    "ctrl-c in an event loop": (AWAITED, signal.SIGINT),
    "terminate": (CALLED, signal.SIGTERM),
    "terminate in an event loop": (AWAITED, signal.SIGTERM),
    "kill -9": (CALLED, signal.SIGKILL),
    "kill -9 in an event loop": (AWAITED, signal.SIGKILL),
}


@pytest.fixture(params=USERS)
def who(request: pytest.FixtureRequest) -> Iterator[Person]:
    somebody = person(request.param)
    for name in ("kept", "gone", "grows"):
        somebody.write(somebody.root / name, f"{name}\n")
    yield somebody
    shutil.rmtree(somebody.base)


def tool(who: Person, program: str, command: str) -> subprocess.Popen[bytes]:
    arguments = [str(who.root), str(state(who)), command]
    return subprocess.Popen(
        [*who.dropped(), interpreter(), "-c", OPENED + program, *arguments],
        env=who.variables() | {"PYTHONPATH": str(copies())},
        cwd=who.base,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def state(who: Person) -> Path:
    return who.base / "kept"


def changes(mark: str) -> str:
    """A command that ends only where there is a file `go`."""
    stays = f"setsid nohup sleep {mark} & (sleep {mark} &); sleep {mark}"
    return f"echo x >new; rm gone; echo more >>grows; [ -e go ] || {{ {stays}; }}"


def shelved(who: Person) -> list[str]:
    """The folders of commands on the shelf: each holds what one changed, or would have."""
    return [path.name for path in state(who).rglob("shelf/*") if path.is_dir()]


def mounted(who: Person) -> list[str]:
    """Processes, anywhere on this machine, that see a mount on anything of this user's."""
    found: list[str] = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                mounts = (process / "mountinfo").read_text(errors="replace")
            except OSError:
                continue
            if str(who.base) in mounts:
                found.append(process.name)
    return found


def no_mount_is_left(who: Person) -> bool:
    """The kernel takes a moment to take a namespace apart."""
    until = time.monotonic() + PATIENCE
    while mounted(who) and time.monotonic() < until:
        time.sleep(0.01)
    return not mounted(who)


@pytest.mark.parametrize("ending", sampled(list(ENDINGS), 3, lambda ending: ENDINGS[ending][1]))
def test_whatever_ends_the_tool_leaves_no_process_no_mount_and_nothing_of_the_command(who: Person, ending: str):
    program, how = ENDINGS[ending]
    before = seen(who.root)
    mark = marked()
    with tool(who, program, changes(mark)) as running:
        assert appears(mark)
        assert mounted(who)
        running.send_signal(how)
        assert running.wait(PATIENCE) != 0
    assert gone(mark)
    assert no_mount_is_left(who)
    assert seen(who.root) == before
    if how == signal.SIGINT:  # it had the time to clear up
        assert shelved(who) == []
    starts_anew(who, changes(mark))


def starts_anew(who: Person, command: str) -> None:
    """The next process finds a shelf to sweep and a call that never ended: sent again it is done, and taken back."""
    who.write(who.root / "go")
    before = seen(who.root)
    with tool(who, NEXT, command) as after:
        out, err = after.communicate(timeout=60)
    assert after.returncode == 0, err.decode()
    done, replayed, text, back = json.loads(out)
    assert "created new" in done
    assert not replayed
    assert text.startswith("grows\nmore\nkept\nx\n")
    assert back == "success"
    assert len(shelved(who)) == 1  # of the one that can be done again
    assert seen(who.root) == before


def test_after_ctrl_c_the_same_tool_goes_on(who: Person):
    before = seen(who.root)
    mark = marked()
    with tool(who, INTERRUPTED, changes(mark)) as running:
        assert appears(mark)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=PATIENCE)
    assert running.returncode == 7, err.decode()
    assert gone(mark)
    assert no_mount_is_left(who)
    assert shelved(who) == []
    assert seen(who.root) == before


@pytest.mark.slow
def test_a_tool_that_is_killed_while_a_command_starts_leaves_nothing_either(who: Person):
    before = seen(who.root)
    mark = marked()
    for thousandths in range(0, 120, scaled(40, 10)):
        with tool(who, READY, changes(mark)) as running:
            assert running.stdout
            assert running.stdout.readline() == b"ready\n"
            time.sleep(thousandths / 1000)
            running.kill()
        assert no_mount_is_left(who), thousandths
        assert gone(mark), thousandths
    assert seen(who.root) == before
    starts_anew(who, changes(mark))
