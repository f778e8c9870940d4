"""What a command finds in the sandbox: enough to work with, and nothing private."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest

from handhold.backends.shell import limits, sandbox_support
from handhold.backends.shell.sandbox import create_sandbox
from handhold.backends.shell.sandbox_layout import Mount
from handhold.backends.shell.sandbox_support import ISOLATION_FLAGS, Bubblewrap, detect_sandbox_support
from handhold.core.errors import NoShell
from tests.backends.shell.costs import quartile, spent
from tests.backends.shell.people import USERS, Person, each_person, said, system_python
from tests.scale import scaled

contained = pytest.mark.skipif(
    detect_sandbox_support().bubblewrap is None, reason="nothing confines commands on this machine"
)


who = pytest.fixture(each_person, params=USERS)


# --- what is available


@contained
def test_it_says_what_holds():
    held = create_sandbox("contained").status
    assert held.by.startswith("bubblewrap 0.")
    assert not held.network
    found = detect_sandbox_support().bubblewrap
    assert held.shadow == (found is not None and found.overlay)


@pytest.mark.parametrize(("mode", "by"), [("external", "external"), ("unconfined", "nothing")])
def test_without_walls_of_ours_it_says_so(mode: str, by: str):
    held = create_sandbox(mode).status  # pyright: ignore[reportArgumentType]
    assert (held.by, held.shadow, held.network) == (by, False, True)
    assert held.why_not


@pytest.mark.parametrize("mode", ["external", "unconfined"])
def test_without_walls_the_environment_is_still_bare(who: Person, mode: str):
    who.environment["GITHUB_TOKEN"] = "the secret"
    done = said(who.contained("env; pwd; echo x >made", mode=mode))
    assert "the secret" not in done
    assert f"HOME={who.state}/home" in done.splitlines()
    assert (who.root / "made").read_text() == "x\n"


def test_where_nothing_confines_commands_are_refused_with_the_reasons(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho bubblewrap 0.12.0; [ $1 = --version ]\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setattr(sandbox_support, "find_candidates", lambda: iter([("system", str(tmp_path / "bwrap"))]))
    monkeypatch.setattr(sandbox_support, "BUILT_FOLDER", str(tmp_path))  # without the broker, too
    for cached in (sandbox_support.detect_sandbox_support, sandbox_support.find_broker):
        cached.cache_clear()
    try:
        with pytest.raises(NoShell) as refused:
            create_sandbox("contained")
    finally:
        for cached in (sandbox_support.detect_sandbox_support, sandbox_support.find_broker):
            cached.cache_clear()
    assert str(tmp_path / "bwrap") in refused.value.because
    assert "no broker" in refused.value.because


@contained
def test_an_old_bubblewrap_serves_where_there_is_no_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """As with a bubblewrap without overlay support: commands are sandboxed but work directly on the files."""
    found = detect_sandbox_support().bubblewrap
    assert found
    old = tmp_path / "bwrap"
    old.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && exec echo bubblewrap 0.8.0\ncase "$*" in *-overlay*) exit 1;; esac\nexec {found.path} "$@"\n'
    )
    old.chmod(0o755)
    monkeypatch.setattr(sandbox_support, "find_candidates", lambda: iter([("system", str(old))]))
    best, why_not = sandbox_support.find_bubblewrap()
    assert best == Bubblewrap(str(old), "0.8.0", "system", overlay=False)
    assert "older than 0.11" in why_not[0]
    monkeypatch.setattr(sandbox_support, "find_candidates", lambda: iter([("system", str(old)), ("wheel", found.path)]))
    best, why_not = sandbox_support.find_bubblewrap()
    assert best
    assert (best.path, best.overlay) == (found.path, found.overlay)


def test_a_bubblewrap_that_is_no_program_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "bwrap").write_bytes(b"\x7fELFnot")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setattr(sandbox_support, "find_candidates", lambda: iter([("wheel", str(tmp_path / "bwrap"))]))
    assert sandbox_support.find_bubblewrap() == (None, (f"{tmp_path}/bwrap does not run",))


@contained
def test_no_program_that_a_command_could_have_left_is_run_outside(who: Person):
    """The workspace's own folder of programs is often on PATH."""
    for name in ("git", "true", "bwrap", "sh", "cat", "env"):
        who.write(who.root / f".venv/bin/{name}", f"#!/bin/sh\ntouch {who.outside}/escaped\n").chmod(0o755)
    who.environment["PATH"] = f"{who.root}/.venv/bin:{os.environ['PATH']}"
    said(who.contained("echo"))
    assert list(who.outside.iterdir()) == []
    who.bare("git")
    assert (who.outside / "escaped").exists()


