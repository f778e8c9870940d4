"""C-89 with the broker: what a rule hides is read in no way, and what the command makes next to it works as elsewhere.

Each way around reads the secret from a shell that nothing confines: a way that fails everywhere proves nothing.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.backends.shell.shadows import seen
from tests.backends.shell.shells import Bench, NamesOnly, bench

SECRET = "hunter2hunter2"
HIDDEN = (".env", "sub/deep/key", "vault", "twin")


class Hiding(NamesOnly):
    """Hides files, a folder, and the other name of a file."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self._root = root

    def masked_paths(self) -> Sequence[str]:
        return [f"{self._root}/{name}" for name in HIDDEN]


def lay(ws: Path) -> None:
    (ws / "sub/deep").mkdir(parents=True)
    (ws / "vault").mkdir()
    for name in (".env", "sub/deep/key", "vault/a"):
        (ws / name).write_text(f"{SECRET}\n")
    (ws / "twin").hardlink_to(ws / ".env")
    (ws / "plain").write_text("plain\n")
    (ws / "link").symlink_to(".env")
    (ws / "tool").write_text("#!/bin/sh\necho a tool\n")
    (ws / "tool").chmod(0o755)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Bench]:
    (tmp_path / "ws").mkdir()
    lay(tmp_path / "ws")
    with bench(tmp_path, mode="brokered", guard=Hiding(str(tmp_path / "ws"))) as opened:
        yield opened


def python(program: str) -> str:
    return f"{sys.executable} -c '{program}'"


AROUND = {
    "read it": "cat .env",
    "its other name": "cat twin",
    "in a folder": "cat sub/deep/key",
    "in a hidden folder": "cat vault/a",
    "the hidden folder as a whole": "grep -r . vault",
    "a link to it": "cat link",
    "a new link": "ln -s .env new; cat new",
    "a hard link": "ln .env new; cat new",
    "a hard link through a descriptor": python('import ctypes, os; fd = os.open(".env", os.O_PATH); ctypes.CDLL(None).linkat(-100, f"/proc/self/fd/{fd}".encode(), -100, b"new", 0x400); print(open("new").read())'),
    "move it": "mv .env new; cat new",
    "move its folder": "mv sub/deep new; cat new/key",
    "move the folder above": "mv sub new; cat new/deep/key",
    "move the hidden folder": "mv vault new; cat new/a",
    "exchange it": python('import ctypes; ctypes.CDLL(None).renameat2(-100, b".env", -100, b"plain", 2); print(open("plain").read())'),
    "exchange its folder": "mkdir new; " + python('import ctypes; ctypes.CDLL(None).renameat2(-100, b"sub", -100, b"new", 2)') + "; cat new/deep/key",
    "copy it": "cp .env new; cat new",
    "for reading and writing": "exec 3<>.env; cat <&3",
    "create it": python('import os; print(os.read(os.open(".env", os.O_RDONLY | os.O_CREAT), 99))'),
    "reopen a descriptor": python('import os; fd = os.open(".env", os.O_PATH); print(open(f"/proc/self/fd/{fd}").read())'),
    "reopen another process's descriptor": python('import os, time; fd = os.open(".env", os.O_PATH); child = os.fork(); child or time.sleep(2); child and print(open(f"/proc/{child}/fd/{fd}").read())'),
    "another process's root": "sleep 2 & cat /proc/$!/root/$PWD/.env",
    "another process's folder": "sleep 2 & cat /proc/$!/cwd/.env",
    "its own root": "cat /proc/self/root/$PWD/.env",
    "up and down": "cat sub/../.env",
    "from the folder of a hidden one": "cd vault && cat a",
    "execute it as a script": "bash .env 2>&1",
    "source it": ". ./.env 2>&1",
    "as a program's library": "LD_PRELOAD=$PWD/.env true 2>&1; cat .env",
    "map it": python('import mmap, os; print(mmap.mmap(os.open(".env", os.O_RDONLY), 0, prot=mmap.PROT_READ)[:])'),
    "send the file": python('import os; r = os.open(".env", os.O_RDONLY); os.sendfile(1, r, 0, 99)'),
    "copy_file_range": python('import os; r = os.open(".env", os.O_RDONLY); w = os.open("new", os.O_RDWR | os.O_CREAT); os.copy_file_range(r, w, 99); print(os.pread(w, 99, 0))'),
    "openat2": python('import ctypes, os, struct; how = struct.pack("QQQ", 0, 0, 0); fd = ctypes.CDLL(None).syscall(437, -100, b".env", how, 24); print(os.read(fd, 99))'),
    "a descriptor that is passed": python('import os, socket; a, b = socket.socketpair(); socket.send_fds(a, [b"x"], [os.open(".env", os.O_RDONLY)]); print(os.read(socket.recv_fds(b, 1, 1)[1][0], 99))'),
    "git": "git init -q; git add -f .env; git show :.env",
    "tar": "tar c .env | tar xO",
    "a new mode": "chmod 777 .env; cat .env",
}  # fmt: skip


