"""What a command sees of the machine, and what is mounted over it: roots, homes, secrets, sockets.

Deeper mounts come later and take precedence.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

from handhold.backends.shell import host_paths
from handhold.backends.shell.package_caches import PackageCaches, build_cache_flags
from handhold.backends.shell.sandbox_support import build_overlay_flags, filter_overlayable
from handhold.backends.shell.sockets import find_visible_sockets
from handhold.backends.shell.worktrees import find_linked_repository
from handhold.core.errors import NoShell

if TYPE_CHECKING:
    from handhold.backends.shell.syscall_handler import WriteGuard


@dataclass(frozen=True)
class Mount:
    """One root of the workspace, by real path. An overlay's two folders are fresh and on one file system.

    For a brokered root, `upper` is the folder for what the command displaces, and `work` is the undo log.
    """

    real: str
    mode: Literal["overlay", "direct", "brokered", "read-only"]
    upper: str = ""
    work: str = ""


@dataclass(frozen=True)
class WriteProtection:
    """Protected paths, if a command works on a root itself.

    `paths` exist and are mounted read-only; `is_write_protected` is called for every name that the command would create
    and every file that it would open for writing. `reviewed` if what the command changes is reviewed later.
    """

    is_write_protected: "WriteGuard"
    paths: Sequence[str] = ()
    reviewed: bool = False


def find_exposed_paths(mounts: Sequence[Mount], *, network: bool) -> tuple[str, ...]:
    """Hidden places to show again: programs, the repository of a root, and with a network the resolver configuration.

    Uses our own PATH, since a command may have exported another. Links inside a root are ignored, since commands can
    create them.
    """
    roots = tuple(mount.real for mount in mounts)
    programs = [folder for each in roots for folder in host_paths.find_interpreters(each)]
    found = host_paths.find_installed_programs(
        ":".join((*exclude_roots_from_path(os.environ.get("PATH", ""), roots), *programs))
    )
    names = os.path.realpath("/etc/resolv.conf") if network else ""
    repositories = [
        gitdir for each in roots if (gitdir := find_linked_repository(each) or find_enclosing_repository(each))
    ]
    return (
        *found,
        *(
            place
            for place in (names, *repositories)
            if host_paths.is_inside_any(place, (*host_paths.list_hidden_folders(), host_paths.TMP))
        ),
    )


def find_enclosing_repository(root: str) -> str:
    """The git directory of a repository that contains the root; empty if there is none.

    Must be a folder: a `.git` file could name any other.
    """
    folder = root
    while (folder := os.path.dirname(folder)) != "/":
        gitdir = os.path.join(folder, ".git")
        if os.path.lexists(gitdir):
            return gitdir if os.path.isdir(gitdir) and not os.path.islink(gitdir) else ""
    return ""


@cache
def exclude_roots_from_path(path: str, roots: tuple[str, ...]) -> tuple[str, ...]:
    """The entries of a PATH that are outside all roots."""
    return tuple(entry for entry in path.split(":") if not host_paths.is_inside_any(os.path.realpath(entry), roots))


def build_layout_flags(
    mounts: Sequence[Mount],
    hidden: Sequence[str],
    masks: Mapping[str, str],
    exposed: Sequence[str],
    overlaid: Sequence[str],
    tmp: str,
    write_protection: WriteProtection | None,
    caches: PackageCaches,
) -> tuple[list[str], list[str]]:
    """Flags for everything that is mounted over the base, outermost first, and the places to make read-only.

    `overlaid` are the base folders and caches that are shown through an overlay.
    """
    roots = frozenset(mount.real for mount in mounts) - {"/"}
    layers: list[tuple[str, Sequence[str]]] = []
    covers: list[str] = []

    def add_layer(place: str, *flags: str) -> None:
        layers.append((place, flags))

    def add_tmpfs(place: str) -> None:
        covers.append(place)
        add_layer(place, "--tmpfs", place)

    hidden_paths = (*host_paths.list_hidden_folders(), *hidden, *host_paths.SANDBOX_FOLDERS, host_paths.VAR_TMP)
    exposed = [place for place in exposed if not host_paths.is_inside_any(place, hidden)]
    for place in find_paths_to_cover(hidden_paths, roots):
        if os.path.isdir(place):
            add_tmpfs(place)
        elif os.path.lexists(place):
            add_layer(place, "--ro-bind", "/dev/null", place)
    masked_paths = [
        *host_paths.list_accessible_secrets(),
        *(each for home in roots & {*host_paths.find_homes()} for each in host_paths.find_credentials(home)),
    ]
    overlaid_roots = {mount.real: is_overlaid(mount, mounts) for mount in mounts if mount.real != "/"}
    writable = {mount.real: True for mount in mounts if mount.mode == "direct"}  # their sockets belong to the workspace
    machine = {top: top in overlaid for top in host_paths.list_top_level()} | dict.fromkeys(hidden_paths, True)
    cached = {place: place in overlaid for place in caches.paths}
    masked_paths += find_visible_sockets(machine | dict.fromkeys(exposed, False) | cached | overlaid_roots | writable)
    for place in masked_paths:
        if os.path.isdir(place):
            add_tmpfs(place)
        else:
            add_layer(place, "--ro-bind", "/dev/null", place)
    visible_again = (*roots, *exposed, *caches.folders, *caches.paths)
    in_tmp = [
        place for place in visible_again if host_paths.is_inside(place, host_paths.TMP) and place != host_paths.TMP
    ]
    for name in dict.fromkeys(place.split("/")[2] for place in in_tmp):
        place = f"{host_paths.TMP}/{name}"
        if os.path.islink(os.path.join(tmp, name)):
            raise NoShell(f"{place} is a link instead of the workspace")
        if place not in visible_again:
            add_tmpfs(place)
    for place in exposed:
        if not host_paths.is_inside_any(place, roots):
            add_layer(place, "--ro-bind", place, place)
    layers += build_cache_flags(caches, overlaid, exposed)
    covers += [mount.real for mount in mounts if mount.mode == "read-only" and overlaid_roots.get(mount.real)]
    for mount in mounts:
        add_layer(mount.real, *build_root_flags(mount, overlaid=overlaid_roots.get(mount.real, False)))
    direct = [mount.real for mount in mounts if mount.mode == "direct"]
    for place in write_protection.paths if write_protection else ():
        if host_paths.is_inside_any(place, direct) and os.path.exists(place) and not os.path.islink(place):
            add_layer(place, "--ro-bind", place, place)
    masked = [
        place
        for place in masks
        if host_paths.is_inside_any(place, visible_again) or not host_paths.is_inside_any(place, hidden_paths)
    ]
    layers = [each for each in layers if not is_behind_mask(each[0], masked, visible_again)]
    covers = [place for place in covers if not is_behind_mask(place, masked, visible_again)]
    for place in masked:
        if not is_behind_mask(place, masked, visible_again):
            add_layer(place, "--ro-bind", masks[place], place)
    for place in find_pinned_folders([place for place, _ in layers], mounts, hidden_paths):
        add_layer(place, "--bind", place, place)
    layers.sort(key=lambda each: each[0].rstrip("/").count("/"))
    return [flag for _, flags in layers for flag in flags], covers


@cache
def find_paths_to_cover(hidden_paths: tuple[str, ...], roots: frozenset[str]) -> tuple[str, ...]:
    """Hidden paths that must be covered because the base or a root shows them.

    A path inside a hidden one is hidden with it, unless a root shows it again.
    """
    found: list[str] = []
    for place in dict.fromkeys(hidden_paths):
        enclosing = [each for each in (*roots, *hidden_paths) if each != place and host_paths.is_inside(place, each)]
        at_the_top = os.path.dirname(place) == "/" and place not in host_paths.list_top_level()
        visible = max(enclosing, key=len) in roots if enclosing else not at_the_top
        if visible and place not in (*roots, host_paths.VAR_TMP):
            found.append(place)
    return tuple(found)


def is_behind_mask(place: str, masked: Sequence[str], visible_again: Sequence[str]) -> bool:
    """Whether a mask around it hides a place already. Nothing can be mounted there: a mask is empty and read-only."""
    enclosing = [each for each in (*masked, *visible_again) if each != place and host_paths.is_inside(place, each)]
    return place not in visible_again and bool(enclosing) and max(enclosing, key=len) in masked


def is_overlaid(mount: Mount, mounts: Sequence[Mount]) -> bool:
    """Whether a root is shown through an overlay, so that no socket in it can be reached.

    A read-only root is, next to overlaid roots. Next to direct roots it is not: such commands may run for days and
    should see its changes.
    """
    if mount.mode == "overlay":
        return True
    lasting = any(each.mode == "direct" for each in mounts)
    return mount.mode == "read-only" and not lasting and bool(filter_overlayable((mount.real,)))


def build_root_flags(mount: Mount, *, overlaid: bool) -> Sequence[str]:
    real = mount.real
    if os.path.realpath(real) != real:  # it is inside another root, and a command left a link on the way
        raise NoShell(f"{real} has been moved")
    if mount.mode == "overlay":
        return ("--overlay-src", real, "--overlay", mount.upper, mount.work, real)
    if overlaid:
        return tuple(build_overlay_flags((real,)))
    if real == "/":  # that is the base
        return ()
    return ("--bind" if mount.mode == "direct" else "--ro-bind", real, real)


def find_pinned_folders(
    layered_paths: Sequence[str], mounts: Sequence[Mount], hidden_paths: Sequence[str]
) -> list[str]:
    """Folders between a root and a mount inside it: mounted themselves, so that a command cannot move them away.

    Only for direct roots: a rename on an overlay has no effect until it is checked.
    """
    if all(mount.mode != "direct" for mount in mounts):
        return []
    tops = {each: "hidden" for each in hidden_paths} | {mount.real: mount.mode for mount in mounts}
    found: dict[str, None] = {}
    for place in layered_paths:
        while (place := os.path.dirname(place)) not in tops and place != "/":
            top = max((each for each in tops if host_paths.is_inside(place, each)), key=len, default="")
            if tops.get(top) == "direct" and place not in layered_paths and os.path.isdir(place):
                found[place] = None
    return list(found)