# --- what a command finds


@contained
def test_c86_tmp_and_home_last_and_are_not_the_machines(who: Person):
    said(who.contained("echo one >/tmp/note; echo two >~/note; mkdir -p ~/.cache/x"))
    with NamedTemporaryFile(dir="/tmp") as theirs:
        assert said(who.contained(f"cat /tmp/note ~/note; ls {theirs.name} || echo hidden")) == "one\ntwo\nhidden\n"
    assert (who.state / "tmp/note").read_text() == "one\n"
    assert not Path("/tmp/note").exists()
    assert not (who.home / "note").exists()


@contained
def test_c86_programs_that_ask_the_list_of_users_find_the_same_home(who: Person):
    asks = "import os, pwd; print(pwd.getpwuid(os.getuid()).pw_dir == os.environ['HOME'], os.access(os.environ['HOME'], 2))"
    assert said(who.contained(f'{system_python()} -c "{asks}"; eval touch ~$(id -un)/x')) == "True True\n"


@contained
def test_c5_results_can_be_read_and_not_changed(who: Person):
    who.write(who.state / "results/abc.txt", "long\n")
    assert said(who.contained("cat /large_tool_results/abc.txt")) == "long\n"
    assert who.contained("echo x >>/large_tool_results/abc.txt").returncode == 1
    assert who.contained("rm -f /large_tool_results/abc.txt").returncode == 1
    assert who.contained("ls /large_tool_results", results=None).returncode == 2


@contained
def test_it_stands_in_its_folder_on_its_own_machine(who: Person):
    who.write(who.root / "sub/file")
    done = said(who.contained("pwd; hostname; id -u; echo $TERM $TMPDIR", folder=str(who.root / "sub")))
    assert done.splitlines() == [str(who.root / "sub"), "handhold", "0" if who.name == "root" else "65534", "dumb /tmp"]


@contained
@pytest.mark.parametrize("name", ["a b", "a:b", "a,b", "a\\b", "a\nb", "é–字", "--bind", "$(id)", "'\""])
@pytest.mark.parametrize("shadow", [True, False])
def test_a_root_may_have_any_name(who: Person, name: str, shadow: bool):
    root = who.base / "work" / name
    who.write(root / "file", "there\n")
    mount = {"real": str(root), "mode": "direct"}
    if shadow:
        mount |= {"mode": "overlay", "upper": str(who.mkdtemp("upper")), "work": str(who.mkdtemp("work"))}
    done = who.contained("cat file && echo new >file && cat file", mounts=[mount], folder=str(root))
    assert said(done) == "there\nnew\n"
    assert (root / "file").read_text() == ("there\n" if shadow else "new\n")


@contained
def test_a_root_in_a_root_has_its_own_rules(who: Person):
    who.write(who.root / "vendor/lib.c", "old\n")
    inner = {"real": str(who.root / "vendor"), "mode": "read-only"}
    done = who.contained("echo x >here; echo x >vendor/lib.c", mounts=[inner], shadow=False)
    assert done.returncode == 1
    assert (who.root / "here").exists()
    assert (who.root / "vendor/lib.c").read_text() == "old\n"


