"""Ways out of the sandbox, as root and as an unprivileged user. None may succeed.

An attack exits with status 0 if it succeeds. If it works unconfined, the test shows that first: an attack that
fails everywhere proves nothing.
"""

import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from handhold.backends.shell.sandbox_support import detect_sandbox_support
from handhold.core.policy.protected_names import READ_ONLY_MOUNTS
from tests.backends.shell.people import ROOT, USERS, Person, person, system_python

pytestmark = pytest.mark.skipif(
    detect_sandbox_support().bubblewrap is None, reason="nothing confines commands on this machine"
)

SECRET = "the secret"


@pytest.fixture(params=USERS)
def who(request: pytest.FixtureRequest) -> Iterator[Person]:
    made = person(request.param)
    made.write(made.outside / "file", "as it was\n")
    os.chmod(made.outside / "file", 0o644)
    os.utime(made.outside / "file", (1_000_000_000, 1_000_000_000))
    yield made
    shutil.rmtree(made.base)


@pytest.fixture(params=["two walls", "one wall"])
def walls(request: pytest.FixtureRequest, who: Person) -> None:
    """Both barriers, or the one without Landlock."""
    who.launcher = request.param == "two walls"


def facts(path: Path) -> tuple[object, ...]:
    found = path.stat()
    return found.st_mode, found.st_mtime_ns, found.st_nlink, path.read_bytes()


def is_refused(who: Person, attack: str, *, succeeds_bare: bool = True, **options: object) -> str:
    """It succeeds unconfined and fails in the sandbox. Returns what it printed there."""
    if succeeds_bare:
        bare = who.bare(attack)
        assert bare.returncode == 0, f"the attack is no good: {bare}"
    done = who.contained(attack, **options)  # pyright: ignore[reportArgumentType]
    assert done.returncode not in (0, 124, 127), done
    for ours in ("confined.py", "handhold:", "bwrap: Can't"):  # a sandbox that does not start proves nothing
        assert ours not in done.stderr, done
    return done.stderr


@pytest.mark.usefixtures("walls")
def test_an_honest_command_runs(who: Person):
    done = who.contained("echo made >new && cat new && cat $0".replace("$0", str(who.outside / "file")))
    assert (done.returncode, done.stdout, done.stderr) == (0, "made\nas it was\n", "")
    assert not (who.root / "new").exists()


# --- files outside


WRITES = {
    "write": "echo x >>{file}",
    "truncate": ": >|{file}",
    "mode": "chmod 777 {file}",
    "times": "touch -d 2001-01-01 {file}",
    "new file": "echo x >{folder}/new",
    "delete": "rm -f {file} && ! test -e {file}",
    "rename": "mv -n {file} {file}.2",
    "attribute": "setfattr -n user.x -v y {file}",
    "through a link made inside": "ln -s {file} way && echo x >>way",
    "through a link to the folder": "ln -s {folder} there && echo x >there/new2",
    "through /proc/self/root": "echo x >>/proc/self/root{file}",
    "through /proc/self/cwd": "cd {folder} && echo x >>/proc/self/cwd/file",
    "through a descriptor": "exec 5<{folder} && echo x >>/proc/self/fd/5/file",
}


@pytest.mark.usefixtures("walls")
@pytest.mark.parametrize("attack", WRITES.values(), ids=WRITES.keys())
def test_c83_nothing_outside_is_changed(who: Person, attack: str):
    file = who.outside / "file"
    before = facts(file)
    command = attack.format(file=file, folder=who.outside)
    done = who.contained(command)
    assert done.returncode != 0, done
    assert facts(file) == before
    assert sorted(each.name for each in who.outside.iterdir()) == ["file"]
    assert who.bare(command).returncode == 0  # last, since it succeeds


def test_c83_the_system_is_not_changed(who: Person):
    target = "/usr/bin/env"
    assert "Read-only" in is_refused(who, f"chmod 755 {target}", succeeds_bare=who.name == "root")
    is_refused(who, "mkdir /usr/local/handhold-test && rmdir /usr/local/handhold-test", succeeds_bare=who.name == "root")  # fmt: skip
    is_refused(who, "touch /handhold-test", succeeds_bare=False)
    assert not Path("/handhold-test").exists()


