"""What a command sees of the machine, and what is laid over it: roots, homes, secrets, sockets.

Whatever lies deeper is laid later, and wins.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

from handhold.core.errors import NoShell
from handhold.world.shell import places
from handhold.world.shell.abilities import overlayable, read_only_overlays
from handhold.world.shell.caches import Caches, lay_caches
from handhold.world.shell.sockets import visible_sockets
from handhold.world.shell.worktrees import linked_repository

if TYPE_CHECKING:
    from handhold.world.shell.supervisor import Holds


@dataclass(frozen=True)
class Mount:
    """One root of the workspace, by its real path. A shadow's two folders are fresh and on one file system."""

    real: str
    mode: Literal["shadow", "direct", "read-only"]
    upper: str = ""
    work: str = ""


@dataclass(frozen=True)
class Guarded:
    """What stays as it is where a command works on a root itself.

    `places` are there already and are mounted read-only; `holds` is asked about every name that the command would make
    and every file that it would open for writing.
    """

    holds: "Holds"
    places: Sequence[str] = ()


def shown(mounts: Sequence[Mount], *, network: bool) -> tuple[str, ...]:
    """What is hidden and shown again: programs, the repository of a root, and with a network who knows names.

    By our own PATH: a command may have exported another. What lies in a root is there, and what its links name counts
    for nothing, since commands make links.
    """
    roots = tuple(mount.real for mount in mounts)
    programs = [folder for each in roots for folder in places.interpreters(each)]
    found = places.installed(":".join((*outside(os.environ.get("PATH", ""), roots), *programs)))
    names = os.path.realpath("/etc/resolv.conf") if network else ""
    around = [gitdir for each in roots if (gitdir := linked_repository(each) or repository_around(each))]
    return (*found, *(place for place in (names, *around) if places.below_any(place, (*places.hidden(), places.TMP))))


def repository_around(root: str) -> str:
    """The git directory of the repository that a root lies in, below its top; empty if there is none.

    Only a folder: a file in its place could name any other.
    """
    folder = root
    while (folder := os.path.dirname(folder)) != "/":
        gitdir = os.path.join(folder, ".git")
        if os.path.lexists(gitdir):
            return gitdir if os.path.isdir(gitdir) and not os.path.islink(gitdir) else ""
    return ""


@cache
def outside(path: str, roots: tuple[str, ...]) -> tuple[str, ...]:
    """The entries of a PATH that lead into no root."""
    return tuple(entry for entry in path.split(":") if not places.below_any(os.path.realpath(entry), roots))


def layout(
    mounts: Sequence[Mount],
    hidden: Sequence[str],
    masks: Mapping[str, str],
    shown: Sequence[str],
    behind: Sequence[str],
    tmp: str,
    guarded: Guarded | None,
    caches: Caches,
) -> tuple[list[str], list[str]]:
    """Flags for all that is laid over the ground, from the top down, and the places of it that are to be read-only.

    `behind` are the parts of the ground, and the caches, that are shown through an overlay.
    """
    roots = frozenset(mount.real for mount in mounts) - {"/"}
    laid: list[tuple[str, Sequence[str]]] = []
    covers: list[str] = []

    def lay(place: str, *flags: str) -> None:
        laid.append((place, flags))

    def cover(place: str) -> None:
        covers.append(place)
        lay(place, "--tmpfs", place)

    unseen = (*places.hidden(), *hidden, *places.OWN, places.VAR_TMP)
    shown = [place for place in shown if not places.below_any(place, hidden)]
    for place in peeping(unseen, roots):
        if os.path.isdir(place):
            cover(place)
        elif os.path.lexists(place):
            lay(place, "--ro-bind", "/dev/null", place)
    shut = [*places.masked(), *(each for home in roots & {*places.homes()} for each in places.credentials(home))]
    through = {mount.real: is_overlaid(mount, mounts) for mount in mounts if mount.real != "/"}
    writable = {mount.real: True for mount in mounts if mount.mode == "direct"}  # whose sockets are the workspace's
    machine = {top: top in behind for top in places.top_level()} | dict.fromkeys(unseen, True)
    cached = {place: place in behind for place in caches.places}
    shut += visible_sockets(machine | dict.fromkeys(shown, False) | cached | through | writable)
    for place in shut:
        if os.path.isdir(place):
            cover(place)
        else:
            lay(place, "--ro-bind", "/dev/null", place)
    again = (*roots, *shown, *caches.folders, *caches.places)
    in_tmp = [place for place in again if places.inside(place, places.TMP) and place != places.TMP]
    for name in dict.fromkeys(place.split("/")[2] for place in in_tmp):
        place = f"{places.TMP}/{name}"
        if os.path.islink(os.path.join(tmp, name)):
            raise NoShell(f"a link lies at {place}, where the workspace should be")
        if place not in again:
            cover(place)
    for place in shown:
        if not places.below_any(place, roots):
            lay(place, "--ro-bind", place, place)
    laid += lay_caches(caches, behind, shown)
    covers += [mount.real for mount in mounts if mount.mode == "read-only" and through.get(mount.real)]
    for mount in mounts:
        lay(mount.real, *root(mount, overlaid=through.get(mount.real, False)))
    direct = [mount.real for mount in mounts if mount.mode == "direct"]
    for place in guarded.places if guarded else ():
        if places.below_any(place, direct) and os.path.exists(place) and not os.path.islink(place):
            lay(place, "--ro-bind", place, place)
    for place, mask in masks.items():
        if places.below_any(place, again) or not places.below_any(place, unseen):
            lay(place, "--ro-bind", mask, place)
    for place in pinned([place for place, _ in laid], mounts, unseen):
        lay(place, "--bind", place, place)
    laid.sort(key=lambda each: each[0].rstrip("/").count("/"))
    return [flag for _, flags in laid for flag in flags], covers


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


def is_overlaid(mount: Mount, mounts: Sequence[Mount]) -> bool:
    """Whether a root is shown through an overlay, so that no socket in it answers.

    A read-only root is, beside roots that are. Commands that work on the files themselves may run for days, and shall
    see what changes in it meanwhile.
    """
    if mount.mode == "shadow":
        return True
    lasting = any(each.mode == "direct" for each in mounts)
    return mount.mode == "read-only" and not lasting and bool(overlayable((mount.real,)))


def root(mount: Mount, *, overlaid: bool) -> Sequence[str]:
    real = mount.real
    if os.path.realpath(real) != real:  # it lies in another root, and a command left a link on the way
        raise NoShell(f"{real} is no longer where it was")
    if mount.mode == "shadow":
        return ("--overlay-src", real, "--overlay", mount.upper, mount.work, real)
    if overlaid:
        return tuple(read_only_overlays((real,)))
    if real == "/":  # that one is the ground
        return ()
    return ("--bind" if mount.mode == "direct" else "--ro-bind", real, real)


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
