"""What a brokered command shares with the machine, and must not reach: names of its files that nobody judged, terminals,
System V IPC, and other processes."""

import ctypes
import os
import resource
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from handhold.core.requests import Run
from tests.backends.shell.shadows import Desk, both_without_overlay, seen
from tests.backends.shell.shells import Bench, bench

pytestmark = pytest.mark.timeout(120)

IPC_CREAT, IPC_RMID, OWNER_ONLY = 0o1000, 0, 0o600
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p

# Each changes the file `a` in its own way; `protected` and `outside` are other names of it.
WRITES = {
    "append": "echo evil >>a",
    "truncate": "truncate -s 0 a",
    "replace the content": "echo evil >a",
    "mode": "chmod 700 a",
    "times": "touch -d @1 a",
    "attribute": 'python3 -c \'import os; os.setxattr("a", "user.x", b"1")\'',
    "mode by a descriptor": "python3 -c 'import os; os.fchmod(os.open(\"a\", 0), 0o700)'",
    "a descriptor by its name": "exec 3<a; echo evil >>/proc/self/fd/3",
    "another name of the command": "ln a b; rm a; echo evil >>b; mv b a",
}


def python(program: str) -> str:
    return f"python3 -c {shlex.quote(program)}"


def facts(path: object) -> tuple[object, ...]:
    found = os.stat(str(path))
    with open(str(path), "rb") as file:
        return found.st_mode, found.st_mtime_ns, found.st_nlink, file.read(), os.listxattr(str(path))


@contextmanager
def shell_on(desk: Desk) -> Iterator[Bench]:
    with bench(desk.place, mode="brokered") as shell:
        yield shell


def lay_links(desk: Desk) -> None:
    outside = desk.place / "outside"
    outside.write_text("old\n")
    os.link(outside, desk.ws / ".envrc")
    os.link(outside, desk.ws / "a")


@pytest.mark.parametrize("command", WRITES.values(), ids=WRITES.keys())
def test_v7_a_job_changes_a_file_only_under_the_name_that_was_judged(place: object, who: str, command: str):
    @both_without_overlay
    def attempt(desk: Desk) -> None:
        lay_links(desk)
        before = facts(desk.place / "outside")
        with shell_on(desk) as shell:
            ran = shell(f"{command} || true", direct=True)
            assert ran.output.total_bytes == 0 or "denied" in ran.output.head, ran.output
        now = facts(desk.place / "outside")
        # Making or removing a name of the file is judged by itself: only the number of names may differ.
        assert (*now[:2], *now[3:]) == (*before[:2], *before[3:])
        assert facts(desk.ws / ".envrc") == now

    attempt(who, place)


@both_without_overlay
def test_v7_not_for_a_moment_is_another_name_changed_and_all_is_rolled_back(desk: Desk):
    lay_links(desk)
    before = seen(desk.ws)
    with shell_on(desk) as shell:
        shown = shell.shows(f"echo new >>a; chmod 700 a; cat a {desk.place}/outside .envrc; stat -c %a a .envrc")
        assert shown == "old\nnew\nold\nold\n700\n644\n"
        assert seen(desk.ws) == before
        assert shell.shows("ln a b; echo new >>b; cat b; cat a").startswith("old\nnew\nold\n")
    assert seen(desk.ws) == before


@both_without_overlay
def test_v7_links_that_the_command_made_itself_stay_links(desk: Desk):
    (desk.ws / "a").write_text("old\n")
    before = seen(desk.ws)
    with shell_on(desk) as shell:
        assert shell.shows("ln a b; echo one >>a; echo two >>b; cat a; mv b c; echo three >>c; cat a") == (
            "old\none\ntwo\nold\none\ntwo\nthree\n"
        )
    assert seen(desk.ws) == before


# --- terminals

OPEN_TERMINAL = """
import glob, os, sys
for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDWR | os.O_TRUNC, os.O_RDWR | os.O_CREAT):
    for way in (sys.argv[1], "/proc/self/root" + sys.argv[1], "/dev/console", *glob.glob("/dev/tty[0-9]*")):
        try: fd = os.open(way, flags | os.O_NOCTTY | os.O_NONBLOCK)
        except OSError: continue
        print("opened", way, flags); os.write(fd, b"WRITTEN")
"""
OWN_TERMINAL = """
import os, pty
ours, theirs = pty.openpty()
again = os.open(os.ttyname(theirs), os.O_RDWR | os.O_NOCTTY)
os.write(again, b"own\\n")
print(os.read(ours, 99).split())
"""


