"""What only a brokered command can get wrong: races, boundaries, descriptors, and what Landlock does not cover."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from handhold.backends.shell import sandbox
from handhold.backends.shell.broker_filter import build_broker_filter
from handhold.core.errors import NoShell
from handhold.core.requests import Run
from tests.backends.shell.shadows import Desk, both_without_overlay, seen
from tests.backends.shell.shells import Bench, bench
from tests.scale import scaled

FLIPPER = Path(__file__).with_name("path_flipper.py")
WITHOUT_NAMESPACES = Path(__file__).with_name("without_namespaces.py")
VICTIMS = scaled(30, 300)


@pytest.fixture
def shell(tmp_path: Path):
    with bench(tmp_path, mode="brokered") as opened:
        yield opened


def make(shell: Bench, **files: str) -> None:
    for name, text in files.items():
        (shell.ws / name).write_text(text)


@pytest.mark.slow
@pytest.mark.timeout(300)
@both_without_overlay
def test_a_path_that_changes_after_the_check_is_never_wrong(desk: Desk):
    """Both ways: the broker must neither miss a change in the workspace nor make one elsewhere."""
    names = [f"victim{number:04}" for number in range(VICTIMS)]
    for name in names:
        (desk.ws / name).write_text("old")
    (desk.ws / "path_flipper.py").write_bytes(FLIPPER.read_bytes())
    outside = desk.place / "outside"
    outside.write_text("theirs")
    before = seen(desk.ws)
    with bench_on(desk) as shell:
        harmless = "$TMPDIR/harmless"
        victims = " ".join(shlex.quote(str(desk.ws / name)) for name in names)
        ran = shell(f": >{harmless}; python3 path_flipper.py {harmless} {victims} {desk.place}/outside", seconds=200)
        assert "opened" in ran.output.head, ran.output
        assert seen(desk.ws) == before
    assert outside.read_text() == "theirs"
    assert outside.stat().st_mode & 0o777 != 0o777


def bench_on(desk: Desk):
    return bench(desk.place, mode="brokered")


def test_the_reply_says_who_held_the_command(shell: Bench):
    ran = shell("true")
    assert ran.sandbox.by == "broker"
    assert ran.sandbox.shadow
    assert ran.undo_scope == "all"
    assert any("/tmp" in why for why in ran.sandbox.why_not)


def test_a_time_limit_that_ends_before_the_command_has_started_is_a_time_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nsleep 100\nexit 125\n")
    slow.chmod(0o755)
    monkeypatch.setattr(sandbox, "find_broker", lambda: (str(slow), ""))
    with bench(tmp_path, mode="brokered") as shell:
        assert shell("echo x >a", seconds=0.05).exit_status.timed_out
        slow.write_text("#!/bin/sh\nexit 125\n")
        with pytest.raises(NoShell):
            shell("true")


def test_the_workspace_is_rolled_back_before_anybody_decides(shell: Bench):
    make(shell, a="old\n")
    with shell.shell.run(Run("echo new >a; echo more >b", 20, chars=1000)) as finished:
        assert (shell.ws / "a").read_text() == "old\n"
        assert not (shell.ws / "b").exists()
        assert finished.effects
        assert [change.path for change in finished.effects.files] == [str(shell.ws / "a"), str(shell.ws / "b")]


def test_what_somebody_else_put_there_meanwhile_stays(shell: Bench):
    make(shell, a="old\n", b="old\n")
    theirs = shell.ws / "theirs"

    def meanwhile(_output: str) -> None:
        theirs.write_text("theirs\n")
        theirs.rename(shell.ws / "a")

    command = "echo ours >a; echo ours >b; echo ready; while [ $(cat a) = ours ]; do sleep 0.01; done"
    with shell.shell.run(Run(command, 20, chars=1000), on_output=meanwhile) as finished:
        assert finished.effects
        assert [clash.path for clash in finished.effects.conflicts] == [str(shell.ws / "a")]
        assert [change.path for change in finished.effects.files] == [str(shell.ws / "b")]
    assert (shell.ws / "a").read_text() == "theirs\n"
    assert (shell.ws / "b").read_text() == "old\n"


BOUNDARY = {
    "a hard link out of the workspace": "ln a $TMPDIR/out",
    "a hard link into the workspace": ": >$TMPDIR/in; ln $TMPDIR/in in",
    "a file without a name": "python3 -c 'import os; os.open(\".\", os.O_TMPFILE | os.O_RDWR)'",
    "a device": "mknod device c 1 3",
    "the workspace itself": "mv $PWD $PWD.moved",
    "outside": "echo x >../outside",
    "the mode of something outside": "chmod 777 ../outside",
    "the attributes of a file": "chattr +i a",
    "a new system call": "python3 -c 'import ctypes, os; l = ctypes.CDLL(None, use_errno=True);"
    ' r = l.syscall(463, -100, b"a", 0, b"user.x", b"", 0); os._exit(r != 0)\'',
}


@pytest.mark.parametrize("command", BOUNDARY.values(), ids=BOUNDARY.keys())
def test_it_does_not_cross_the_boundary(shell: Bench, command: str):
    make(shell, a="old\n")
    (shell.ws.parent / "outside").write_text("theirs\n")
    (shell.ws.parent / "outside").chmod(0o600)
    ran = shell(command)
    assert ran.exit_status.code, ran.output
    assert seen(shell.ws).keys() == {"a"}
    assert (shell.ws.parent / "outside").read_text() == "theirs\n"
    assert (shell.ws.parent / "outside").stat().st_mode & 0o777 == 0o600


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can create the namespace")
def test_the_probe_chooses_the_broker_where_there_are_no_namespaces(tmp_path: Path):
    """README's example of a command, in a namespace whose user.max_user_namespaces is 0."""
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws/a.txt").write_text("one\n")
    program = (
        "import json, sys; from handhold import Toolbox\n"
        f"box = Toolbox.open({str(tmp_path / 'ws')!r}, state={str(tmp_path / 'state')!r}, policy='open')\n"
        "ran = box.call('bash', {'command': 'sed -i s/one/two/ a.txt; cat a.txt'})\n"
        "print(json.dumps([ran.data['sandbox']['by'], ran.data['undo'], ran.text, open(f'{sys.argv[1]}/a.txt').read()]))\n"
        "print(json.dumps([box.undo().status, open(f'{sys.argv[1]}/a.txt').read()]))\n"
    )
    argv = [sys.executable, WITHOUT_NAMESPACES, sys.executable, "-c", program, str(tmp_path / "ws")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=50)
    assert done.returncode == 0, done.stderr
    ran, undone = map(json.loads, done.stdout.splitlines())
    assert ran[:2] == ["broker", "all"]
    assert ran[2].startswith("two\n")
    assert "held by the broker" in ran[2]
    assert ran[3] == "two\n"
    assert undone == ["success", "one\n"]