def test_a_file_outside_cannot_be_linked_inside(who: Person):
    is_refused(who, f"ln {who.outside}/file here && rm here")


@pytest.mark.usefixtures("walls")
def test_what_holds_the_sandbox_is_out_of_reach(who: Person):
    """Process 1 is bubblewrap itself, whose file is outside and belongs to the user if it came in a wheel."""
    for attack in ("chmod 755", "touch", "cat", "readlink", "setfattr -n user.x -v y", "echo x >>"):
        is_refused(who, f"{attack} /proc/1/exe", succeeds_bare=False)
    is_refused(who, "ls /proc/1/root/ || ls /proc/1/cwd/ || readlink /proc/1/task/1/fd/0", succeeds_bare=False)
    is_refused(who, "grep -z PATH /proc/1/environ", succeeds_bare=False)


@pytest.mark.usefixtures("walls")
def test_the_processes_of_the_machine_show_no_way_out(who: Person):
    done = who.contained("ls /proc/1/root/; cat /proc/*/cmdline | tr '\\0' ' '; ls /proc/1/cwd/")
    assert str(os.getpid()) not in who.contained("ls /proc").stdout.split()
    assert "pytest" not in done.stdout
    is_refused(who, f"echo x >>/proc/1/root{who.outside}/file", succeeds_bare=False)
    assert (who.outside / "file").read_text() == "as it was\n"


# --- mounts, devices, namespaces


def test_the_root_cannot_be_remounted(who: Person):
    for flags in ("remount,rw", "remount,bind,rw"):
        is_refused(who, f"mount -o {flags} /", succeeds_bare=False)
    # In its own mount namespace the same call succeeds and is harmless.
    is_refused(who, "unshare -rm mount -o remount,bind,rw /")
    is_refused(who, f"mount --bind {who.root} {who.outside}", succeeds_bare=False)
    is_refused(who, f"umount {who.outside}", succeeds_bare=False)
    is_refused(who, "umount -l /proc", succeeds_bare=False)


def test_no_device_can_be_made_or_found(who: Person):
    is_refused(who, "mknod device b 254 0 && rm device", succeeds_bare=who.name == "root")
    is_refused(who, "mknod /tmp/device c 1 3 && rm /tmp/device", succeeds_bare=who.name == "root")
    assert who.contained("find /dev -type b").stdout == ""
    found = who.contained("stat -c %F:%n /dev/*").stdout.splitlines()
    names = ("full", "null", "random", "tty", "urandom", "zero")
    assert [each for each in found if "special" in each and "block" not in each] == [
        f"character special file:/dev/{name}" for name in names
    ]


@pytest.mark.parametrize("flag", ["-U", "-Ur", "-Urm", "-Urn", "-Urp --fork"])
def test_no_namespace_in_the_namespace(who: Person, flag: str):
    is_refused(who, f"unshare {flag} true")


def test_no_namespace_of_somebody_else(who: Person):
    is_refused(who, f"nsenter -t {os.getpid()} -m true", succeeds_bare=who.name == "root")


def test_no_sandbox_in_the_sandbox(who: Person):
    found = detect_sandbox_support().bubblewrap
    assert found
    shown = {"real": str(Path(found.path).parents[2] if found.source == "wheel" else "/usr"), "mode": "read-only"}
    is_refused(who, f"{found.path} --dev-bind / / true", mounts=[shown])


@pytest.mark.parametrize(
    "place", ["/proc/sys/kernel/core_pattern", "/proc/sys/vm/overcommit_memory", "/sys/power/state"]
)
def test_the_kernel_is_not_set(who: Person, place: str):
    """Root needs no capability to write these, and is root inside too. They are only opened; nothing is written."""
    is_refused(who, f"exec 3>>{place}", succeeds_bare=who.name == "root")
    if who.name == "root":  # even if the workspace is the whole machine
        is_refused(who, f"exec 3>>{place}", mounts=[{"real": "/", "mode": "direct"}])


def test_no_control_group_is_made(who: Person):
    folders = [each for each in Path("/sys/fs/cgroup").glob("**/cgroup.procs") if len(each.parts) < 7]
    for each in folders[:5]:
        is_refused(who, f"mkdir {each.parent}/handhold-test && rmdir {each.parent}/handhold-test", succeeds_bare=False)


