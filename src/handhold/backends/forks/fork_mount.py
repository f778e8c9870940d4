"""Run programs in a fork: with an overlay over each of its folders, in a mount namespace that ends with the program.

Nothing is contained. The program has the user's home, network and rights; only the roots, the repository of a linked
worktree and the state of Handhold are other folders than outside. It has its own process namespace, so that nothing
outlives the mount: the layer is then complete and can be read.
"""

import json
import os
import select
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from handhold.backends.forks import ignored_files
from handhold.backends.forks.fork_folder import ForkFolder
from handhold.backends.programs import (
    TRUSTED_FOLDER,
    CompletedProcess,
    Popen,
    TimeoutExpired,
    build_user_environment,
    run_program,
    start_for_user,
    start_program,
)
from handhold.backends.shell.environment import find_system_program
from handhold.backends.shell.sandbox_support import (
    MIN_BUBBLEWRAP_VERSION,
    create_memfd,
    find_built_binary,
    find_candidates,
    format_version,
    read_version,
)
from handhold.core.errors import ForkUnavailable
from handhold.logs import suppress_and_log

FORK_VARIABLE = "HANDHOLD_FORK"  # the name of the fork, in the environment of programs that run in it

# bubblewrap covers parts of root's /proc. Then the kernel allows no further one, and a sandbox inside would not start.
MOUNT_PROC_COMMAND = '"$0" -t proc proc /proc && exec "$@"'
# ssh refuses files there that belong neither to root nor to the user, and root's appear as those of nobody.
SSH_SETTINGS = "/etc/ssh/ssh_config.d"
STATUS_BYTES = 4096  # more than bubblewrap ever reports
BASE_FLAGS = ("--dev-bind", "/", "/", "--unshare-pid", "--die-with-parent")


@cache
def find_fork_bubblewrap() -> str:
    """The first bubblewrap that knows overlays; empty if there is none. Whether it may mount one shows later."""
    return next((path for _, path in find_candidates() if read_version(path) >= MIN_BUBBLEWRAP_VERSION), "")


Support = Literal["overlay", "bind", ""]


@cache
def find_mount_support(state: str) -> Support:
    """What can be mounted for a program: an overlay whose layer is in the state folder, another folder, or nothing."""
    bubblewrap = find_fork_bubblewrap()
    with TemporaryDirectory(prefix=".probe-", dir=state) as folder:
        upper, work, place = (os.path.join(folder, name) for name in ("upper", "work", "place"))
        for each in (upper, work, place):
            os.mkdir(each)
        overlay = ("--overlay-src", place, "--overlay", upper, work, place)
        tried: tuple[tuple[Support, tuple[str, ...]], ...]
        tried = ("overlay", overlay), ("bind", ("--bind", upper, place))
        for support, flags in tried:
            argv = (bubblewrap, *BASE_FLAGS, *flags, "--", find_system_program("true"))
            if bubblewrap and not run_program(argv).returncode:
                return support
    return ""


@cache
def find_rename_shim() -> str:
    """A library that copies a folder of the lower layer when a program renames it; empty if it was not built."""
    return find_built_binary("rename.so")[0]