STORE = {
    "write a copy by its path": "echo x >$saved/1",
    "write a copy through a descriptor": "exec 3<$saved/1; echo x >/proc/self/fd/3",
    "truncate a copy": "truncate -s 0 $saved/1",
    "change the mode of a copy": "chmod 777 $saved/1",
    "remove a copy": "rm -f $saved/1",
    "move a copy": "mv $saved/1 b",
    "link a copy": "ln $saved/1 b",
    "occupy a name": "for i in 2 3 4 5; do : >$saved/$i; done",
    "change the log": "echo x >>$saved/../undo.log",
}


@pytest.mark.parametrize("command", STORE.values(), ids=STORE.keys())
def test_it_does_not_reach_what_is_kept_for_undo(shell: Bench, command: str):
    make(shell, a="old\n")
    before = seen(shell.ws)
    folder = shell.files.get_staging_area(shell.files.open_roots[0])
    assert folder
    ran = shell(f"echo new >a; saved=$(echo {folder.folder}/*/saved); ({command}) 2>/dev/null; cat a; rm a")
    assert ran.output.head == "new\n", ran.output
    assert seen(shell.ws) == before


def test_a_umask_of_the_command_does_not_close_what_is_kept_for_undo(shell: Bench):
    make(shell, a="old\n")
    folder = shell.files.get_staging_area(shell.files.open_roots[0])
    assert folder
    assert shell.shows(f"umask 777; : >new; echo x >>a; stat -c %a {folder.folder}/*/saved/*") == "600\n"


LOCKED = {
    "create": "mkdir .vscode",
    "create below": "mkdir -p .git/hooks && echo x >.git/hooks/pre-commit",
    "move a file there": "mv a .envrc",
    "move a folder that contains one": "mkdir -p d/e && echo x >d/e/f && mv d .vscode",
    "link": "ln a .envrc",
    "symbolic link": "ln -s a .envrc",
}


@pytest.mark.parametrize("command", LOCKED.values(), ids=LOCKED.keys())
def test_a_command_whose_changes_stay_changes_no_protected_name(shell: Bench, command: str):
    make(shell, a="old\n")
    ran = shell(f"{command}; code=$?; echo x >b; exit $code", direct=True)
    assert ran.exit_status.code, ran.output
    assert ran.undo_scope == "file tools only"
    assert (shell.ws / "b").read_text() == "x\n"
    assert not {".vscode", ".envrc"} & {*os.listdir(shell.ws)}
    assert not (shell.ws / ".git/hooks/pre-commit").exists()


def test_in_the_machines_temporary_folder_it_changes_only_what_its_session_created(shell: Bench, tmp_path: Path):
    name = f"/var/tmp/handhold-test-{os.getpid()}"
    theirs = Path(f"{name}-theirs")
    theirs.write_text("theirs\n")
    theirs.chmod(0o600)
    try:
        tries = (
            f"echo x >{theirs}",
            f"rm -f {theirs}",
            f"mv {theirs} {name}-x",
            f"chmod 777 {theirs}",
            f"ln {theirs} {name}-l",
        )
        for command in (
            *tries,
            f"mv {tmp_path} {name}-y",
            f"touch {tmp_path}/new",
            f": >{name}; mv -f {name} {theirs}",
        ):
            assert shell(command).exit_status.code, command
            assert theirs.read_text() == "theirs\n"
            assert theirs.stat().st_mode & 0o777 == 0o600
        assert shell.shows(f"mkdir {name}-d; echo one >{name}-d/a; cat {name}-d/a") == "one\n"
        assert shell.shows(f"echo two >>{name}-d/a; cat {name}-d/a; rm -r {name}-d {name}; ls -d {name}*") == (
            f"one\ntwo\n{theirs}\n"
        )
    finally:
        theirs.unlink()