# --- processes


def test_nothing_can_be_traced(who: Person):
    if shutil.which("strace") is None:
        pytest.skip("strace is not there")
    is_refused(who, "strace -o /dev/null true")


def test_no_signal_reaches_the_outside(who: Person):
    command = ["bash", "-c", "echo ready; exec sleep 60"]
    with subprocess.Popen([*who.dropped(), *command], stdout=subprocess.PIPE) as victim:
        try:
            assert victim.stdout
            victim.stdout.readline()  # from here on it runs as the given user
            is_refused(who, f"kill -0 {victim.pid}")
            is_refused(who, f"kill -9 {victim.pid}", succeeds_bare=False)
            is_refused(who, f"kill -9 {os.getpid()}", succeeds_bare=False)
            who.contained("kill -9 -1; kill -9 1")  # every process it can see
            assert victim.poll() is None
        finally:
            victim.kill()


def test_the_calls_that_walls_have_broken_by_answer_as_if_forbidden(who: Person):
    """By number, so that nothing else refuses first. Outside, none of them returns EPERM."""
    calls = {
        "keyctl": (250, 219), "add_key": (248, 217), "bpf": (321, 280), "userfaultfd": (323, 282),
        "io_uring_setup": (425, 425), "perf_event_open": (298, 241), "open_by_handle_at": (304, 265),
        "process_vm_readv": (310, 270), "setns": (308, 268), "fsopen": (430, 430), "pivot_root": (155, 41),
    }  # fmt: skip
    column = 0 if os.uname().machine == "x86_64" else 1
    numbers = {name: pair[column] for name, pair in calls.items()}
    program = (
        "import ctypes, errno, sys; libc = ctypes.CDLL(None, use_errno=True)\n"
        f"for name, number in {numbers}.items():\n"
        "    ctypes.set_errno(0); libc.syscall(number, 0, 0, 0, 0, 0); print(name, errno.errorcode.get(ctypes.get_errno()))\n"
        "ctypes.set_errno(0); libc.syscall(435, 0, 0); print('clone3', errno.errorcode.get(ctypes.get_errno()))\n"
    )
    who.write(who.root / "calls.py", program)
    inside = dict(line.split() for line in who.contained(f"{system_python()} calls.py").stdout.splitlines())
    assert inside == {**{name: "EPERM" for name in calls}, "clone3": "ENOSYS"}
    outside = dict(line.split() for line in who.bare(f"{system_python()} calls.py").stdout.splitlines())
    assert "EPERM" not in (outside["keyctl"], outside["io_uring_setup"], outside["process_vm_readv"])
    assert outside["clone3"] != "ENOSYS"


# --- network and sockets


@contextmanager
def listening(listener: socket.socket) -> Iterator[list[str]]:
    """What a listener received, and from how many clients."""
    heard: list[str] = []
    listener.settimeout(30)

    def listen() -> None:
        while True:
            try:
                if listener.type == socket.SOCK_DGRAM:
                    heard.append(listener.recv(100).decode())
                else:
                    listener.accept()[0].close()
                    heard.append("somebody")
            except OSError:
                return

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    try:
        yield heard
    finally:
        with closing(listener):
            try:
                listener.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def test_c83_no_tcp_leaves(who: Person):
    listener = socket.create_server(("127.0.0.1", 0))
    attack = f"exec 3<>/dev/tcp/127.0.0.1/{listener.getsockname()[1]}"
    with listening(listener) as heard:
        is_refused(who, attack)
        assert len(heard) == 1  # the unconfined one
    assert "unreachable" in is_refused(who, "timeout 20 bash -c 'exec 3<>/dev/tcp/192.0.2.1/80'", succeeds_bare=False)