@both_without_overlay
def test_v5_a_command_opens_no_terminal_of_others_but_its_own(desk: Desk):
    ours, theirs = os.openpty()
    try:
        with shell_on(desk) as shell:
            assert shell.shows(f"{python(OPEN_TERMINAL)} {os.ttyname(theirs)}") == ""
            assert shell.shows(python(OWN_TERMINAL)) == "[b'own']\n"
            assert shell.shows(python("import pty; pty.spawn(['tty'])")).startswith("/dev/pts/")
            # Also while it has one of its own, it gets no other.
            both = f"{python(OWN_TERMINAL + 'import subprocess')}; {python('import pty, sys; pty.openpty(); ' + 'exec(sys.argv.pop(1))')}"
            assert "opened" not in shell.shows(f"{both} {shlex.quote(OPEN_TERMINAL)} {os.ttyname(theirs)}")
        os.set_blocking(ours, False)
        with pytest.raises(BlockingIOError):
            os.read(ours, 99)
    finally:
        os.close(ours)
        os.close(theirs)


# --- System V IPC

REACH_IPC = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
key, ids = int(sys.argv[1]), [int(each) for each in sys.argv[2:]]
create = 0o1600
for each in (libc.shmget(key, 64, 0), libc.shmget(key, 64, create), ids[0]):
    if each >= 0 and libc.shmat(each, None, 0) != ctypes.c_void_p(-1).value: print("memory")
    if each >= 0 and not libc.shmctl(each, 0, None): print("removed memory")
for each in (libc.semget(key, 1, 0), libc.semget(key, 1, create), ids[1]):
    if each >= 0 and not libc.semop(each, (ctypes.c_short * 3)(0, 1, 0o4000), 1): print("semaphore")
    if each >= 0 and libc.semctl(each, 0, 12) >= 0: print("value")
    if each >= 0 and libc.semctl(each, 0, 0) >= 0: print("removed semaphore")
for each in (libc.msgget(key, 0), libc.msgget(key, create), ids[2]):
    message = (ctypes.c_long * 4)(1)
    if each >= 0 and libc.msgrcv(each, message, 8, 0, 0o4000) >= 0: print("received")
    if each >= 0 and libc.msgsnd(each, message, 8, 0o4000) >= 0: print("sent")
    if each >= 0 and libc.msgctl(each, 0, None) >= 0: print("removed queue")
for index in range(64):
    if libc.shmctl(index, 13, ctypes.create_string_buffer(512)) >= 0: print("looked at memory")
    if libc.msgctl(index, 11, ctypes.create_string_buffer(512)) >= 0: print("looked at a queue")
if libc.mq_open(b"/handhold-test", os.O_RDWR | os.O_CREAT, 0o600, None) >= 0: print("queue by name")
print("tried")
"""
OWN_IPC = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
key = int(sys.argv[1])
for memory in (libc.shmget(key, 64, 0o3600), libc.shmget(0, 64, 0o600)):
    assert memory >= 0, os.strerror(ctypes.get_errno())
    at = libc.shmat(memory, None, 0)
    ctypes.memmove(at, b"shared", 6)
    if not os.fork():
        libc.shmctl(memory, 0, None)
        os._exit(ctypes.string_at(libc.shmat(memory, None, 0), 6) != b"shared")
    assert os.wait()[1] == 0
assert libc.shmget(key, 64, 0o1600) >= 0
semaphores, queue = libc.semget(key, 1, 0o1600), libc.msgget(key, 0o1600)
assert libc.semget(key, 1, 0) == semaphores
assert libc.semop(semaphores, (ctypes.c_short * 3)(0, 2, 0), 1) == 0
assert libc.semctl(semaphores, 0, 12) == 2
message = (ctypes.c_long * 4)(1, 42)
assert libc.msgsnd(queue, message, 8, 0) == 0
assert libc.msgrcv(queue, message, 8, 0, 0) == 8
print("works")
"""


@both_without_overlay
def test_v6_a_command_reaches_no_ipc_of_others_and_leaves_none(desk: Desk):
    key = 0x48480000 + os.getpid() % 0x10000
    memory = libc.shmget(key, 64, IPC_CREAT | OWNER_ONLY)
    semaphores, queue = libc.semget(key, 1, IPC_CREAT | OWNER_ONLY), libc.msgget(key, IPC_CREAT | OWNER_ONLY)
    assert min(memory, semaphores, queue) >= 0
    message = (ctypes.c_long * 4)(1, 7)
    assert libc.msgsnd(queue, message, 8, 0) == 0
    try:
        with shell_on(desk) as shell:
            assert shell.shows(f"{python(REACH_IPC)} {key} {memory} {semaphores} {queue}") == "tried\n"
            assert shell.shows(f"{python(OWN_IPC)} {key + 0x10000}") == "works\n"
        assert libc.msgrcv(queue, message, 8, 0, 0) == 8
        for kind in ("shm", "sem", "msg"):
            with open(f"/proc/sysvipc/{kind}", encoding="utf-8") as table:
                keys = [int(line.split()[0]) for line in table.readlines()[1:]]
            assert key in keys
            assert key + 0x10000 not in keys
    finally:
        libc.shmctl(memory, IPC_RMID, None)
        libc.semctl(semaphores, 0, IPC_RMID)
        libc.msgctl(queue, IPC_RMID, None)


