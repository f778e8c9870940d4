"""Commands in the background work on the workspace itself, and obey the same rules as those that do not."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from handhold import Rule, Toolbox
from handhold.backends.shell.seccomp_notify import SyscallNotification, is_refused_by_landlock
from handhold.core.requests import JobOutput
from tests.backends.shell.forked import as_user
from tests.suites.held_by import HeldBy, held_by  # noqa: F401 — a fixture

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.usefixtures("held_by"),
]

PATIENCE = 50  # seconds
FROZEN = Rule(
    "frozen",
    "deny",
    ["change", "create", "delete"],
    "generated",
    covers=["gen/a.py"],
    does_not_cover=["a.py"],
    paths=["gen/**", "*.lock"],
)


def opened(place: Path) -> Toolbox:
    (place / "ws").mkdir(exist_ok=True)
    return Toolbox.open(place / "ws", state=place / "state", settings=False, policy="open", rules=[FROZEN])


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    for name, text in {
        "web/a.txt": "a\n",
        "gen/a.py": "a\n",
        "lib/.git/config": "[core]\n",
        "web/.env.example": "a\n",
    }.items():
        path = tmp_path / "ws" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "ws/lib/.git/hooks").mkdir()
    (tmp_path / "ws/lib/.git/HEAD").write_text("ref: refs/heads/main\n")
    return tmp_path / "ws"


@pytest.fixture
def box(ws: Path) -> Iterator[Toolbox]:
    with opened(ws.parent) as box:
        yield box


def ended(box: Toolbox, command: str) -> str:
    """What it printed."""
    reply = box.call("bash", {"command": command, "background": True})
    assert reply.status == "success", reply.text
    until = time.monotonic() + PATIENCE
    while (state := box.shell.job(JobOutput(reply.data["job"], 20_000, 0))).running and time.monotonic() < until:
        time.sleep(0.05)
    assert not state.running
    return state.output.head


def shows(box: Toolbox, job: str, text: str) -> None:
    until = time.monotonic() + PATIENCE
    while text not in (printed := box.shell.job(JobOutput(job, 20_000, 0)).output.head):
        assert time.monotonic() < until, printed
        time.sleep(0.05)


WAIT = "echo ready; until [ -e go ]; do sleep 0.05; done; rm go;"


def after_appearing(ws: Path, box: Toolbox, command: str) -> str:
    """What a command printed that waits until a protected file is there which was not when it began."""
    job = box.call("bash", {"command": f"{WAIT} {command}; echo over", "background": True}).data["job"]
    shows(box, job, "ready")
    (ws / "web/.envrc").write_text("x\n")
    (ws / "go").touch()
    until = time.monotonic() + PATIENCE
    # Brokered changes are rolled back and committed at the end: until then the workspace may be as it was.
    while (state := box.shell.job(JobOutput(job, 20_000, 0))).running:
        assert time.monotonic() < until, state.output.head
        time.sleep(0.05)
    return state.output.head.removesuffix("over\n")


def tree(folder: Path) -> dict[str, object]:
    return {
        str(path.relative_to(folder)): os.readlink(path) if path.is_symlink() else path.is_file() and path.read_bytes()
        for path in folder.rglob("*")
    }


FORBIDDEN = {
    "a folder of an editor": "mkdir -p web/.vscode; echo '{}' >web/.vscode/tasks.json",
    "a file deep down": "echo x >web/.envrc",
    "of an agent": "echo '{}' >web/.mcp.json",
    "a nested hook": "echo x >lib/.git/hooks/post-commit",
    "a nested configuration": "echo x >>lib/.git/config",
    "a pointer": "echo ../x >lib/.git/commondir",
    "a new repository": "mkdir -p new/.git/hooks; echo x >new/.git/hooks/pre-commit",
    "moved there": "mkdir web/x && echo '{}' >web/x/tasks.json; mv -T web/x web/.vscode; rm -r web/x",
    "moved over": "echo x >web/x; mv -f web/x lib/.git/config; rm -f web/x",
    "moved with its folder": "mkdir -p node_modules/.vscode && mv -T node_modules web/n; rm -r node_modules",
    "a link": "ln -s /tmp web/.husky",
    "a hard link": "ln web/a.txt web/.envrc",
    "a pipe": "mkfifo web/.envrc",
    "by a link": "ln -s .vscode web/l; mkdir web/l; echo x >web/l; rm web/l",
    "from elsewhere": "cd /tmp && echo x >$OLDPWD/web/.envrc",
    "in another case": "mkdir web/.VSCode",
    "a rule": "echo x >gen/b.py",
    "a rule on what is there": "echo x >>gen/a.py",
    "a rule on deleting": "rm -f gen/a.py",
    "a rule at any depth": "echo x >web/deep.lock",
    "a repository step by step": "mkdir -p b/objects b/refs; printf '[core]\\n\\tfsmonitor=x\\n' >b/config; echo ref: refs/heads/m >b/HEAD; rm -r b",
    "by python": "python3 -c \"import os; os.mkdir('web/.idea')\"",
    "by its descriptor": "python3 -c \"import os; d = os.open('web', 0); os.close(os.open('.envrc', os.O_CREAT | os.O_WRONLY, dir_fd=d))\"",
    "truncated": "truncate -s 0 lib/.git/config; python3 -c \"import os; os.truncate('lib/.git/config', 0)\"",
}


@pytest.mark.parametrize("command", FORBIDDEN.values(), ids=FORBIDDEN.keys())
def test_r11_a_background_command_obeys_protected_names_and_rules_wherever_they_lie(
    ws: Path, box: Toolbox, command: str
):
    before = tree(ws)
    printed = ended(box, command + "; echo over")
    assert printed.endswith("over\n"), printed
    assert {path: held for path, held in tree(ws).items() if path not in ("new",)} == before


def test_r11_everything_else_can_be_changed(ws: Path, box: Toolbox):
    printed = ended(
        box,
        "set -e; umask 027; echo 1 >a; echo 2 >>web/a.txt; mkdir -p d/e; mv a d/e/f; ln d/e/f d/g; ln -s d/g l; mkfifo p;"
        "echo ref >lib/.git/HEAD; mkdir -p lib/.git/refs/heads; : >empty; cp -r d copy; rm -r copy; mv d moved; chmod 600 empty;"
        "truncate -s 5 empty; mktemp -p . >/dev/null; rm tmp.*; echo x >$TMPDIR/t; mv $TMPDIR/t t; python3 -c \"open('py', 'x').write('1')\";"
        "ls; stat -c '%a %n' moved moved/e/f",
    )
    assert printed.endswith("750 moved\n640 moved/e/f\n"), printed
    assert (ws / "moved/e/f").read_text() == "1\n"
    assert (ws / "moved/g").samefile(ws / "moved/e/f")
    assert (ws / "web/a.txt").read_text() == "a\n2\n"
    assert (ws / "lib/.git/HEAD").read_text() == "ref\n"
    assert (ws / "empty").stat().st_size == 5
    assert (ws / "py").read_text() == "1"


def test_r11_a_name_cannot_be_changed_between_the_look_and_the_use(ws: Path, box: Toolbox):
    """One thread asks for a harmless name, and another turns it into a protected one while the kernel waits."""
    program = """