@pytest.mark.parametrize("command", AROUND.values(), ids=AROUND.keys())
def test_no_way_leads_to_what_is_hidden(shell: Bench, tmp_path: Path, command: str):
    before = seen(shell.ws)
    ran = shell(command)
    assert SECRET not in ran.output.head, ran.output
    assert "handhold:" not in ran.output.head
    assert seen(shell.ws) == before
    bare = tmp_path / "bare"
    bare.mkdir()
    lay(bare)
    done = subprocess.run(["bash", "-c", command], cwd=bare, capture_output=True, text=True, check=False, timeout=30)
    assert SECRET in done.stdout, f"the way is no good: {done}"


KEPT = {
    "write": "echo x >.env",
    "append": "echo x >>sub/deep/key",
    "truncate": "truncate -s 0 .env",
    "mode": "chmod 600 .env",
    "time": "touch .env",
    "attribute": python('import os; os.setxattr(".env", "user.x", b"1")'),
    "remove": "rm -f .env",
    "remove the folder": "rm -rf vault",
    "create in the folder": "echo x >vault/b",
    "create a folder in the folder": "mkdir vault/b",
    "replace": "echo x >new; mv -f new .env",
    "replace with a folder": "mkdir new; mv -T new vault",
}


@pytest.mark.parametrize("command", KEPT.values(), ids=KEPT.keys())
def test_it_is_not_changed_either(shell: Bench, command: str):
    before = seen(shell.ws)
    ran = shell(f"exec 2>&1; LANG=C; {command}")
    assert ran.exit_status.code, ran.output
    assert "denied" in ran.output.head or "busy" in ran.output.head, ran.output
    assert seen(shell.ws) == before


