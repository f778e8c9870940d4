"""The walls around a command, as one command line for bubblewrap.

Inside there is the system, read-only; the roots of the workspace, each on a layer of its own; a private /tmp; a HOME
that holds no credentials; no network, no capability, and no process but the command's own.

A command may have written what the next one is built upon. So no variable of its reaches bubblewrap itself, no link of
its shows what is hidden, and nothing is mounted where it could have left a link in the way: HOME is a place of its
own, and what is laid in /tmp or in a root lies below mounts that no command can move.
"""

import os
import socket
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from handhold.core.errors import NoShell
from handhold.core.facts import Held
from handhold.world.network import Opening, variables
from handhold.world.shell import orphans, places
from handhold.world.shell.abilities import WALLS, Bubblewrap, abilities, ground, kernel, memory_file
from handhold.world.shell.environment import environment, git_settings
from handhold.world.shell.limits import UNLIMITED, Limits, cgroup
from handhold.world.shell.seccomp import program

if TYPE_CHECKING:
    from handhold.world.network.proxy import Proxy

Mode = Literal["contained", "external", "unconfined"]

LAUNCHER, SHIM, SETTINGS = (f"{places.OURS}/{name}" for name in ("inside", "rename.so", "gitconfig"))
UNTOUCHED: Mapping[str, str] = MappingProxyType({})

_placeholders: Counter[str] = Counter()  # names that commands of ours hold now by an empty folder
_counting = Lock()


@dataclass(frozen=True)
class Mount:
    """One root of the workspace, by its real path. A shadow's two folders are fresh and on one file system.

    What is protected is mounted read-only where the root is direct; a name that is not there yet is held by an empty
    folder, which is gone again when the command is. A link under a protected name can still be replaced: the kernel
    mounts nothing on a link.
    """

    real: str
    mode: Literal["shadow", "direct", "read-only"]
    upper: str = ""
    work: str = ""
    protected: tuple[str, ...] = ()


@dataclass(frozen=True)
class Launch:
    """What to spawn. Whoever spawned it closes it when the command has ended.

    `env` is for what is spawned, `given` for the command: variables that a command may choose rule how a program is
    loaded, so bubblewrap, which is outside, gets none of them.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    given: Mapping[str, str]
    pass_fds: tuple[int, ...] = ()
    proxy: "Proxy | None" = None  # where the network is open for named hosts
    cleanup: ExitStack = field(default_factory=ExitStack, repr=False, compare=False)

    def close(self) -> None:
        self.cleanup.close()


@dataclass(frozen=True)
class Sandbox:
    """Chosen once; `held` says what it holds. Without a bubblewrap the walls are somebody else's, or none."""

    held: Held
    bubblewrap: Bubblewrap | None = None

    def launch(
        self,
        command: Sequence[str],
        *,
        mounts: Sequence[Mount],
        folder: str,
        tmp: str,
        home: str,
        results: str | None,
        network: bool | Opening = False,
        env: Mapping[str, str] = UNTOUCHED,
        shim: str = "",
        hidden: Sequence[str] = (),
        masks: Mapping[str, str] = UNTOUCHED,
        limits: Limits = UNLIMITED,
    ) -> Launch:
        """The command in `folder`, with `tmp` as its /tmp, `home` as its HOME and `results` to read.

        `hidden` names folders that it shall not see: the state, the shelves. `masks` are mounted, each over the place
        that it is for. `shim` is preloaded into every program.
        """
        with ExitStack() as opened:
            group = cgroup(limits, opened)
            inside = [*limits.flags(by_cgroup=bool(group))]
            if self.bubblewrap is None:
                launcher = abilities().launcher
                limited = (launcher, *inside, "--") if launcher and inside else ()
                given = environment(env, home=home, tmp=tmp, network=True)
                return Launch((*group, *limited, *command), given, given, cleanup=opened.pop_all())
            inner = inner_home()
            given = environment(env, home=inner, tmp=places.TMP, network=network is not False)
            proxy, over = None, -1
            if not isinstance(network, bool):
                proxy, over = opened_for(network, opened)
                inside += ["-n", str(over)]
                given |= variables()
            given |= {"GIT_CONFIG_SYSTEM": SETTINGS} | ({"LD_PRELOAD": SHIM} if shim else {})
            files = Files(opened)
            writable = any(mount.real == "/" and mount.mode == "direct" for mount in mounts)
            flags = [
                *ground(writable=writable),
                *(() if writable else (flag for each in places.loose() for flag in files.copying(*each))),
                *("--bind", tmp, places.TMP, "--tmpfs", places.VAR_TMP, "--bind", home, inner),
                *("--file", files.holding(git_settings()), SETTINGS),
                *("--ro-bind-data", files.holding(passwd(inner)), "/etc/passwd"),
                *(("--ro-bind", results, places.RESULTS) if results is not None else ()),
                *(files.copying(shim, "0555", SHIM) if shim else ()),
                *layout(mounts, hidden, masks, shown(mounts, network=network is True), tmp, opened),
            ]
            able = abilities()
            if able.seccomp:
                flags += ["--seccomp", files.holding(program())]
            if able.lands:
                inside += landlock(mounts, inner, scoped=able.scopes)
            else:  # process 1 is bubblewrap, and its file lies outside; Landlock would not let a command look
                flags += ["--tmpfs", "/proc/1", "--remount-ro", "/proc/1"]
            if able.launcher:
                flags += files.copying(able.launcher, "0555", LAUNCHER)
                command = (LAUNCHER, *inside, "--", *command)
            shared = ("--share-net",) if network is True else ()
            flags += [*kernel(), "--remount-ro", "/", *WALLS, *shared, "--chdir", folder]
            flags += ["--unsetenv", orphans.MARK]
            flags += [flag for name, value in given.items() for flag in ("--setenv", name, value)]
            argv = (*group, self.bubblewrap.path, "--args", files.listing(flags), "--", *command)
            fds = (*files.fds, *((over,) if proxy else ()))
            return Launch(argv, orphans.mark(os.getpid()), given, fds, proxy, opened.pop_all())


