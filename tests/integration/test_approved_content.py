"""What was approved is what stays: nobody keeps a way to write to a committed file.

A command changes protected files, which is approved, and hands descriptors of them, of every kind, to a background
command. That one writes through all of them after the commit, after an undo and after a redo. The workspace must be what
it was approved to be each time. Everything changed is protected, so that the background command may write none of it by
itself.
"""

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from handhold import Toolbox
from handhold.backends import shell
from handhold.core.requests import JobOutput
from tests.backends.shell.forked import as_user
from tests.backends.shell.shadows import Facts, seen
from tests.scale import scaled
from tests.suites.held_by import HeldBy, held_by  # noqa: F401 — a fixture

pytestmark = [pytest.mark.timeout(scaled(240, 3000)), pytest.mark.usefixtures("held_by")]

PATIENCE_SECONDS = 100
EXAMPLES = scaled(2, 60)  # for each user and each that holds commands
TARGETS = (".envrc", "web/.envrc", ".git/config", "new/.envrc", ".vscode/tasks.json")
KINDS = ("write", "append", "read and write", "read", "path", "folder", "mapped")
CHANGES = ("append", "rewrite", "rename over", "replace the folder", "link", "copy")

# It gets descriptors over a socket, and at each word tries to write through all of them, in every way.
RECEIVER = """
import mmap, os, socket, stat, sys
server = socket.socket(socket.AF_UNIX)
server.bind(os.environ["TMPDIR"] + "/s")
server.listen()
print("ready", flush=True)
peer, fds, maps = server.accept()[0], [], []
while (got := socket.recv_fds(peer, 9, 200))[0]: fds += got[1]
for fd in fds:
    try: maps.append(mmap.mmap(fd, 1))
    except (OSError, ValueError): pass
def attempt(act):
    try: act()
    except (OSError, ValueError): pass
def write(path, flags, **options):
    fd = os.open(path, flags, 0o600, **options)
    os.write(fd, b"EVIL"); os.close(fd)
for word in sys.stdin:
    for fd in fds:
        own = f"/proc/self/fd/{fd}"
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            for name in (".envrc", "config", "tasks.json", "hooks/pre-commit"):
                attempt(lambda: write(name, os.O_WRONLY | os.O_CREAT, dir_fd=fd))
                attempt(lambda: write(f"{own}/{name}", os.O_WRONLY | os.O_APPEND))
                attempt(lambda: os.rename(name, name + "x", src_dir_fd=fd, dst_dir_fd=fd))
            continue
        attempt(lambda: os.pwrite(fd, b"EVIL", 0))
        attempt(lambda: os.lseek(fd, 0, 2) and os.write(fd, b"EVIL"))
        attempt(lambda: os.ftruncate(fd, 3))
        attempt(lambda: os.fchmod(fd, 0o777))
        attempt(lambda: write(own, os.O_WRONLY | os.O_APPEND))
        attempt(lambda: write(own, os.O_RDWR | os.O_TRUNC))
        attempt(lambda: os.truncate(own, 1))
    for each in maps:
        attempt(lambda: each.__setitem__(slice(0, 1), b"E"))
        attempt(each.flush)
    print("tried", word.strip(), len(fds), flush=True)
"""

# Reads triples: what is changed, how, and what kind of descriptor is sent.
SENDER = """
import mmap, os, shutil, socket, sys
flags = {"write": os.O_WRONLY, "append": os.O_WRONLY | os.O_APPEND, "read and write": os.O_RDWR, "mapped": os.O_RDWR,
         "read": os.O_RDONLY, "path": os.O_PATH, "folder": os.O_RDONLY | os.O_DIRECTORY}
peer = socket.socket(socket.AF_UNIX)
peer.connect(os.environ["TMPDIR"] + "/s")
kept = []
def send(path, kind):
    fd = os.open(os.path.dirname(path) or "." if kind == "folder" else path, flags[kind])
    if kind == "mapped": kept.append(mmap.mmap(fd, 1))
    socket.send_fds(peer, [b"x"], [fd])
words = iter(sys.argv[1:])
for path, how, kind in zip(words, words, words):
    folder = os.path.dirname(path)
    if folder: os.makedirs(folder, exist_ok=True)
    if not os.path.exists(path): open(path, "w").write("# made\\n")
    if how == "rename over":
        shutil.copy(path, "beside"); send("beside", kind); open("beside", "a").write("# renamed\\n"); os.rename("beside", path)
    elif how == "replace the folder" and folder not in ("", ".git"):
        shutil.copytree(folder, "beside"); shutil.rmtree(folder); os.rename("beside", folder)
    elif how == "link": os.link(path, "other"); send("other", kind); os.unlink("other")
    elif how == "copy": shutil.copy(path, "beside"); os.unlink(path); shutil.move("beside", path)
    elif how == "rewrite": open(path, "w").write("# rewritten\\n")
    send(path, kind)
    open(path, "a").write("# more\\n")
    send(path, kind)
"""


def lay(ws: Path) -> None:
    (ws / "web").mkdir(parents=True)
    (ws / ".git/hooks").mkdir(parents=True)
    (ws / ".git/HEAD").write_text("ref: refs/heads/main\n")
    for name in (".envrc", "web/.envrc", ".git/config"):
        (ws / name).write_text("# old\n")