COMPILE = "cp /bin/true made; chmod +x made"
WORKS: dict[str, tuple[str, str]] = {
    "read what was there": ("cat plain sub/../plain; ls sub/deep", "plain\nplain\nkey\n"),
    "read a new file": ("echo x >new; cat new", "x\n"),
    "read a new file in a new folder": ("mkdir -p a/b; echo x >a/b/c; cat a/b/c", "x\n"),
    "read a replaced file": ("sed -i s/plain/other/ plain; cat plain", "other\n"),
    "read what has no name": ("exec 3<>n; echo x >&3; rm n; cat /proc/self/fd/3", "x\n"),
    "read what was removed": ("exec 3<plain; rm plain; cat <&3; cat /dev/fd/3", "plain\nplain\n"),
    "a named pipe": ("mkfifo p; (echo x >p &); cat p", "x\n"),
    "run what was there": ("./tool", "a tool\n"),
    "run a new script": ("printf '#!/bin/sh\\necho x\\n' >new; chmod +x new; ./new; ./new", "x\nx\n"),
    "run a new program": (f"{COMPILE}; ./made && ./made && echo x", "x\n"),
    "run a new program in a new folder": ("mkdir -p a/b; cp /bin/true a/b/t; a/b/t && echo x", "x\n"),
    "run a replaced script": ("sed -i s/a/no/ tool; ./tool", "no tool\n"),
    "change a program that has run": ("cp /bin/true t; ./t; printf '#!/bin/sh\\necho x\\n' >t; ./t", "x\n"),
    "a program's mode, time and links": (f"{COMPILE}; touch -d @1000 made; chmod 751 made; ./made; stat -c '%Y %a %s' made | sed s/$(stat -c %s /bin/true)/size/", "1000 751 size\n"),
    "a program that is being written": ("cp /bin/true t; exec 3>>t; ./t 2>/dev/null; echo $?", "126\n"),
    "a listing": ("ls -A | sort | tr '\\n' ' '", ".env link plain sub tool twin vault "),
    "an absolute path": ("cat $PWD/plain", "plain\n"),
    "standard input": ("echo x | cat /dev/stdin", "x\n"),
    "a descriptor of its own": ("exec 3<plain; cat /dev/fd/3 /proc/self/fd/3 /proc/$$/fd/3", "plain\n" * 3),
    "its own memory map": ("grep -c stack /proc/self/maps; cat /proc/$$/task/$$/comm; head -c4 /proc/self/comm", "1\nbash\nhead"),
    "modules": ("echo 'x = 1' >new.py; " + python("import new; print(new.x)"), "1\n"),
}  # fmt: skip


@pytest.mark.parametrize(("command", "printed"), WORKS.values(), ids=WORKS.keys())
def test_beside_it_everything_works_as_without_a_broker(shell: Bench, tmp_path: Path, command: str, printed: str):
    before = seen(shell.ws)
    bare = tmp_path / "bare"
    bare.mkdir()
    lay(bare)
    done = subprocess.run(["bash", "-c", command], cwd=bare, capture_output=True, check=False, timeout=30)
    assert done.stdout.decode() == printed
    assert shell.shows(command) == printed
    assert seen(shell.ws) == before


def test_more_programs_than_spare_inodes_are_refused_and_nothing_leaks(shell: Bench):
    ran = shell("for i in $(seq 70); do cp /bin/true t$i; ./t$i && echo ran; done; cat .env")
    assert ran.output.head.count("ran") >= 60, ran.output
    assert SECRET not in ran.output.head


def test_a_path_that_flips_between_a_plain_and_a_hidden_file_never_shows_it(shell: Bench):
    flips = python(
        'import os, threading\n'
        'os.symlink(".env", "a"); os.symlink("plain", "b")\n'
        "done = []\n"
        "def flip():\n"
        "    import ctypes; libc = ctypes.CDLL(None)\n"
        '    while not done: libc.renameat2(-100, b"a", -100, b"b", 2)\n'
        "threads = [threading.Thread(target=flip) for _ in range(2)]\n"
        "[each.start() for each in threads]\n"
        "read, tries = set(), 0\n"
        "while tries < 3000 or not read:\n"
        "    tries += 1\n"
        '    try: read.add(open("a").read())\n'
        "    except OSError: pass\n"
        "done.append(1); print(sorted(read))"
    )  # fmt: skip
    assert shell.shows(flips, seconds=60) == "['plain\\n']\n"


def test_without_anything_hidden_reading_does_not_wait_for_the_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from handhold.backends.shell import brokered_launch

    asked: list[bool] = []
    build: Callable[..., bytes] = brokered_launch.build_broker_filter

    def remember(*, network: bool, reads: bool) -> bytes:
        asked.append(reads)
        return build(network=network, reads=reads)

    monkeypatch.setattr(brokered_launch, "build_broker_filter", remember)
    monkeypatch.setattr(brokered_launch, "SHARED_FOLDERS", ())  # the test's own folder is in one
    with bench(tmp_path, mode="brokered") as shell:
        shell("true")
    lay(tmp_path / "ws")
    with bench(tmp_path, mode="brokered", guard=Hiding(str(tmp_path / "ws"))) as shell:
        shell("true")
    assert asked == [False, True]