import ctypes, os, threading, time
libc = ctypes.CDLL(None)
name = ctypes.create_string_buffer(b'web/.aaaaa')
def turn():
    while not over:
        name.raw = b'web/.envrc\\0'
        name.raw = b'web/.aaaaa\\0'
over = False
thread = threading.Thread(target=turn); thread.start()
until = time.time() + 3
while time.time() < until:
    fd = libc.open(name, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600)
    if fd >= 0: os.close(fd)
    for each in ('web/.aaaaa', 'web/.envrc'):
        if os.path.exists(each): print('made', each, flush=True); os.unlink(each)
over = True; thread.join(); print('over')
"""
    (ws / "race.py").write_text(program)
    printed = ended(box, "python3 race.py")
    assert "made web/.aaaaa" in printed
    assert printed.endswith("over\n")
    assert ".envrc" not in printed


def test_r11_what_is_hidden_is_not_uncovered_by_moving_it(ws: Path, box: Toolbox):
    """A rename that is made for the command must respect what is mounted in the command's namespace."""
    (ws / "web/.env").write_text("TOKEN=secret\n")
    box.close()
    box = Toolbox.open(ws, state=ws.parent / "strict", settings=False, policy="open", secrets="strict")
    printed = ended(
        box, "mv web/.env x; cat x web/.env; mv web y; cat y/.env; echo z >z; mv -f z web/.env; cat web/.env"
    )
    assert "secret" not in printed
    assert (ws / "web/.env").read_text() == "TOKEN=secret\n"