def test_c83_no_udp_leaves(who: Person):
    listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listener.bind(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    with listening(listener) as heard:
        assert who.bare(f"echo outside >/dev/udp/127.0.0.1/{port}").returncode == 0
        who.contained(f"echo inside >/dev/udp/127.0.0.1/{port}")
        assert who.bare(f"echo after >/dev/udp/127.0.0.1/{port}").returncode == 0
        for _ in range(1_000):
            if "after\n" in heard:
                break
            threading.Event().wait(0.05)
        assert heard == ["outside\n", "after\n"]
    assert "unreachable" in is_refused(who, "echo x >/dev/udp/192.0.2.1/53", succeeds_bare=False)


def test_c83_no_name_is_looked_up(who: Person):
    assert who.contained("getent ahosts example.com").returncode not in (0, 127)
    assert who.contained("getent ahosts localhost").returncode == 0


def test_a_network_that_was_opened_is_one(who: Person):
    listener = socket.create_server(("127.0.0.1", 0))
    with listening(listener) as heard:
        attack = f"exec 3<>/dev/tcp/127.0.0.1/{listener.getsockname()[1]}"
        assert who.contained(attack, network=True).returncode == 0
        assert heard == ["somebody"]


def ring(where: str) -> str:
    """A program that connects to a unix socket."""
    return f"{system_python()} -c 'import socket; socket.socket(socket.AF_UNIX).connect({where})'"


@pytest.mark.parametrize("network", [False, True])
def test_no_abstract_socket_is_reached(who: Person, network: bool):
    if network and not detect_sandbox_support().has_landlock_scopes:
        pytest.skip("only Landlock 6 closes them where the network is open")
    name = f"handhold-{os.getpid()}-{who.name}-{network}"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"\0{name}")
    listener.listen()
    with listening(listener) as heard:
        is_refused(who, ring(f'"\\0{name}"'), network=network)
        assert len(heard) == 1


@pytest.mark.parametrize("network", [False, True])
@pytest.mark.parametrize("folder", ["outside", "home", "tmp", "run"])
def test_no_socket_in_a_folder_is_reached(who: Person, folder: str, network: bool):
    """Like that of a container engine, which obeys every request: a read-only mount does not close it."""
    if folder == "run" and not ROOT:
        pytest.skip("only root can put one there")
    folders = {"outside": who.outside, "home": who.home, "tmp": Path("/tmp"), "run": Path("/run")}
    path = folders[folder] / f"handhold-{os.getpid()}-{who.name}.sock"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    path.chmod(0o777)
    listener.listen()
    try:
        with listening(listener) as heard:
            is_refused(who, ring(f'"{path}"'), network=network)
            assert len(heard) == 1
    finally:
        path.unlink()


def test_only_ordinary_sockets_are_made(who: Person):
    program = (
        "import socket, errno\n"
        "for family, kind, protocol in ((40, 1, 0), (38, 5, 0), (16, 3, 9), (16, 3, 0), (1, 1, 0), (10, 1, 0)):\n"
        "    try: socket.socket(family, kind, protocol).close(); print('made')\n"
        "    except OSError as error: print(errno.errorcode[error.errno])\n"
    )
    who.write(who.root / "sockets.py", program)
    done = who.contained(f"{system_python()} sockets.py").stdout.split()
    assert done == ["EAFNOSUPPORT", "EAFNOSUPPORT", "EPROTONOSUPPORT", "made", "made", "made"]


# --- what is hidden


HIDDEN = (".ssh/id_ed25519", ".aws/credentials", ".netrc", ".config/gh/hosts.yml", ".gnupg/key", "diary.txt")


@pytest.mark.parametrize("name", HIDDEN)
def test_credentials_in_the_home_are_not_there(who: Person, name: str):
    file = who.write(who.home / name, SECRET)
    is_refused(who, f"grep secret {file}")
    assert SECRET not in who.contained(f"cat {file}; grep -rs secret {who.home} ~ /proc/self/root{who.home}").stdout


def test_the_homes_of_others_are_not_there(who: Person):
    assert who.contained("ls -A /root/ /home/").stdout.split() == who.contained("ls -A /root/ /home/").stdout.split()
    for name in ("/root/.bashrc", "/root/.ssh", "/root/.profile"):
        assert who.contained(f"test -e {name}").returncode == 1