@dataclass(frozen=True)
class MountedFork:
    """A fork whose lock is held, in which programs can be started one after the other."""

    fork: ForkFolder
    state: Path  # of the workspace
    lock: int

    @contextmanager
    def start(self, command: Sequence[str], folder: str, fds: Sequence[int] = ()) -> Generator["RunningProgram"]:
        """Start what the user asked for with our own streams; leaving the block waits for its end."""
        cwd = None if self.is_mounted else self.find_path(folder)  # bubblewrap changes to the folder itself
        with self._launch(command, folder) as (argv, status):
            fds = (self.lock, status)
            with start_for_user(argv, pass_fds=fds, env=self._environment, cwd=cwd) as process:
                yield RunningProgram(process, status)
            self._check_started(status, process.returncode)

    @contextmanager
    def start_own(self, command: Sequence[str], fds: Sequence[int]) -> Generator["RunningProgram"]:
        """Start a program of ours, which copes with folders that cannot be renamed; leaving the block waits for it."""
        environment = build_user_environment(PATH=os.environ.get("PATH", ""), **{FORK_VARIABLE: self.fork.name})
        with self._launch(command, TRUSTED_FOLDER) as (argv, status):
            passed = (self.lock, status, *fds)
            with start_program(argv, pass_fds=passed, env=environment, stdout=None, stderr=None) as process:
                yield RunningProgram(process, status)
            self._check_started(status, process.returncode)

    def capture(self, command: Sequence[str], folder: str, data: bytes) -> CompletedProcess[bytes]:
        """Run a program that only reads, with this input."""
        with self._launch(command, folder) as (argv, status):
            cwd = TRUSTED_FOLDER if self.is_mounted else self.find_path(folder)
            environment = build_user_environment(**{FORK_VARIABLE: self.fork.name})
            fds = (self.lock, status)
            limit = ignored_files.GIT_SECONDS
            try:
                done = run_program(argv, data=data, pass_fds=fds, env=environment, cwd=cwd, timeout=limit)
            except TimeoutExpired:
                raise ForkUnavailable(self.fork.name, ignored_files.TOO_SLOW) from None
            self._check_started(status, done.returncode)
            return done

    @contextmanager
    def _launch(self, command: Sequence[str], folder: str) -> Generator[tuple[list[str], int]]:
        """The command line, and a file for bubblewrap's reports. Nothing runs any more when the block is left."""
        with os.fdopen(create_memfd("status", b""), "rb") as status:
            fd = status.fileno()
            try:
                yield self._build_argv(command, folder, fd), fd
            finally:
                wait_for_namespace(fd)

    def _check_started(self, status: int, returncode: int) -> None:
        """ForkUnavailable if bubblewrap ended by itself before the program ran."""
        if self.is_mounted and returncode >= 0 and b'"exit-code"' not in read_status(status):
            raise ForkUnavailable(self.fork.name, "its overlay could not be mounted; `handhold doctor` says more")

    @property
    def _environment(self) -> dict[str, str]:
        environment = {**os.environ, FORK_VARIABLE: self.fork.name}
        if (shim := find_rename_shim()) and not self.fork.info.is_copy:
            environment["LD_PRELOAD"] = ":".join(filter(None, (shim, os.environ.get("LD_PRELOAD", ""))))
        return environment

    @property
    def is_mounted(self) -> bool:
        """Whether programs see the fork at the workspace's own path."""
        return not self.fork.info.is_copy or find_mount_support(str(self.state)) != ""

    def find_path(self, path: str) -> str:
        """Where programs see a path of the workspace."""
        if self.is_mounted:
            return path
        roots = sorted(((real, n) for n, real in enumerate(self.fork.info.roots)), reverse=True)  # inner ones first
        found = ((n, os.path.relpath(path, real)) for real, n in roots if f"{path}/".startswith(f"{real}/"))
        return next((os.path.normpath(os.path.join(self.fork.upper(n), rel)) for n, rel in found), path)

    def _build_argv(self, command: Sequence[str], folder: str, status: int) -> list[str]:
        if not self.is_mounted:
            return list(command)
        bubblewrap = find_fork_bubblewrap()
        if not bubblewrap:
            version = format_version(MIN_BUBBLEWRAP_VERSION)
            because = f"a fork needs bubblewrap {version} or later: install the system's or the extra handhold[shell]"
            raise ForkUnavailable(self.fork.name, because)
        argv = [bubblewrap, *BASE_FLAGS]
        if os.geteuid() == 0:
            command = (find_system_program("sh"), "-c", MOUNT_PROC_COMMAND, find_system_program("mount"), *command)
        else:
            argv += ["--proc", "/proc"]
            if os.path.isdir(SSH_SETTINGS) and os.listdir(SSH_SETTINGS):
                argv += ["--ro-bind", self.fork.copy_settings(Path(SSH_SETTINGS)), SSH_SETTINGS]
        layers = sorted((real, n) for n, real in enumerate(self.fork.info.roots))  # outer folders first
        for real, n in layers:
            if self.fork.info.is_copy:
                argv += ["--bind", self.fork.upper(n), real]
            else:
                argv += ["--overlay-src", real, "--overlay", self.fork.upper(n), self.fork.work(n), real]
        argv += ["--bind", str(self.fork.inner_state), str(self.state)]
        argv += ["--sync-fd", str(self.lock), "--json-status-fd", str(status), "--chdir", folder]
        return [*argv, "--", *command]


@dataclass(frozen=True)
class RunningProgram:
    """A program in a fork."""

    process: Popen[bytes]
    status: int  # where bubblewrap reports

    def wait(self) -> int:
        return self.process.wait()

    def send_signal(self, number: int) -> None:
        """Pass a signal to the program itself: bubblewrap, which is between us, would only end."""
        if not read_status(self.status):  # there is no bubblewrap
            self.process.send_signal(number)
            return
        with suppress_and_log(OSError, ValueError):
            first = read_first_pid(self.status)
            children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
            for child in children:
                os.kill(int(child), number)


def read_status(fd: int) -> bytes:
    return os.pread(fd, STATUS_BYTES, 0)


def read_first_pid(status: int) -> int:
    """The first process in the namespace, which ends after all others."""
    return json.loads(read_status(status).split(b"\n")[0])["child-pid"]


def wait_for_namespace(status: int) -> None:
    """Wait until no process is left in the namespace: bubblewrap reports the end of the program a little earlier."""
    with suppress(ProcessLookupError, ValueError):  # it is gone already, or never began
        fd = os.pidfd_open(read_first_pid(status))
        try:
            select.select([fd], [], [])
        finally:
            os.close(fd)


@contextmanager
def mount_fork(fork: ForkFolder, state: Path, marker: str) -> Generator[MountedFork]:
    """Hold a fork's lock while programs run in it, then record what it started from.

    `marker` is a path on the file system of the roots, where a file can be made to read the clock.
    """
    with fork.locked() as lock:
        fork.begin_mount(marker)
        try:
            yield MountedFork(fork, state, lock)
        finally:
            fork.record_ancestors()