@contained
@pytest.mark.parametrize("place", ["home", "tmp", "var"])
def test_a_root_may_lie_in_what_is_hidden(who: Person, place: str):
    tops = {"home": who.home / "code", "tmp": who.base / "code", "var": Path(f"/var/tmp/handhold-{os.getpid()}")}
    root = tops[place]
    try:
        who.write(root / "file", "there\n")
        mount = {"real": str(root), "mode": "direct"}
        who.write(who.home / "diary", "secret\n")
        done = who.contained(f"cat file; echo x >new; cat {who.home}/diary", mounts=[mount], folder=str(root))
        assert done.stdout == "there\n"
        assert (root / "new").exists()
    finally:
        shutil.rmtree(root)


@contained
def test_what_is_installed_in_the_home_can_be_used_and_what_lies_beside_it_not(who: Person):
    home = who.home
    tool = who.write(home / "sdk/bin/tool", '#!/bin/sh\ncat "$(dirname "$0")/../lib/data"\n')
    who.write(home / "sdk/lib/data", "from lib\n")
    who.write(home / "sdk/token", "secret\n")
    linked = who.write(home / "hidden/deep/bin/linked", "#!/bin/sh\necho linked\n")
    who.write(home / ".local/share/keyrings/login", "secret\n")
    pyenv = who.write(home / ".pyenv/shims/py", '#!/bin/sh\nexec "$PYENV_ROOT/libexec/py"\n')
    libexec = who.write(home / ".pyenv/libexec/py", "#!/bin/sh\necho py\n")
    for each in (tool, linked, pyenv, libexec):
        each.chmod(0o755)
    who.write(home / ".local/bin/.keep")
    (home / ".local/bin/linked").symlink_to(linked)
    who.environment["PATH"] = f"{home}/sdk/bin:{home}/.local/bin:{home}/.pyenv/shims:{os.environ['PATH']}"
    who.environment["PYENV_ROOT"] = str(home / ".pyenv")
    who.environment["RBENV_ROOT"] = str(home / "elsewhere")
    who.write(home / "elsewhere/version", "3\n")
    assert said(who.contained("tool; linked; py")) == "from lib\nlinked\npy\n"
    assert said(who.contained("cat $RBENV_ROOT/version")) == "3\n"
    seen = who.contained(f"cat {home}/sdk/token {home}/.local/share/keyrings/login; find {home} -type f")
    assert "secret" not in seen.stdout
    assert str(home / "sdk/lib/data") in seen.stdout
    assert who.contained(f"echo x >>{home}/sdk/lib/data").returncode == 1
    assert who.contained(f"echo x >>{tool}").returncode == 1


@contained
def test_the_python_of_a_roots_own_environment_is_found(who: Person):
    python = who.write(who.home / "somewhere/py/bin/python3", "#!/bin/sh\necho found\n")
    python.chmod(0o755)
    who.write(who.root / ".venv/bin/.keep")
    (who.root / ".venv/bin/python").symlink_to(python)
    assert said(who.contained(".venv/bin/python")) == "found\n"


@contained
def test_git_knows_the_users_name_and_not_their_tokens(who: Person):
    settings = '[user]\n\tname = "Ann \\"Q\\" O"\n\temail = ann@here\n[http]\n\textraHeader = "token secret"\n'
    who.write(who.home / ".gitconfig", settings)
    done = said(
        who.contained("git init -q && git commit -q --allow-empty -m x && git log --format='%an <%ae>'; git config -l")
    )
    assert done.splitlines()[0] == 'Ann "Q" O <ann@here>'
    assert "secret" not in done
    local = "git init -q; git config user.email other@there; git config user.email"
    assert said(who.contained(local)) == "other@there\n"
    said(who.contained("git config --global core.pager cat"))
    assert said(who.contained("git config core.pager")) == "cat\n"