def opened_for(network: Opening, opened: ExitStack) -> "tuple[Proxy, int]":
    """The proxy for a command, and the descriptor over which it is handed the socket to serve."""
    from handhold.world.network.proxy import Proxy

    if not abilities().launcher:
        raise NoShell("named hosts need a launcher that was not compiled when this was installed")
    ours, theirs = socket.socketpair()
    opened.callback(theirs.close)
    proxy = Proxy(ours, network)
    opened.callback(proxy.close)
    return proxy, theirs.fileno()


class Files:
    """Small files that have no name outside, handed in by their descriptors."""

    def __init__(self, opened: ExitStack) -> None:
        self.opened = opened
        self.fds: list[int] = []

    def holding(self, data: bytes) -> str:
        return self._handed(memory_file("handhold", data))

    def copying(self, path: str, mode: str, place: str = "") -> tuple[str, ...]:
        """Flags for a copy of a small file, which is made in a third of the time that a mount takes."""
        fd = self._handed(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        return ("--perms", mode, "--file", fd, place or path)

    def _handed(self, fd: int) -> str:
        self.opened.callback(os.close, fd)
        self.fds.append(fd)
        return str(fd)

    def listing(self, flags: Sequence[str]) -> str:
        """Flags in a file, since everybody on the machine may read a command line."""
        listed = "\0".join((*flags, ""))
        if listed.count("\0") != len(flags):
            raise NoShell("a path or a variable holds a NUL")
        return self.holding(os.fsencode(listed))


def sandbox(mode: Mode) -> Sandbox:
    """NoShell where commands should be contained and cannot be."""
    if mode == "external":
        return Sandbox(Held("external", shadow=False, network=True, why_not=("whoever runs us confines commands",)))
    if mode == "unconfined":
        return Sandbox(Held("nothing", shadow=False, network=True, why_not=("commands run unconfined, as was asked",)))
    able = abilities()
    found = able.bubblewrap
    if found is None:
        raise NoShell("; ".join(able.why_not))
    held = Held(f"bubblewrap {found.version}", shadow=found.overlay, network=False, why_not=able.why_not)
    return Sandbox(held, found)


def inner_home() -> str:
    """HOME as a command sees it: beside the real homes, and none of them, so that nothing lies in it."""
    names = (os.path.join(os.path.realpath("/home"), name) for name in ("handhold", "handhold-layer"))
    return next(name for name in names if name not in places.homes())


@cache
def passwd(home: str) -> bytes:
    """The machine's list of users, where we live in another home: some programs ask it instead of HOME."""
    uid = str(os.getuid()).encode()
    lines = [line.split(b":") for line in Path("/etc/passwd").read_bytes().splitlines()]
    ours = next((line for line in lines if line[2:3] == [uid] and len(line) == 7), None)
    if ours is None:  # known to the network only, or to nobody
        ours = [b"user", b"x", uid, str(os.getgid()).encode(), b"", b"", b"/bin/bash"]
        lines.append(ours)
    ours[5] = os.fsencode(home)
    return b"".join(b":".join(line) + b"\n" for line in lines)


def shown(mounts: Sequence[Mount], *, network: bool) -> tuple[str, ...]:
    """What is hidden and shown again: programs, and with a network the list of who knows names.

    By our own PATH: a command may have exported another. What lies in a root is there, and what its links name counts
    for nothing, since commands make links.
    """
    roots = tuple(mount.real for mount in mounts)
    programs = [folder for each in roots for folder in places.interpreters(each)]
    found = places.installed(":".join((*outside(os.environ.get("PATH", ""), roots), *programs)))
    names = os.path.realpath("/etc/resolv.conf") if network else ""
    return (*found, names) if places.below_any(names, places.hidden()) else found


@cache
def outside(path: str, roots: tuple[str, ...]) -> tuple[str, ...]:
    """The entries of a PATH that lead into no root."""
    return tuple(entry for entry in path.split(":") if not places.below_any(os.path.realpath(entry), roots))


def layout(
    mounts: Sequence[Mount],
    hidden: Sequence[str],
    masks: Mapping[str, str],
    shown: Sequence[str],
    tmp: str,
    cleanup: ExitStack,
) -> list[str]:
    """All that is laid over the ground, from the top down: what lies deeper comes later and wins."""
    roots = frozenset(mount.real for mount in mounts) - {"/"}
    laid: list[tuple[str, Sequence[str]]] = []
    covers: list[str] = []

    def lay(place: str, *flags: str) -> None:
        laid.append((place, flags))

    def cover(place: str) -> None:
        covers.append(place)
        lay(place, "--tmpfs", place)

    unseen = (*places.hidden(), *map(os.path.realpath, hidden), *places.OWN, places.VAR_TMP)
    for place in peeping(unseen, roots):
        if os.path.isdir(place):
            cover(place)
        elif os.path.lexists(place):
            lay(place, "--ro-bind", "/dev/null", place)
    shut = [*places.masked(), *(each for home in roots & {*places.homes()} for each in places.credentials(home))]
    ours = roots - {mount.real for mount in mounts if mount.mode == "read-only"}
    shut += [place for place in places.sockets((*roots, *shown)) if not places.below_any(place, ours)]
    for place in shut:
        if os.path.isdir(place):
            cover(place)
        else:
            lay(place, "--ro-bind", "/dev/null", place)
    in_tmp = [place for place in (*roots, *shown) if places.inside(place, places.TMP) and place != places.TMP]
    for name in dict.fromkeys(place.split("/")[2] for place in in_tmp):
        place = f"{places.TMP}/{name}"
        if os.path.islink(os.path.join(tmp, name)):
            raise NoShell(f"a link lies at {place}, where the workspace should be")
        if place not in (*roots, *shown):
            cover(place)
    for place in shown:
        if not places.below_any(place, roots):
            lay(place, "--ro-bind", place, place)
    for mount in mounts:
        for place, flags in root(mount, cleanup):
            lay(place, *flags)
    for place, mask in masks.items():
        if places.below_any(place, roots) or not places.below_any(place, unseen):
            lay(place, "--ro-bind", mask, place)
    for place in pinned([place for place, _ in laid], mounts, unseen):
        lay(place, "--bind", place, place)
    laid.sort(key=lambda each: each[0].rstrip("/").count("/"))
    ordered = [flag for _, flags in laid for flag in flags]
    return [*ordered, *(flag for place in covers for flag in ("--remount-ro", place))]


@cache
def peeping(unseen: tuple[str, ...], roots: frozenset[str]) -> tuple[str, ...]:
    """What has to be covered, since the ground or a root shows it.

    What lies in something hidden is hidden with it, unless a root shows it again.
    """
    found: list[str] = []
    for place in dict.fromkeys(unseen):
        around = [each for each in (*roots, *unseen) if each != place and places.inside(place, each)]
        at_the_top = os.path.dirname(place) == "/" and place not in places.top_level()
        visible = max(around, key=len) in roots if around else not at_the_top
        if visible and place not in (*roots, places.VAR_TMP):
            found.append(place)
    return tuple(found)


def root(mount: Mount, cleanup: ExitStack) -> Iterator[tuple[str, Sequence[str]]]:
    """A root itself, and what is protected in it."""
    real = mount.real
    if os.path.realpath(real) != real:  # it lies in another root, and a command left a link on the way
        raise NoShell(f"{real} is no longer where it was")
    if mount.mode == "shadow":
        yield real, ("--overlay-src", real, "--overlay", mount.upper, mount.work, real)
        return
    if real != "/":  # that one is the ground
        yield real, ("--bind" if mount.mode == "direct" else "--ro-bind", real, real)
    if mount.mode == "direct":
        yield from protection(real, mount.protected, cleanup)


def pinned(laid: Sequence[str], mounts: Sequence[Mount], unseen: Sequence[str]) -> list[str]:
    """The folders between a root and what is laid in it: mounts of their own, so that none can be moved away.

    Only where commands work on the folders themselves; what is renamed on a layer is not, until it is looked at.
    """
    if all(mount.mode != "direct" for mount in mounts):
        return []
    tops = {each: "hidden" for each in unseen} | {mount.real: mount.mode for mount in mounts}
    found: dict[str, None] = {}
    for place in laid:
        while (place := os.path.dirname(place)) not in tops and place != "/":
            top = max((each for each in tops if places.inside(place, each)), key=len, default="")
            if tops.get(top) == "direct" and place not in laid and os.path.isdir(place):
                found[place] = None
    return list(found)


def protection(real: str, protected: Sequence[str], cleanup: ExitStack) -> Iterator[tuple[str, Sequence[str]]]:
    """Each name read-only; of one that is not there, the first part that is not."""
    held: set[str] = set()
    for name in protected:
        place = real
        for part in os.path.normpath(name).split("/"):
            place = os.path.join(place, part)
            if os.path.islink(place) or not os.path.isdir(place) or _placeholders[place]:
                break
        if place in held or os.path.islink(place):
            continue
        held.add(place)
        if os.path.lexists(place) and not _placeholders[place]:
            yield place, ("--ro-bind", place, place)
        elif os.access(os.path.dirname(place), os.W_OK):
            with _counting:
                _placeholders[place] += 1
            cleanup.callback(_let_go, place)
            yield place, ("--tmpfs", place, "--remount-ro", place)


def _let_go(place: str) -> None:
    """The empty folder that held a name goes when nobody needs it; to remove it ends every mount on it."""
    with _counting:
        _placeholders[place] -= 1
        if not _placeholders[place]:
            with suppress(OSError):
                os.rmdir(place)


def landlock(mounts: Sequence[Mount], home: str, *, scoped: bool) -> list[str]:
    """Where the kernel shall let the command write, said a second time."""
    writable = [mount.real for mount in mounts if mount.mode != "read-only"]
    allowed = (*writable, places.TMP, places.VAR_TMP, home, "/dev")
    return [*(flag for place in allowed for flag in ("-w", place)), *(("-s",) if scoped else ())]
