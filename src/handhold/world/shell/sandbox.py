"""The walls around a command, as one command line for bubblewrap.

Inside there is the system, read-only; the roots of the workspace, each on a layer of its own; a private /tmp; a HOME
that holds no credentials; no network, no capability, and no process but the command's own.

A command may have written what the next one is built upon. So no variable of its reaches bubblewrap itself, no link of
its shows what is hidden, and nothing is mounted where it could have left a link in the way: HOME is a place of its
own, and what is laid in /tmp or in a root lies below mounts that no command can move.
"""

import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from handhold.core.errors import NoShell
from handhold.core.facts import Held
from handhold.world.network import Opening, variables
from handhold.world.shell import notifications, orphans, places
from handhold.world.shell.abilities import (
    WALLS,
    Bubblewrap,
    abilities,
    ground,
    kernel,
    memory_file,
    overlaid,
)
from handhold.world.shell.caches import Caches, usable_caches
from handhold.world.shell.environment import environment, inner_home, passwd
from handhold.world.shell.gitsettings import MACHINE, git_excludes, git_settings
from handhold.world.shell.ids import id_walls
from handhold.world.shell.layout import Guarded, Mount, layout, shown
from handhold.world.shell.limits import UNLIMITED, Limits, enter_group
from handhold.world.shell.loopback import Loopback, open_proxy
from handhold.world.shell.seccomp import program

if TYPE_CHECKING:
    from handhold.world.network.proxy import Proxy

Mode = Literal["contained", "external", "unconfined"]

LAUNCHER, SHIM, SETTINGS, EXCLUDES = (
    f"{places.OURS}/{name}" for name in ("inside", "rename.so", "gitconfig", "gitignore")
)
UNTOUCHED: Mapping[str, str] = MappingProxyType({})


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
        loopback: Loopback | None = None,
        env: Mapping[str, str] = UNTOUCHED,
        shim: str = "",
        hidden: Sequence[str] = (),
        masks: Mapping[str, str] = UNTOUCHED,
        limits: Limits = UNLIMITED,
        guarded: Guarded | None = None,
        tracing: bool = False,
    ) -> Launch:
        """The command in `folder`, with `tmp` as its /tmp, `home` as its HOME and `results` to read.

        It has the session's `loopback` if there is one, else one of its own, unless `network` is True.
        `hidden` names folders that it shall not see: the state, the shelves. `masks` are mounted, each over the place
        that it is for. `shim` is preloaded into every program. `guarded` is for roots that are direct: NoShell if it
        cannot be kept. With `tracing` it may trace its own processes: NoShell if it could trace others.
        """
        with ExitStack() as opened:
            group, left = enter_group(limits, opened)
            inside = [*left.flags()]
            if self.bubblewrap is None:
                launcher = abilities().launcher
                limited = (launcher, *inside, "--") if launcher and inside else ()
                given = environment(env, home=home, tmp=tmp, network=True)
                return Launch((*group, *limited, *command), given, given, cleanup=opened.pop_all())
            inner = inner_home()
            hidden = tuple(map(os.path.realpath, hidden))
            caches = usable_caches([mount.real for mount in mounts], hidden) if network is False else Caches()
            given = environment({**caches.variables, **env}, home=inner, tmp=places.TMP, network=network is not False)
            proxy, handed = None, list[int]()
            joins: tuple[str, ...] = ()
            if loopback is not None and network is not True:
                joins, namespace = loopback.joining(opened)
                proxy = loopback.proxy
                handed.append(namespace)
            elif not isinstance(network, bool):
                proxy, over = open_proxy(network, opened)
                inside += ["-n", str(over)]
                handed.append(over)
            if proxy is not None:
                given |= variables()
            files = Files(opened)
            writable = any(mount.real == "/" and mount.mode == "direct" for mount in mounts)
            behind = () if writable else overlaid(caches.places)
            in_place = not writable and is_coverable(MACHINE, made="/etc" in behind)  # libgit2 knows no variable for it
            settings = str(MACHINE) if in_place else SETTINGS
            given |= {"GIT_CONFIG_SYSTEM": settings} | ({"LD_PRELOAD": SHIM} if shim else {})
            again = shown(mounts, network=network is True)
            laid, covers = layout(mounts, hidden, masks, again, behind, tmp, guarded, caches)
            flags = [
                *ground(writable=writable, overlaid=behind),
                *(() if writable else (flag for each in places.loose() for flag in files.copying(*each))),
                *("--bind", tmp, places.TMP, "--tmpfs", places.VAR_TMP, "--bind", home, inner),
                *("--ro-bind-data", files.holding(git_settings(EXCLUDES, in_place=in_place)), settings),
                *("--file", files.holding(git_excludes()), EXCLUDES),
                *("--ro-bind-data", files.holding(passwd(inner)), "/etc/passwd"),
                *(("--ro-bind", results, places.RESULTS) if results is not None else ()),
                *(files.copying(shim, "0555", SHIM) if shim else ()),
                *laid,
            ]
            able = abilities()
            if tracing and not able.lands:  # the first process of the namespace could be traced, and is bubblewrap
                raise NoShell("tracing needs Landlock, and a launcher that was compiled when this was installed")
            places_to_write = writable_places(mounts, inner, caches)
            supervised = supervised_places(mounts, places_to_write) if guarded else ()
            listens = supervisor(guarded, supervised, opened) if guarded and supervised else None
            if listens is not None:
                inside += ["-c", files.holding(notifications.program()), "-o", str(listens)]
            if able.seccomp:
                direct = any(mount.mode == "direct" for mount in mounts)
                flags += ["--seccomp", files.holding(program(direct=direct, tracing=tracing))]
            if able.lands:
                inside += landlock(places_to_write, supervised, scoped=able.scopes)
            else:  # process 1 is bubblewrap, and its file lies outside; Landlock would not let a command look
                flags += ["--tmpfs", "/proc/1", "--remount-ro", "/proc/1"]
            shadowed = {mount.mode for mount in mounts} - {"read-only"} == {"shadow"}
            walls, namespace = id_walls() if shadowed else (WALLS, ())
            inside += [flag for fd in namespace for flag in ("-x", str(fd))]
            if able.launcher:
                flags += files.copying(able.launcher, "0555", LAUNCHER)
                command = (LAUNCHER, *inside, "--", *command)
            shared = ("--share-net",) if network is True or joins else ()
            flags += [
                flag for place in (*covers, *behind) if place not in caches.places for flag in ("--remount-ro", place)
            ]
            flags += [*kernel(), "--remount-ro", "/", *walls, *shared, "--chdir", folder]
            flags += ["--unsetenv", orphans.MARK]
            flags += [flag for name, value in given.items() for flag in ("--setenv", name, value)]
            kept = (able.launcher, "-d", "--") if able.launcher and os.geteuid() == 0 else ()
            argv = (*group, *kept, *joins, self.bubblewrap.path, "--args", files.listing(flags), "--", *command)
            fds = (*files.fds, *handed, *namespace, *(() if listens is None else (listens,)))
            return Launch(argv, orphans.mark(os.getpid()), given, fds, proxy, opened.pop_all())