@contained
def test_ordinary_work_goes_on(who: Person):
    """What the filter and Landlock must not break: pipes, moves, a command's own sockets, threads, shared memory."""
    work = f"""
    set -e
    mkdir a b; echo x >a/f; mv a/f b/f; ln b/f b/g; ln -s b/f l; truncate -s 9 b/f; mkfifo p; rm p
    echo one | tee /dev/stderr | cat >/dev/stdout
    echo two >/dev/fd/1; : >/dev/null; echo y >/dev/shm/y; rm /dev/shm/y
    {system_python()} - <<'P'
import multiprocessing, os, socket, tempfile, threading
with multiprocessing.Pool(2) as pool: print(pool.map(abs, [-1, -2]))
server = socket.create_server(("127.0.0.1", 0)); socket.create_connection(server.getsockname())
with tempfile.TemporaryDirectory() as folder: s = socket.socket(socket.AF_UNIX); s.bind(folder + "/s")
threading.Thread(target=print, args=("thread",)).start()
os.sched_yield(); os.getrandom(4)
P
    """
    done = said(who.contained(f"set -o pipefail; ( {work} ) 2>&1 | cat"))  # a pipe of its own, which it can reopen
    assert sorted(done.splitlines()) == ["[1, 2]", "one", "one", "thread", "two"]


@contained
def test_the_status_of_a_command_is_its_own(who: Person):
    assert [who.contained(each).returncode for each in ("exit 7", "kill -9 $$", "nosuchcommand")] == [7, 137, 127]


@contained
def test_nothing_that_was_started_stays(who: Person):
    mark = f"9{os.getpid()}"
    said(who.contained(f"setsid nohup sleep {mark} >/dev/null 2>&1 & sleep 0.1"))
    until = time.monotonic() + 30
    while any(mark.encode() in line for line in command_lines()):  # the kernel ends a namespace after its first process
        assert time.monotonic() < until
        time.sleep(0.05)


def command_lines() -> Iterator[bytes]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield path.read_bytes()
        except OSError:  # it has ended
            continue


# --- limits


launched = pytest.mark.skipif(not detect_sandbox_support().launcher, reason="the launcher was not built")


@contained
@launched
def test_there_are_no_core_files(who: Person):
    assert said(who.contained("ulimit -Hc")) == "0\n"


@contained
@launched
def test_memory_can_be_limited(who: Person):
    asks = f"{system_python()} -c 'print(len(bytearray(200 << 20)) >> 20)'"
    assert said(who.contained(asks)) == "200\n"
    assert who.contained(asks, limits={"memory": 100 << 20}).returncode != 0


@contained
@launched
def test_processes_can_be_limited(who: Person):
    asks = "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 1 & done; wait"
    assert "fork" not in who.contained(asks).stderr
    if who.name == "plain" and not limits.find_delegated_cgroup():
        assert "fork" in who.contained(asks, limits={"processes": 5}).stderr


FORKS = """
import os, time
made = 0
for _ in range(200):
    try:
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
    except OSError:
        break
    made += 1
print(made)
"""


@contained
@launched
@pytest.mark.parametrize("who", [user for user in USERS if user == "root"], indirect=True)
def test_e14_processes_of_root_are_counted_too(who: Person):
    if not (limits.find_delegated_cgroup() or limits.find_pids_cgroup()):
        pytest.skip("no control group can be made")
    program = who.write(who.root / "forks.py", FORKS)
    assert said(who.contained(f"{system_python()} {program}")) == "200\n"
    made = int(said(who.contained(f"{system_python()} {program}", limits={"processes": 60})))
    assert 40 < made < 60