def test_credentials_are_masked_where_the_home_is_the_workspace(who: Person):
    for name in (".ssh/id_ed25519", ".netrc", ".config/gh/hosts.yml"):
        who.write(who.home / name, SECRET)
    who.write(who.home / "code.py", "print()\n")
    home = {"real": str(who.home), "mode": "direct"}
    done = who.contained(f"cd {who.home}; cat code.py; cat .ssh/id_ed25519 .netrc .config/gh/hosts.yml", mounts=[home])
    assert done.stdout == "print()\n"
    is_refused(who, f"echo x >>{who.home}/.netrc", succeeds_bare=False, mounts=[home])
    is_refused(who, f"echo x >>{who.home}/.ssh/authorized_keys", succeeds_bare=False, mounts=[home])


def test_a_home_in_the_workspace_is_not_there(who: Person):
    """Also in a root that contains all homes: what is in a home is not part of the workspace."""
    file = who.write(who.home / "diary.txt", SECRET)
    around = {"real": str(who.base), "mode": "direct"}
    is_refused(who, f"grep secret {file}", mounts=[around])
    is_refused(who, f"touch {who.home}/new", succeeds_bare=False, mounts=[around])
    if who.name == "root" and Path("/root").is_dir():
        every = {"real": "/", "mode": "direct"}
        is_refused(who, "grep -q . /root/.bashrc /root/.profile", succeeds_bare=False, mounts=[every])
        is_refused(who, f"grep secret {file}", mounts=[every])
        is_refused(who, "cat /etc/shadow", mounts=[every])


def test_the_state_folder_is_not_there(who: Person):
    file = who.write(who.state / "journal", SECRET)
    is_refused(who, f"grep secret {file}")
    shown = {"real": str(who.base), "mode": "direct"}  # even if it is in a root
    is_refused(who, f"grep secret {file}", mounts=[shown])
    is_refused(who, f"touch {who.state}/new", succeeds_bare=False, mounts=[shown])


def test_secrets_of_the_machine_are_not_readable(who: Person):
    for place in ("/etc/shadow", "/etc/gshadow"):
        is_refused(who, f"cat {place}", succeeds_bare=who.name == "root")


def test_no_token_is_in_the_environment(who: Person):
    tokens = {"GITHUB_TOKEN": SECRET, "AWS_SECRET_ACCESS_KEY": SECRET, "MY_OWN": SECRET, "SSH_AUTH_SOCK": SECRET}
    who.environment |= tokens | {"LC_TIME": "C", "HTTPS_PROXY": f"http://me:{SECRET}@host"}
    is_refused(who, "env | grep secret")
    assert SECRET not in who.contained("env; cat /proc/*/environ", network=True).stdout
    assert "LC_TIME=C" in who.contained("env").stdout.splitlines()


# --- from one command to the next


def test_variables_of_a_command_do_not_rule_how_the_sandbox_is_loaded(who: Person):
    """A persistent shell passes on its exports. Bubblewrap runs outside and would load what these variables name."""
    if shutil.which("cc") is None:
        pytest.skip("no compiler")
    code = f'__attribute__((constructor)) static void f(void) {{ extern int creat(const char *, int); creat("{who.outside}/escaped", 0644); }}'
    source = who.write(who.root / "evil.c", code)
    library = who.root / "libcap.so.2"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    who.own(library)
    chosen = {"LD_PRELOAD": str(library), "LD_AUDIT": str(library), "LD_LIBRARY_PATH": str(who.root), "MINE": "kept"}
    assert who.contained("echo $MINE", env=chosen).stdout == "kept\n"
    assert [each.name for each in who.outside.iterdir()] == ["file"]
    who.bare(f"LD_PRELOAD={library} /bin/true")
    assert (who.outside / "escaped").exists()


LINKS = {
    "python of an environment": ".venv/bin/python",
    "another program there": ".venv/bin/tool",
    "in a folder of programs": "bin/tool",
}


@pytest.mark.parametrize("way", LINKS.values(), ids=LINKS.keys())
@pytest.mark.parametrize("name", [".ssh/id_ed25519", ".ssh/bin/id_ed25519"])
def test_a_link_left_in_the_workspace_shows_nothing_hidden(who: Person, way: str, name: str):
    """Programs in a home are found by following links, and commands can create links."""
    secret = who.write(who.home / name, SECRET)
    code = who.home / "code"
    who.write(code / way / "..keep")
    (code / way / "..keep").unlink()
    (code / way).rmdir()
    (code / way).symlink_to(secret)
    who.environment["PATH"] = f"{code}/.venv/bin:{code}/bin:{os.environ['PATH']}"
    mount = {"real": str(code), "mode": "direct"}
    assert SECRET not in who.contained(f"cat {secret} {code}/{way}; grep -rs . {who.home}", mounts=[mount]).stdout
    assert SECRET in who.bare(f"cat {code}/{way}").stdout


