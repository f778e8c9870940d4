"""A Docker engine for tests. Hostile commands run in its containers: no network, no capabilities, few resources."""

import fcntl
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "handhold" / "containers"
SECCOMP = Path(__file__).with_name("seccomp.json")
START_SECONDS = 60
DATA_BYTES = 4 << 30  # enough for the image and some containers
# What the image has in addition to a minimal Debian: tools of everyday commands, and programs that run others.
PACKAGES = (
    *("python3", "git", "perl", "gawk", "make", "patch", "file", "less", "procps", "jq", "bc", "ed", "m4"),
    *("vim-tiny", "busybox-static", "rsync", "curl", "wget", "netcat-openbsd", "openssh-client", "openssh-server"),
    *("socat", "zip", "unzip", "xz-utils", "bzip2", "sqlite3", "gcc", "libc6-dev", "strace"),
    *("nodejs", "ruby", "lua5.4", "tcl"),
)
# What other people's builds and test suites need in addition.
BUILD_PACKAGES = (
    *PACKAGES,
    *("g++", "cmake", "autoconf", "automake", "libtool", "pkg-config", "cargo", "rustc"),
    *("python3-dev", "python3-pip", "python3-venv", "python3-setuptools", "python3-wheel", "python3-hatchling", "flit"),
    *("python3-hatch-vcs", "python3-setuptools-scm", "python3-poetry-core", "python3-pytest", "python3-hypothesis"),
    *("python3-freezegun", "python3-yaml", "cython3", "zlib1g-dev"),
)


def missing_programs() -> list[str]:
    """Programs that an engine and its image need, but that are not installed."""
    return [program for program in ("dockerd", "docker", "debootstrap", "tar", "uv") if shutil.which(program) is None]


def build_root_archive(packages: tuple[str, ...] = PACKAGES) -> Path:
    """The root file system of the image as an archive. debootstrap builds it if the cache has none for `packages`."""
    name = hashlib.sha256(" ".join(packages).encode()).hexdigest()[:16]
    archive = CACHE / f"bookworm-{name}.tar"
    if archive.exists():
        return archive
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be at it
        if not archive.exists():
            _build(archive, packages)
    return archive