# --- processes

ACT_ON_PROCESS = """
import ctypes, os, resource, sys
libc = ctypes.CDLL(None, use_errno=True)
victim, parameters = int(sys.argv[1]), ctypes.create_string_buffer(64)
def tried(name, result):
    if result >= 0: print(name)
def limited(which):
    try: resource.prlimit(victim, which, (1, 1)); return 0
    except OSError: return -1
tried("limit", limited(resource.RLIMIT_CPU))
tried("limit of the file size", limited(resource.RLIMIT_FSIZE))
for name, group in (("process", 0), ("group", 1), ("user", 2)):
    tried("priority of the " + name, libc.setpriority(group, victim if group < 2 else os.getuid(), 19))
    tried("input priority of the " + name, libc.syscall(251 if os.uname().machine == "x86_64" else 30, group + 1, victim if group < 2 else os.getuid(), 3 << 13))
tried("processors", libc.sched_setaffinity(victim, 8, (ctypes.c_ulong * 1)(1)))
tried("scheduler", libc.sched_setscheduler(victim, 3, parameters))
tried("parameters", libc.sched_setparam(victim, parameters))
tried("trace", libc.ptrace(16, victim, 0, 0))
print("tried")
"""
OWN_PROCESSES = """
import os, resource, subprocess, threading
resource.setrlimit(resource.RLIMIT_NOFILE, (99, 99))
resource.prlimit(os.getpid(), resource.RLIMIT_NOFILE, (98, 98))
os.sched_setaffinity(0, os.sched_getaffinity(0))
os.sched_setaffinity(os.getpid(), os.sched_getaffinity(0))
threading.Thread(target=lambda: os.sched_setaffinity(threading.get_native_id(), os.sched_getaffinity(0))).start()
os.nice(1)
child = subprocess.Popen(["sleep", "60"])
os.setpriority(os.PRIO_PROCESS, child.pid, 19)
resource.prlimit(child.pid, resource.RLIMIT_NOFILE, (9, 9))
assert resource.prlimit(child.pid, resource.RLIMIT_NOFILE) == (9, 9)
child.kill()
print("works")
"""


@both_without_overlay
def test_v6_a_command_acts_on_no_process_but_its_own(desk: Desk):
    with subprocess.Popen(["sleep", "100"]) as victim:
        before = resource.prlimit(victim.pid, resource.RLIMIT_CPU), os.sched_getaffinity(victim.pid)
        with shell_on(desk) as shell:
            for pid in (victim.pid, os.getpid()):
                assert shell.shows(f"{python(ACT_ON_PROCESS)} {pid}") == "tried\n"
            assert shell.shows(f"{python(ACT_ON_PROCESS)} $PPID") == "tried\n"  # the broker
            assert shell.shows(python(OWN_PROCESSES)) == "works\n"
        assert (resource.prlimit(victim.pid, resource.RLIMIT_CPU), os.sched_getaffinity(victim.pid)) == before
        assert victim.poll() is None
        victim.kill()


# --- what else differed from a plain folder

SERVE_OBJECTS = """
import multiprocessing, os
if __name__ == "__main__":
    with multiprocessing.Manager() as manager:
        shared = manager.list([1]); shared.append(2); print(list(shared), len(os.environ["TMPDIR"]) < 60)
"""


@both_without_overlay
def test_w7_programs_create_sockets_in_the_folder_for_temporary_files(desk: Desk):
    (desk.ws / "serve.py").write_text(SERVE_OBJECTS)
    with bench(desk.place, mode="brokered", session="a-session-with-a-name-that-is-rather-long-but-allowed") as shell:
        assert shell.shows("python3 serve.py") == "[1, 2] True\n"
        assert shell.shows("echo kept >$TMPDIR/file; cat $TMPDIR/file") == "kept\n"


@both_without_overlay
def test_w10_attributes_of_what_is_in_a_replaced_folder_are_a_change(desk: Desk):
    (desk.ws / "d").mkdir()
    (desk.ws / "d/f").write_text("old\n")
    os.setxattr(desk.ws / "d/f", "user.k", b"old")
    before = seen(desk.ws)
    change = python('import os; os.setxattr("e/f", "user.k", b"new")')
    with (
        bench(desk.place, mode="brokered") as shell,
        shell.shell.run(Run(f"cp -a d e; {change}; rm -r d; mv e d", 20, chars=1000)) as finished,
    ):
        assert finished.effects
        assert [os.path.relpath(each.path, desk.ws) for each in finished.effects.files] == ["d"]
        assert seen(desk.ws) == before
        with shell.files.transaction(finished.effects.files, finished.effects.folder_mtimes) as transaction:
            transaction.apply()
            assert os.getxattr(desk.ws / "d/f", "user.k") == b"new"