def test_a_path_that_was_exported_shows_nothing_hidden(who: Person):
    secret = who.write(who.home / ".ssh/id_ed25519", SECRET)
    chosen = {"PATH": f"{who.home}/.ssh:{os.environ['PATH']}", "PYENV_ROOT": f"{who.home}/.ssh", "HOME": str(who.home)}
    assert SECRET not in who.contained(f"cat {secret}", env=chosen).stdout


def test_what_is_masked_cannot_be_moved_to_where_it_is_not(who: Person):
    """Two commands: the first moves a parent folder of a masked file, the second looks there."""
    who.write(who.home / ".config/gh/hosts.yml", SECRET)
    home = {"real": str(who.home), "mode": "direct"}
    is_refused(
        who,
        f"mv -T {who.home}/.config {who.home}/moved && test -e {who.home}/moved",
        succeeds_bare=False,
        mounts=[home],
    )
    assert (who.home / ".config/gh/hosts.yml").exists()
    shutil.rmtree(who.home / ".config")
    who.write(who.home / "dotfiles/key", SECRET)
    (who.home / ".ssh").symlink_to("dotfiles")
    assert SECRET not in who.contained(f"cat {who.home}/.ssh/key {who.home}/dotfiles/key", mounts=[home]).stdout


def test_a_root_in_a_root_cannot_be_moved_or_exchanged(who: Person):
    who.write(who.root / "a/b/kept", "old\n")
    inner = {"real": str(who.root / "a/b"), "mode": "read-only"}
    for attack in ("mv a x", "mv a/b x", "rm -rf a && test ! -e a", "echo x >a/b/kept"):
        is_refused(who, attack, succeeds_bare=False, shadow=False, mounts=[inner])
    assert (who.root / "a/b/kept").read_text() == "old\n"
    shutil.rmtree(who.root / "a/b")
    (who.root / "a/b").symlink_to(who.outside)
    done = who.contained("true", shadow=False, mounts=[inner | {"mode": "direct"}])
    assert done.returncode != 0
    assert "NO_SHELL" in done.stderr


def test_a_variable_adds_no_flag(who: Person):
    done = who.contained("true", env={"X": "y\0--bind\0/\0/"})
    assert done.returncode != 0
    assert "NO_SHELL" in done.stderr


@pytest.mark.parametrize("target", ["/oldroot{there}", "/newroot{there}", "{there}", "../../../..{there}"])
def test_a_link_left_in_tmp_does_not_move_the_workspace(who: Person, target: str):
    """The workspace may be in /tmp, which commands can write: a link in its path would redirect the mounts."""
    first = who.root.parents[1].name
    (who.state / "tmp" / first).symlink_to(target.format(there=who.outside))
    done = who.contained("true")
    assert done.returncode != 0
    assert "NO_SHELL" in done.stderr
    assert sorted(each.name for each in who.outside.iterdir()) == ["file"]


def test_a_command_cannot_leave_a_link_there(who: Person):
    top = f"/tmp/{who.base.name}"
    for attack in (f"mv {top} /tmp/x", f"rm -rf {top}/work", f"mv {top}/work {top}/w2", f"touch {top}/new"):
        is_refused(who, attack, succeeds_bare=False)
    assert who.contained("true").returncode == 0


def test_a_link_left_in_the_home_leads_nowhere(who: Person):
    assert who.contained(f"ln -s /oldroot{who.outside} ~/.pyenv && ln -s {who.outside} ~/.gitconfig").returncode == 0
    assert who.contained("git config --global user.name Me").returncode != 0
    assert sorted(each.name for each in who.outside.iterdir()) == ["file"]


# --- protected names, when a command works directly on the files

PROTECTED = (".git/hooks", ".git/config", ".vscode", ".mcp.json", ".deep/er/settings.json")