def test_no_way_of_opening_shows_a_hidden_file_in_a_temporary_folder(shell: Bench):
    """The state folder of this bench is in the machine's temporary folder."""
    secret = shell.state / "kept"
    secret.write_text("hidden words\n")
    program = (
        "import os, sys\n"
        "for flags in (0, os.O_CREAT, os.O_RDWR, os.O_RDWR | os.O_CREAT, os.O_CREAT | os.O_NOFOLLOW, os.O_APPEND):\n"
        "    try: print(os.read(os.open(sys.argv[1], flags), 99))\n"
        "    except OSError as error: print(error.strerror)\n"
    )
    printed = shell.shows(f"python3 -c {shlex.quote(program)} {secret}")
    assert printed.splitlines() == ["Permission denied"] * 6


WORKS = {
    "append through an inherited descriptor": ("exec 3>>a; rm a; echo x >&3; cat /dev/fd/3", "old\nx\n"),
    "reopen a descriptor by name": ("exec 3<a; echo x >/proc/self/fd/3; cat a", "x\n"),
    "write to /dev/stdout": ("echo x >/dev/stdout", "x\n"),
    "a named pipe": ("mkfifo p; (echo x >p &); cat p", "x\n"),
    "a program that was just compiled": ("cp /bin/true ./t; chmod +x t; ./t && echo x", "x\n"),
    "a link that leads nowhere yet": ("ln -s later now; echo x >now; cat later", "x\n"),
    "a umask": ("umask 077; : >u; stat -c %a u", "600\n"),
    "a swap of two names": (
        'echo x >b; python3 -c \'import ctypes; ctypes.CDLL(None).renameat2(-100, b"a", -100, b"b", 2)\'; cat a',
        "x\n",
    ),
    "a file that is open but has no name": ("exec 3<>n; rm n; echo x >&3; cat /proc/self/fd/3", "x\n"),
    "a file that is replaced while it is open": (
        "echo x >b; exec 3<a; mv b a; chmod 600 /proc/self/fd/3; echo y >/proc/self/fd/3; cat a - <&3",
        "x\ny\n",
    ),
    "an open without a free descriptor": (
        "ulimit -n 30; python3 -c '\n"
        "import os\n"
        "try:\n"
        '    while True: os.open("/dev/null", 0)\n'
        "except OSError: pass\n"
        'for name, flags in (("a", os.O_WRONLY | os.O_TRUNC), ("a", os.O_TRUNC), ("n", os.O_WRONLY | os.O_CREAT)):\n'
        "    try: os.open(name, flags)\n"
        "    except OSError as error: print(error.strerror)'; cat a; ls",
        "Too many open files\n" * 3 + "old\na\n",
    ),
    "a rename that must not replace another name of the file": (
        'ln a b; python3 -c \'import ctypes; print(ctypes.CDLL(None).renameat2(-100, b"a", -100, b"b", 1))\'; ls',
        "-1\na\nb\n",
    ),
    "a change of mode without a path": (
        "python3 -c 'import ctypes, os; print(ctypes.CDLL(None).fchmodat(os.open(\"a\", 0), None, 0, 0))'; stat -c %a a",
        "-1\n644\n",
    ),
    "times without a path": (
        "python3 -c 'import ctypes, os; print(ctypes.CDLL(None).futimens(os.open(\"a\", 0), (ctypes.c_long * 4)(5, 0, 5)))';"
        " stat -c %Y a",
        "0\n5\n",
    ),
    "an exclusive open of a link": (
        "ln -s a l; python3 -c 'import os; os.open(\"l\", os.O_RDWR | os.O_EXCL)' && echo x",
        "x\n",
    ),
    "an attribute": (
        'python3 -c \'import os; os.setxattr("a", "user.x", b"1"); print(os.getxattr("a", "user.x").decode())\'',
        "1\n",
    ),
}


@pytest.mark.parametrize(("command", "printed"), WORKS.values(), ids=WORKS.keys())
def test_it_works_as_without_a_broker(shell: Bench, tmp_path: Path, command: str, printed: str):
    make(shell, a="old\n")
    before = seen(shell.ws)
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "a").write_text("old\n")
    done = subprocess.run(["bash", "-c", command], cwd=bare, capture_output=True, check=False, timeout=30)
    assert done.stdout.decode() == printed
    assert shell.shows(command) == printed
    assert seen(shell.ws) == before


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_every_filter_fits_the_kernel(machine: str):
    data = build_broker_filter(machine)
    assert 0 < len(data) // 8 < 4096
    assert build_broker_filter("riscv64") == b""
    assert os.path.exists(FLIPPER)