def test_e14_a_group_in_which_something_still_dies_is_removed_later(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(limits, "_leftover_cgroups", set())
    monkeypatch.setattr(limits, "find_delegated_cgroup", lambda: str(tmp_path))
    (tmp_path / "memory.max").touch()

    def enter() -> Path:
        with ExitStack() as command, monkeypatch.context() as patched:
            patched.setattr(limits, "_write_value", lambda path, _: Path(path).touch())  # the file keeps the folder
            prefix, left = limits.enter_cgroup(limits.ResourceLimits(processes=5), command)
            assert left == limits.UNLIMITED
            return Path(prefix[-1])

    busy = enter()
    assert busy.exists()
    (busy / "pids.max").unlink()
    assert enter().exists()
    assert not busy.exists()


def test_e14_it_is_said_where_nobody_counts_the_processes_of_root(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    for name in ("find_delegated_cgroup", "find_pids_cgroup"):
        monkeypatch.setattr(limits, name, lambda: "")
    assert "not limited" in limits.explain_uncounted(limits.ResourceLimits(processes=60))
    assert limits.explain_uncounted(limits.ResourceLimits(memory=60)) == ""


def test_where_no_group_can_be_made_there_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Something that looks like one of our groups but is not."""
    monkeypatch.setattr(limits, "find_delegated_cgroup", lambda: str(tmp_path))
    with ExitStack() as command:
        for wanted in (limits.ResourceLimits(), limits.ResourceLimits(memory=1 << 30)):
            assert limits.enter_cgroup(wanted, command) == ((), wanted)
    assert list(tmp_path.iterdir()) == []


# --- leftovers


@contained
def test_what_was_opened_is_closed(tmp_path: Path):
    before = os.listdir("/proc/self/fd")
    folders = [tmp_path / name for name in ("root", "tmp", "home")]
    for folder in folders:
        folder.mkdir()
    root, tmp, home = map(str, folders)
    box = create_sandbox("contained")
    for _ in range(3):
        launch = box.prepare_launch(
            ["true"], mounts=[Mount(root, "direct")], folder=root, tmp=tmp, home=home, results=None
        )
        assert launch.pass_fds
        launch.close()
        launch.close()
    assert os.listdir("/proc/self/fd") == before


# --- cost


@contained
@pytest.mark.alone
def test_walls_and_layer_cost_little_more_than_twice_what_a_plain_sandbox_costs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Compared with the same namespaces and an overlay of a root, with the whole machine as a single mount.

    For a user without package caches: each cache is another mount.
    """
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("root", "tmp", "home", "state"):
        (tmp_path / name).mkdir()
    box, root, command = create_sandbox("contained"), str(tmp_path / "root"), ("bash", "-c", "true")
    assert box.bubblewrap
    plain = (
        box.bubblewrap.path,
        *ISOLATION_FLAGS,
        "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
        "--tmpfs",
        "/tmp",
    )

    def layer(name: str) -> tuple[str, str]:
        upper, work = tmp_path / f"state/u{name}", tmp_path / f"state/w{name}"
        upper.mkdir()
        work.mkdir()
        return str(upper), str(work)

    def plainly(turn: int) -> None:
        over = ("--overlay-src", root, "--overlay", *layer(f"plain{turn}"), root)
        subprocess.run([*plain, *over, "--", *command], check=True)

    def walled(turn: int) -> None:
        launch = box.prepare_launch(
            command,
            mounts=[Mount(root, "overlay", *layer(str(turn)))],
            folder=root,
            tmp=str(tmp_path / "tmp"),
            home=str(tmp_path / "home"),
            results=None,
            shim=detect_sandbox_support().shim,
        )
        subprocess.run(launch.argv, env=dict(launch.env), pass_fds=launch.pass_fds, check=True)
        launch.close()

    walled(-1)
    ratios: list[float] = []
    turns = scaled(16, 40)
    for first in range(0, 5 * turns, turns):  # other load may slow this machine down
        times = [
            (
                spent(lambda: subprocess.run(command, check=True)),
                spent(partial(plainly, turn)),
                spent(partial(walled, turn)),
            )
            for turn in range(first, first + turns)
        ]
        bare, simple, ours = (quartile(each) for each in zip(*times, strict=True))
        print(f"bare {bare * 1e3:.1f} ms, a plain sandbox {simple * 1e3:.1f} ms, contained {ours * 1e3:.1f} ms")
        assert bare < ours
        ratios.append(ours / simple)
        if ratios[-1] < 2.25:
            break
    assert min(ratios) < 2.25


@contained
@pytest.mark.alone
def test_asking_the_machine_costs_less_than_twenty_milliseconds():
    program = (
        "from tests.backends.shell.costs import spent; from handhold.backends.shell.sandbox_support import "
        "detect_sandbox_support; print(spent(detect_sandbox_support))"
    )
    run = [sys.executable, "-c", program]
    took = [float(subprocess.run(run, capture_output=True, text=True, check=True).stdout) for _ in range(scaled(4, 8))]
    print(f"{quartile(took) * 1e3:.1f} ms")
    assert quartile(took) < 0.020