@pytest.fixture
def direct(who: Person) -> Person:
    who.write(who.root / ".git/config", "[core]\n")
    who.write(who.root / ".git/hooks/pre-commit", "true\n")
    who.write(who.root / ".git/HEAD", "ref: refs/heads/main\n")
    return who


PROTECTED_ATTACKS = {
    "write": "echo x >>.git/config",
    "delete": "rm -f .git/config && ! test -e .git/config",
    "rename over": "echo x >new && mv -f new .git/config && grep x .git/config",
    "new hook": "echo x >.git/hooks/post-checkout",
    "hook": "echo x >>.git/hooks/pre-commit",
    "delete hooks": "rm -rf .git/hooks && ! test -e .git/hooks",
    "move the folder away": "mv .git .other && mkdir .git && echo x >.git/config",
    "delete the folder": "rm -rf .git && mkdir .git && echo x >.git/config",
    "make a file": "echo x >.mcp.json",
    "make a folder": "mkdir .vscode && touch .vscode/tasks.json",
    "make a file in it": "mkdir -p .vscode; touch .vscode/tasks.json",
    "make a link": "ln -s .git/HEAD .mcp.json && cat .mcp.json",
    "make folders on the way": "mkdir -p .deep/er; echo x >.deep/er/settings.json",
    "move one there": "mkdir x && touch x/tasks.json && rmdir .vscode; mv -T x .vscode",
    "a hard link": "ln .git/config c && echo x >>c",
}


@pytest.mark.parametrize("attack", PROTECTED_ATTACKS.values(), ids=PROTECTED_ATTACKS.keys())
def test_protected_names_are_read_only_where_a_command_runs_direct(direct: Person, attack: str):
    kept = {".git/config": "[core]\n", ".git/hooks/pre-commit": "true\n"}
    done = direct.contained(attack, shadow=False, protected=PROTECTED)
    assert done.returncode != 0, done
    for name, text in kept.items():
        assert (direct.root / name).read_text() == text
    left = {str(each.relative_to(direct.root)) for each in direct.root.rglob("*")}
    assert left - {"new", "x", "x/tasks.json", ".git/HEAD", ".deep", ".deep/er"} == {".git", ".git/hooks", *kept}
    shutil.rmtree(direct.root / "x", ignore_errors=True)
    assert direct.bare(attack.replace("&& rmdir .vscode;", "&&")).returncode == 0


EACH = """
for name in {names}; do
    mkdir -p "$(dirname $name)" && echo x >$name && echo made $name
    mkdir -p $name && echo x >$name/x && echo made $name/x
    rm -rf $name; mv -T $name /tmp/away && echo moved $name; ln -s /tmp $name && echo linked $name
done; true
"""


@pytest.mark.parametrize("there", [False, True])
def test_every_name_that_the_policy_protects_is_held(who: Person, there: bool):
    for name in READ_ONLY_MOUNTS if there else ():
        who.write(who.root / name / "file" if "." not in Path(name).name[1:] else who.root / name, "old\n")
    before = {str(each): each.is_file() and each.read_text() for each in who.root.rglob("*")}
    command = EACH.format(names=" ".join(READ_ONLY_MOUNTS))
    done = who.contained(command, shadow=False, protected=(*READ_ONLY_MOUNTS, ".git"))
    assert (done.returncode, done.stdout) == (0, "")
    assert {str(each): each.is_file() and each.read_text() for each in who.root.rglob("*")} == before
    assert len(who.bare(command).stdout.splitlines()) > len(READ_ONLY_MOUNTS)


def test_without_a_launcher_no_command_runs_on_the_workspace_itself(direct: Person):
    """Nothing could protect the names from it."""
    direct.launcher = False
    done = direct.contained("echo x >file", shadow=False, protected=PROTECTED)
    assert done.returncode != 0
    assert "launcher" in done.stderr
    assert not (direct.root / "file").exists()


def test_beside_protected_names_everything_can_be_changed(direct: Person):
    done = direct.contained(
        "echo x >file && echo y >.git/HEAD && mkdir d && mv file d", shadow=False, protected=PROTECTED
    )
    assert done.returncode == 0, done
    assert (direct.root / "d/file").read_text() == "x\n"
    assert (direct.root / ".git/HEAD").read_text() == "y\n"