def test_e4_nothing_is_left_or_shown_in_the_workspace_while_a_command_runs(ws: Path, box: Toolbox):
    before = tree(ws)
    reply = box.call("bash", {"command": "ls -A; sleep 100", "background": True})
    assert tree(ws) == before
    box.call("bash_stop", {"job": reply.data["job"]})
    assert tree(ws) == before


def test_r11_a_watcher_in_the_background_sees_what_the_tools_change(ws: Path, box: Toolbox):
    watch = (
        "import ctypes, os; libc = ctypes.CDLL(None); fd = libc.inotify_init1(0); "
        "libc.inotify_add_watch(fd, b'web', 0x3ca); print('ready', flush=True); "
        "[os.read(fd, 4096) for _ in iter(lambda: 'tool' in open('web/a.txt').read(), True)]; print('seen', flush=True)"
    )
    job = box.call("bash", {"command": f'python3 -c "{watch}"', "background": True}).data["job"]
    shows(box, job, "ready")
    box.call("read_file", {"path": "web/a.txt"})
    assert box.call("write_file", {"path": "web/a.txt", "content": "by a tool\n"}).status == "success"
    shows(box, job, "seen")


def test_r11_holds_for_root_and_for_a_plain_user(who: str, place: Path, held_by: HeldBy):  # noqa: F811
    def work() -> None:
        with opened(place) as box:
            printed = ended(
                box, "mkdir web; mkdir web/.vscode; echo x >.envrc; echo 1 >a; chmod 400 a; echo 2 >>a; cat a"
            )
            # The broker leaves root the capability to write to any file.
            is_written = held_by == "broker" and who == "ourselves"
            assert printed.endswith("\n1\n2\n" if is_written else "\n1\n"), printed
            assert sorted(os.listdir(place / "ws")) == ["a", "web"]
            assert os.listdir(place / "ws/web") == []

    as_user(who, work)


def test_r11_a_folder_cannot_be_moved_between_the_look_and_the_use(ws: Path, box: Toolbox):
    """One job makes a name where it is not protected, and another moves the folder to where it is."""
    (ws / "node_modules/p").mkdir(parents=True)
    (ws / "make.py").write_text("""
import os, time
fd, until = os.open('node_modules/p', os.O_RDONLY | os.O_DIRECTORY), time.time() + 4
made = 0
print('ready', flush=True)
while time.time() < until and not os.path.exists('p/.vscode'):
    try: os.mkdir('.vscode', dir_fd=fd); made += 1; os.rmdir('node_modules/p/.vscode')
    except OSError: pass
print('made', made > 0)
""")
    (ws / "move.py").write_text("""
import os, time
until = time.time() + 4
moved = 0
while time.time() < until and not os.path.exists('p/.vscode'):
    try: os.rename('node_modules/p', 'p'); moved += 1
    except OSError: pass
    if os.path.exists('p/.vscode'): break
    try: os.rename('p', 'node_modules/p')
    except OSError: pass
print('moved', moved > 0)
""")
    other = box.call("bash", {"command": "python3 make.py", "background": True}).data["job"]
    shows(box, other, "ready")
    assert ended(box, "python3 move.py") == "moved True\n"
    shows(box, other, "made True")
    assert not (ws / "p/.vscode").exists()


def test_r11_a_file_with_a_lease_makes_nobody_wait(ws: Path, box: Toolbox):
    """The kernel would let whoever opens such a file wait for most of a minute: us, and so every other command."""
    (ws / "lease.py").write_text("""
import fcntl, os, signal
signal.signal(signal.SIGIO, signal.SIG_IGN)
fd = os.open('web/a.txt', os.O_RDONLY)
fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
for change in (lambda: open('web/a.txt', 'r+'), lambda: os.truncate('web/a.txt', 0)):
    try: change()
    except BlockingIOError: print('busy')
fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
with open('web/a.txt', 'a') as file: print(os.get_blocking(file.fileno()))
os.truncate('web/a.txt', 1)
""")
    assert ended(box, "python3 lease.py") == "busy\nbusy\nTrue\n"
    assert (ws / "web/a.txt").read_text() == "a"