def is_coverable(path: Path, *, made: bool) -> bool:
    """Whether a file can be laid over it; `made` if it can be made there, on an overlay, by root."""
    return (path.is_file() and not path.is_symlink()) or (made and os.geteuid() == 0 and not os.path.lexists(path))


def supervisor(guarded: Guarded, places: Sequence[str], opened: ExitStack) -> int:
    """Start one, and return the descriptor over which it is handed the calls to answer."""
    from handhold.world.shell.supervisor import Supervisor

    able = abilities()
    if not able.lands or not notifications.program():
        lacking = "a launcher that was not compiled when this was installed" if able.landlock else "Landlock"
        raise NoShell(f"a command that works on the workspace itself needs {lacking}, to keep protected names")
    ours, theirs = socket.socketpair()
    opened.callback(theirs.close)
    opened.callback(Supervisor(ours, places, guarded.holds).close)
    return theirs.fileno()


def supervised_places(mounts: Sequence[Mount], writable: Sequence[str]) -> tuple[str, ...]:
    """Where Landlock refuses what the supervisor does: direct roots, and what is writable around them."""
    roots = [mount.real for mount in mounts if mount.mode == "direct"]
    return tuple(place for place in writable if any(places.inside(root, place) for root in roots))


def writable_places(mounts: Sequence[Mount], home: str, caches: Caches) -> tuple[str, ...]:
    writable = [mount.real for mount in mounts if mount.mode != "read-only"]
    return (*writable, places.TMP, places.VAR_TMP, home, "/dev", *caches.folders, *caches.places)


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
        remedy = "; `handhold doctor` says how to allow it" if able.remedy else ""
        raise NoShell("; ".join(able.why_not) + remedy)
    held = Held(f"bubblewrap {found.version}", shadow=found.overlay, network=False, why_not=able.why_not)
    return Sandbox(held, found)


def landlock(writable: Sequence[str], supervised: Sequence[str], *, scoped: bool) -> list[str]:
    """Where the kernel shall let the command write, said a second time."""
    given = (flag for place in writable for flag in ("-e" if place in supervised else "-w", place))
    return [*given, *(("-s",) if scoped else ())]