def _build(archive: Path, packages: tuple[str, ...]) -> None:
    # Debian packages come from this machine's own sources.
    query = ["apt-get", "indextargets", "--format", "$(SITE)", "Codename: bookworm", "Component: main"]
    mirror = subprocess.run(query, check=True, capture_output=True, text=True).stdout.split()[0]
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        root, partial = Path(folder, "root"), Path(folder, "root.tar")
        include = "--include=" + ",".join(packages)
        build = ["debootstrap", "--variant=minbase", include, "bookworm", str(root), mirror]
        done = subprocess.run(
            build, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        if done.returncode != 0:
            raise RuntimeError(f"debootstrap ended with {done.returncode}:\n{done.stdout[-2000:]}")
        leave_out = ["--exclude=./var/cache/apt/*", "--exclude=./var/lib/apt/lists/*", "--exclude=./usr/share/doc/*"]
        subprocess.run(["tar", "-C", str(root), *leave_out, "-cf", str(partial), "."], check=True)
        partial.rename(archive)


def archive_of(files: Mapping[str, bytes | Path]) -> bytes:
    """A tar archive with these files (bytes) and folders (paths), readable by every user."""

    def readable(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.mode |= 0o555 if member.isdir() else 0o444
        return member

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            if isinstance(content, Path):
                archive.add(content, name, filter=readable)
            else:
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(readable(member), io.BytesIO(content))
    return buffer.getvalue()


def install_handhold(target: Path, extras: str = "shell,search") -> None:
    """Handhold from this checkout with the dependencies of these extras, as a folder for PYTHONPATH."""
    locked = PROJECT / "requirements.lock"
    install = [
        "uv",
        "pip",
        "install",
        "--quiet",
        "--compile-bytecode",  # the user in the container cannot write it
        "--python",
        sys.executable,
        "--target",
        str(target),
        "--constraints",
        str(locked),
    ]
    subprocess.run([*install, f"{PROJECT}[{extras}]"], check=True)


@dataclass(frozen=True)
class Engine:
    """A running Docker engine."""

    socket: Path

    def docker(self, *arguments: str, stdin: bytes = b"", seconds: float = 60) -> bytes:
        command = ["docker", "--host", f"unix://{self.socket}", *arguments]
        env = {**os.environ, "DOCKER_BUILDKIT": "0"}  # the other builder is a plugin, which a machine may not have
        done = subprocess.run(command, check=False, input=stdin, capture_output=True, timeout=seconds, env=env)
        if done.returncode != 0:
            raise RuntimeError(f"docker {arguments[0]} ended with {done.returncode}: {done.stderr.decode()[-2000:]}")
        return done.stdout

    def load_image(self, packages: tuple[str, ...] = PACKAGES) -> str:
        with build_root_archive(packages).open("rb") as archive:
            command = ["docker", "--host", f"unix://{self.socket}", "import", "-"]
            return subprocess.run(command, stdin=archive, capture_output=True, check=True).stdout.decode().strip()

    def create_container(self, image: str, argv: list[str], *, tmpfs: tuple[str, ...]) -> str:
        """The id of a new container that will run `argv` as uid 1000.

        It has no network, no capability and no way to gain one; user namespaces are allowed, so that Handhold's own
        sandbox starts inside.
        """
        limits = ["--network", "none", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
        limits += ["--security-opt", f"seccomp={SECCOMP}", "--security-opt", "systempaths=unconfined"]
        limits += ["--pids-limit", "256", "--memory", "2g", "--user", "1000:1000"]
        for folder in tmpfs:
            limits += ["--tmpfs", f"{folder}:exec,mode=1777,size=512m"]
        return self.docker("create", "--init", *limits, image, *argv).decode().strip()

    def run_hostile(
        self, image: str, argv: list[str], files: Mapping[str, bytes | Path], *, tmpfs: tuple[str, ...], seconds: float
    ) -> bytes:
        """Standard output of `argv` in a throw-away container; `files` are copied there first."""
        container = self.create_container(image, argv, tmpfs=tmpfs)
        try:
            self.docker("cp", "-", f"{container}:/", stdin=archive_of(files))
            return self.docker("start", "--attach", container, seconds=seconds)
        finally:
            self.docker("rm", "--force", container)

    def run_default(
        self,
        image: str,
        argv: list[str],
        files: Mapping[str, bytes | Path],
        *,
        user: str,
        tmpfs: tuple[str, ...] = (),
        volumes: Mapping[str, str] | None = None,
        seconds: float,
    ) -> bytes:
        """Standard output of `argv` in a container with Docker's default profile and capabilities, but no network.

        `volumes` are names by the folders where they are mounted.
        """
        limits = ["--network", "none", "--pids-limit", "512", "--memory", "2g", "--user", user]
        for folder in tmpfs:
            limits += ["--tmpfs", f"{folder}:exec,mode=1777,size=512m"]
        for folder, name in (volumes or {}).items():
            limits += ["--volume", f"{name}:{folder}"]
        container = self.docker("create", "--init", *limits, image, *argv).decode().strip()
        try:
            self.docker("cp", "-", f"{container}:/", stdin=archive_of(files))
            return self.docker("start", "--attach", container, seconds=seconds)
        finally:
            self.docker("rm", "--force", container)

    @contextmanager
    def open_volume(self, image: str) -> Iterator[str]:
        """A volume in the engine's data folder that every user may write to."""
        name = self.docker("volume", "create").decode().strip()
        try:
            mount = ["--volume", f"{name}:/volume"]
            self.docker("run", "--rm", "--network", "none", "--user", "0", *mount, image, "chmod", "777", "/volume")
            yield name
        finally:
            self.docker("volume", "rm", name, seconds=300)

    @contextmanager
    def running_container(
        self, image: str, files: Mapping[str, bytes | Path], *, tmpfs: tuple[str, ...]
    ) -> Iterator["Container"]:
        """A throw-away container with copies of `files`, for several commands; it is removed at the end of the block."""
        container = self.create_container(image, ["sleep", "infinity"], tmpfs=tmpfs)
        try:
            self.docker("cp", "-", f"{container}:/", stdin=archive_of(files), seconds=120)
            self.docker("start", container)
            yield Container(self, container)
        finally:
            self.docker("rm", "--force", container)


@dataclass(frozen=True)
class Container:
    """A running container."""

    engine: Engine
    name: str

    def run(self, argv: list[str], *, stdin: bytes = b"", seconds: float) -> bytes:
        """Standard output of `argv`."""
        return self.engine.docker("exec", "--interactive", self.name, *argv, stdin=stdin, seconds=seconds)


def mount_in_memory(data: Path) -> list[str]:
    """What starts a program with `data` in memory, if there is plenty; it is gone when the program ends.

    On some disks, removing the files of an image takes half a minute.
    """
    meminfo = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    if int(meminfo["MemAvailable"].split()[0]) * 1024 < 3 * DATA_BYTES:
        return []
    data.mkdir()
    mount = f'mount -t tmpfs -o size={DATA_BYTES},mode=0710 engine "$0" && exec "$@"'
    return ["unshare", "--mount", "sh", "-c", mount, str(data)]


@contextmanager
def running_engine(folder: Path, *, in_memory: bool = False) -> Iterator[Engine]:
    """Start an engine that stores everything in `folder`; it stops at the end of the block.

    With `in_memory`, images and containers, up to DATA_BYTES of them, are in memory if there is plenty.
    """
    socket, log = folder / "docker.sock", folder / "dockerd.log"
    command = [
        *(mount_in_memory(folder / "data") if in_memory else ()),
        "dockerd",
        "--iptables=false",
        "--ip6tables=false",
        "--bridge=none",
        "--host",
        f"unix://{socket}",
    ]
    command += [
        "--data-root",
        str(folder / "data"),
        "--exec-root",
        str(folder / "exec"),
        "--pidfile",
        str(folder / "pid"),
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    engine = Engine(socket)
    try:
        for _ in range(START_SECONDS * 5):
            if process.poll() is not None:
                raise RuntimeError(f"dockerd ended with {process.returncode}:\n{log.read_text()[-2000:]}")
            try:
                engine.docker("version")
                break
            except RuntimeError:
                time.sleep(0.2)
        yield engine
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def read_json_lines(output: bytes) -> list[dict[str, object]]:
    return [json.loads(line) for line in output.decode().splitlines()]


if __name__ == "__main__":
    build_root_archive()