def choose(seed: int) -> list[str]:
    """Every target and every kind of descriptor, put together at random."""
    choice = random.Random(seed)
    kinds = [*KINDS, *choice.choices(KINDS, k=3)]
    choice.shuffle(kinds)
    targets = [*TARGETS, *choice.choices(TARGETS, k=len(kinds) - len(TARGETS))]
    return [
        word for target, kind in zip(targets, kinds, strict=True) for word in (target, choice.choice(CHANGES), kind)
    ]


def wait_for(box: Toolbox, job: str, text: str) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while text not in (state := box.shell.job(JobOutput(job, 20_000, 0))).output.head:
        assert state.running, state.output.head
        assert time.monotonic() < until, state.output.head
        time.sleep(0.02)


def check_example(place: Path, seed: int) -> None:
    place.mkdir()
    ws = place / "ws"
    lay(ws)
    choices = " ".join(f"'{word}'" for word in choose(seed))
    with Toolbox.open(
        ws, state=place / "state", settings=False, policy="open", approver=lambda _: True, session="s"
    ) as box:
        job = box.call("bash", {"command": f"python3 -c '{RECEIVER}'", "background": True}).data["job"]
        wait_for(box, job, "ready")
        before = facts(ws)
        ran = box.call("bash", {"command": f"python3 -c '{SENDER}' {choices}"})
        assert ran.status == "success", ran.text
        assert ran.data["exit_status"] == 0, ran.text
        approved = facts(ws)
        assert approved != before

        def try_to_write(when: str) -> Facts:
            box.call("bash_input", {"job": job, "text": f"{when}\n"})
            wait_for(box, job, f"tried {when}")
            return facts(ws)

        assert try_to_write("committed") == approved, choices
        undone = box.undo(keep_times=True)
        assert undone.status == "success", (choices, undone.text)
        assert facts(ws) == before
        assert try_to_write("undone") == before, choices
        assert box.redo(keep_times=True).status == "success", choices
        assert facts(ws) == approved
        assert try_to_write("redone") == approved, choices
        assert " 0" not in box.shell.job(JobOutput(job, 20_000, 0)).output.head  # it got descriptors each time


def facts(ws: Path) -> Facts:
    """Of the protected files: others the background command may write by itself."""
    return {
        path: fact
        for path, fact in seen(ws).items()
        if not (ws / path).is_dir() and (path.startswith((".git/", ".vscode/")) or path.endswith(".envrc"))
    }


def run_examples(who: str, place: Path, seeds: range) -> None:
    def work() -> None:
        for seed in seeds:
            check_example(place / str(seed), seed)

    as_user(who, work)


def test_v2_nobody_keeps_a_way_to_write_to_what_was_approved(who: str, place: Path, held_by: HeldBy):  # noqa: F811
    run_examples(who, place, range(EXAMPLES))


def test_v2_the_test_above_notices_a_descriptor_that_stays(
    place: Path,
    held_by: HeldBy,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
):
    """A planted fault: each command believes to be the only one."""
    always: Callable[[Path], bool] = lambda _state: True  # noqa: E731
    monkeypatch.setattr(shell, "is_alone", always)
    with pytest.raises(AssertionError):
        check_example(place / "0", 0)


OTHER_NAMES = "echo evil >>a; : >>b; echo evil >c; truncate -s 1 d; ln a e; echo more >>e; cat a"


def test_v7_a_job_changes_a_file_only_under_the_name_that_was_judged(
    who: str,
    place: Path,
    held_by: HeldBy,  # noqa: F811
):
    def work() -> None:
        ws = place / "ws"
        lay(ws)
        (place / "outside").write_text("# outside\n")
        others = {".envrc": "a", ".git/config": "b", "web/.envrc": "c", "../outside": "d"}
        for other, name in others.items():
            (ws / name).hardlink_to(ws / other)
        before = {other: ((ws / other).read_text(), (ws / other).stat().st_mtime_ns) for other in others}
        with Toolbox.open(ws, state=place / "state", settings=False, policy="open", session="s") as box:
            job = box.call("bash", {"command": f"{OTHER_NAMES}; echo over; read x", "background": True}).data["job"]
            wait_for(box, job, "over")
            assert before == {other: ((ws / other).read_text(), (ws / other).stat().st_mtime_ns) for other in others}
            assert (ws / "d").read_text() == "#"  # the others may be refused
        assert before == {other: ((ws / other).read_text(), (ws / other).stat().st_mtime_ns) for other in others}
        assert {*os.listdir(ws)} - {"e"} == {".envrc", ".git", "a", "b", "c", "d", "web"}

    as_user(who, work)


def test_v2_what_a_cancelled_command_wrote_is_not_written_to_either(who: str, place: Path, held_by: HeldBy):  # noqa: F811
    """Denied changes are rolled back, and what they leave must not have a writer."""

    def work() -> None:
        ws = place / "ws"
        lay(ws)
        with Toolbox.open(ws, state=place / "state", settings=False, policy="open", session="s") as box:
            job = box.call("bash", {"command": f"python3 -c '{RECEIVER}'", "background": True}).data["job"]
            wait_for(box, job, "ready")
            before = facts(ws)
            ran = box.call("bash", {"command": f"python3 -c '{SENDER}' .envrc append write .git/config link append"})
            assert ran.status != "success", ran.text
            assert facts(ws) == before
            box.call("bash_input", {"job": job, "text": "now\n"})
            wait_for(box, job, "tried now")
            assert facts(ws) == before

    as_user(who, work)
