"""Package caches in the user's home, for commands without a network: what was downloaded before can be installed again.

Each cache is visible at its path, through an overlay whose layer is discarded, because package managers lock and touch
what they only read. A variable tells the tool where it is, since HOME differs. Everything next to a cache stays hidden:
it may be credentials.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from handhold.backends.files.openat2 import (
    RESOLVE_BENEATH,
    RESOLVE_NO_MAGICLINKS,
    RESOLVE_NO_SYMLINKS,
    openat2,
    pack_open_how,
)
from handhold.backends.shell import host_paths
from handhold.logs import log_swallowed

FOLDER_OPEN_HOW = pack_open_how(
    os.O_PATH | os.O_DIRECTORY, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS
)


@dataclass(frozen=True)
class PackageCache:
    """A package manager's cache in `folder` below the home, unless one of the variables names another place."""

    variable: str
    folder: str
    parts: tuple[str, ...] = ()  # visible parts of the folder; empty: all of it
    within: tuple[str, str] = ("", "")  # a variable for a parent folder, and the path inside it
    value_prefix: str = ""  # what precedes the path in the variable's value


PACKAGE_CACHES = (
    PackageCache("CARGO_HOME", ".cargo", ("registry", "git")),
    PackageCache("GOMODCACHE", "go/pkg/mod", within=("GOPATH", "pkg/mod")),
    PackageCache("GRADLE_USER_HOME", ".gradle", ("caches", "wrapper/dists")),
    PackageCache("MAVEN_OPTS", ".m2/repository", value_prefix="-Dmaven.repo.local="),
    PackageCache("PIP_CACHE_DIR", ".cache/pip", within=("XDG_CACHE_HOME", "pip")),
    PackageCache("PNPM_HOME", ".local/share/pnpm", ("store",), within=("XDG_DATA_HOME", "pnpm")),
    PackageCache("UV_CACHE_DIR", ".cache/uv", within=("XDG_CACHE_HOME", "uv")),
    PackageCache("YARN_GLOBAL_FOLDER", ".yarn/berry", ("cache",)),
    PackageCache("npm_config_cache", ".npm", ("_cacache",)),
)
CACHE_VARIABLES = tuple(
    dict.fromkeys(name for each in PACKAGE_CACHES for name in (each.variable, each.within[0]) if name)
)


@dataclass(frozen=True)
class PackageCaches:
    """Existing caches: `paths` are visible; the `folders` around them are empty and writable."""

    paths: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict[str, str])


def find_caches(home: str, environ: Mapping[str, str], excluded: Sequence[str]) -> PackageCaches:
    """Find caches with one system call each. Excluded places, their parents and targets of links are left out."""
    found: list[str] = []
    folders: list[str] = []
    variables: dict[str, str] = {}
    try:
        top = os.open(home, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        log_swallowed()
        return PackageCaches()
    try:
        for cache, folder, parts in _list_candidates(home, tuple(environ.get(name, "") for name in CACHE_VARIABLES)):
            present = [place for place, rel_path in parts if _is_folder(top, rel_path) and _is_apart(place, excluded)]
            if present:
                found += present
                folders += [folder] if cache.parts else []
                variables[cache.variable] = cache.value_prefix + folder
    finally:
        os.close(top)
    return PackageCaches(tuple(found), tuple(folders), variables)


@cache
def _list_candidates(
    home: str, values: tuple[str, ...]
) -> tuple[tuple[PackageCache, str, tuple[tuple[str, bytes], ...]], ...]:
    """The folder of each cache, and the places in it to show, with their paths relative to the home."""
    environ = dict(zip(CACHE_VARIABLES, values, strict=True))
    credentials = [os.path.join(home, name) for name in host_paths.CREDENTIAL_PATHS]
    found: list[tuple[PackageCache, str, tuple[tuple[str, bytes], ...]]] = []
    for each in PACKAGE_CACHES:
        folder = _resolve_folder(each, home, environ)
        wanted = [os.path.join(folder, part) for part in each.parts] or [folder]
        shown = [place for place in wanted if place != home and host_paths.is_inside(place, home)]
        parts = [(place, os.fsencode(os.path.relpath(place, home))) for place in shown if _is_apart(place, credentials)]
        found.append((each, folder, tuple(parts)))
    return tuple(found)


def _resolve_folder(cache: PackageCache, home: str, environ: Mapping[str, str]) -> str:
    outer_variable, rel_path = cache.within
    if not cache.value_prefix and (named := environ[cache.variable]):
        return os.path.normpath(named)
    if outer_variable and (named := environ[outer_variable]):
        return os.path.normpath(os.path.join(named, rel_path))
    return os.path.join(home, cache.folder)


def _is_apart(place: str, others: Sequence[str]) -> bool:
    return not any(host_paths.is_inside(place, each) or host_paths.is_inside(each, place) for each in others)


def _is_folder(top: int, rel_path: bytes) -> bool:
    try:
        os.close(openat2(top, rel_path, FOLDER_OPEN_HOW))
    except OSError:
        log_swallowed()
        return False
    return True


def find_usable_caches(roots: Sequence[str], hidden: Sequence[str]) -> PackageCaches:
    """The caches of the current user, if the home is hidden from commands."""
    home = next(iter(host_paths.find_homes()), "")
    if home not in host_paths.list_hidden_folders():
        return PackageCaches()
    return find_caches(home, os.environ, (*roots, *hidden))


def build_cache_flags(
    caches: PackageCaches, overlaid: Sequence[str], exposed: Sequence[str]
) -> Iterator[tuple[str, Sequence[str]]]:
    """Places and their flags; a cache that cannot be overlaid is read-only."""
    for place in caches.folders:
        if not host_paths.is_inside_any(place, exposed):
            yield place, ("--tmpfs", place)
    for place in caches.paths:
        yield (
            place,
            (("--overlay-src", place, "--tmp-overlay") if place in overlaid else ("--ro-bind", place)) + (place,),
        )