def test_r11_a_hard_link_does_not_follow_a_link_that_was_judged_by_its_own_name(ws: Path, box: Toolbox):
    command = "ln -s .envrc web/s; ln -L web/s out; echo evil >>out; ln -L web/a.txt b; ln -P web/s web/same; ls web"
    printed = after_appearing(ws, box, command)
    assert printed.endswith("a.txt\ns\nsame\n"), printed
    assert (ws / "web/.envrc").read_text() == "x\n"
    assert (ws / "web/.envrc").stat().st_nlink == 1
    assert (ws / "b").samefile(ws / "web/a.txt")


@pytest.mark.parametrize("way", ["os.truncate(name, 0)", "os.open(name, os.O_RDONLY | os.O_TRUNC)"])
def test_r11_what_cannot_be_resolved_is_not_truncated(ws: Path, box: Toolbox, way: str):
    """By a magic link, which we do not follow, so that the kernel decides."""
    (ws / "cut.py").write_text(f"""
import os
fd = os.open('web/.envrc', os.O_RDONLY)
for name in (f'/proc/self/fd/{{fd}}', f'/proc/{{os.getpid()}}/fd/{{fd}}'):
    try: {way}
    except OSError as error: print(error.strerror)
""")
    assert after_appearing(ws, box, "python3 cut.py").endswith("Permission denied\n")
    assert (ws / "web/.envrc").read_text() == "x\n"


@pytest.mark.parametrize(
    ("name", "flags", "since"),
    [
        ("truncate", 0, 3),
        ("open", os.O_RDONLY | os.O_TRUNC, 3),
        ("openat", os.O_ACCMODE | os.O_TRUNC, 3),
        ("openat", os.O_WRONLY | os.O_TRUNC, 2),
        ("open", os.O_RDWR | os.O_TRUNC, 2),
        ("open", os.O_RDONLY | os.O_CREAT, 2),
        ("creat", os.O_TRUNC, 2),
        ("mkdir", 0, 2),
    ],
)
def test_r11_the_kernel_decides_about_truncation_only_where_landlock_guards_it(name: str, flags: int, since: int):
    arguments = (0, flags, 0) if name == "open" else (0, 0, flags)
    assert (
        next(
            version
            for version in (2, 3, 7)
            if is_refused_by_landlock(SyscallNotification(0, 0, name, arguments), version)
        )
        == since
    )


REMOVING = {
    "a file": "rm -f web/.envrc",
    "by its folder": "rm -rf web",
    "by python": "python3 -c \"import os; os.unlink('web/.envrc', dir_fd=os.open('.', 0))\"",
    "replaced": "echo y >y; mv -f y web/.envrc; rm -f y",
    "a folder": "rmdir web/.vscode",
    "from elsewhere": "cd /tmp; rm -f $OLDPWD/web/.envrc",
    "by a magic link": "rm -f /proc/self/root$PWD/web/.envrc",
}


@pytest.mark.parametrize("command", REMOVING.values(), ids=REMOVING.keys())
def test_r11_what_is_protected_and_appeared_meanwhile_cannot_be_removed(ws: Path, box: Toolbox, command: str):
    command = f"until [ -e web/.vscode ]; do sleep 0.05; done; {command}"
    job = box.call("bash", {"command": f"echo ready; {command}; echo over", "background": True}).data["job"]
    shows(box, job, "ready")
    (ws / "web/.envrc").write_text("x\n")
    (ws / "web/.vscode").mkdir()
    shows(box, job, "over")
    assert (ws / "web/.envrc").read_text() == "x\n"
    assert (ws / "web/.vscode").is_dir()


def test_r11_removing_says_what_the_kernel_would_say(ws: Path, box: Toolbox):
    (ws / "remove.py").write_text("""
import os
os.mkdir('d'); open('d/f', 'x').close(); os.symlink('d', 'l')
for remove, name in ((os.rmdir, 'd'), (os.unlink, 'd'), (os.rmdir, 'd/f'), (os.unlink, 'gone'), (os.unlink, 'web/.mcp.json'),
                     (os.rmdir, 'l'), (os.unlink, 'l'), (os.unlink, 'd/f'), (os.rmdir, 'd/')):
    try: remove(name); print('removed', name)
    except OSError as error: print(error.strerror)
""")
    assert ended(box, "python3 remove.py").splitlines() == [
        "Directory not empty",
        "Is a directory",
        "Not a directory",
        "No such file or directory",
        "No such file or directory",
        "Not a directory",
        "removed l",
        "removed d/f",
        "removed d/",
    ]
