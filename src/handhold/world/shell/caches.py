"""Package caches in the user's home, for commands without a network: what was downloaded once can be installed again.

Each cache is shown where it is, through an overlay whose layer is thrown away, since package managers lock and touch
what they only read. A variable tells the tool where that is, now that HOME is another. What lies beside a cache stays
hidden: credentials do.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from handhold.world.files.openat2 import BENEATH, NO_MAGICLINKS, NO_SYMLINKS, how, openat2
from handhold.world.shell import places

IS_FOLDER = how(os.O_PATH | os.O_DIRECTORY, BENEATH | NO_MAGICLINKS | NO_SYMLINKS)


@dataclass(frozen=True)
class Cache:
    """One that a package manager has in `folder`, below the home, unless one of the variables names another place."""

    variable: str
    folder: str
    parts: tuple[str, ...] = ()  # all that is shown of the folder; none: the whole folder
    within: tuple[str, str] = ("", "")  # a variable for a folder around it, and where in there it is
    option: str = ""  # what the variable says before the path, if it is more than a path


CACHES = (
    Cache("CARGO_HOME", ".cargo", ("registry", "git")),
    Cache("GOMODCACHE", "go/pkg/mod", within=("GOPATH", "pkg/mod")),
    Cache("GRADLE_USER_HOME", ".gradle", ("caches", "wrapper/dists")),
    Cache("MAVEN_OPTS", ".m2/repository", option="-Dmaven.repo.local="),
    Cache("PIP_CACHE_DIR", ".cache/pip", within=("XDG_CACHE_HOME", "pip")),
    Cache("PNPM_HOME", ".local/share/pnpm", ("store",), within=("XDG_DATA_HOME", "pnpm")),
    Cache("UV_CACHE_DIR", ".cache/uv", within=("XDG_CACHE_HOME", "uv")),
    Cache("YARN_GLOBAL_FOLDER", ".yarn/berry", ("cache",)),
    Cache("npm_config_cache", ".npm", ("_cacache",)),
)
NAMING = tuple(dict.fromkeys(name for each in CACHES for name in (each.variable, each.within[0]) if name))


@dataclass(frozen=True)
class Caches:
    """Those that are there: `places` are shown, `folders` around them are empty and may be written to."""

    places: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict[str, str])


def find_caches(home: str, environ: Mapping[str, str], apart: Sequence[str]) -> Caches:
    """By one call each. Nothing is found in what has to stay `apart`, nor around it, nor on the far side of a link."""
    found: list[str] = []
    folders: list[str] = []
    variables: dict[str, str] = {}
    try:
        top = os.open(home, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return Caches()
    try:
        for cache, folder, ways in _candidates(home, tuple(environ.get(name, "") for name in NAMING)):
            there = [place for place, way in ways if _is_folder(top, way) and _is_apart(place, apart)]
            if there:
                found += there
                folders += [folder] if cache.parts else []
                variables[cache.variable] = cache.option + folder
    finally:
        os.close(top)
    return Caches(tuple(found), tuple(folders), variables)


@cache
def _candidates(home: str, named: tuple[str, ...]) -> tuple[tuple[Cache, str, tuple[tuple[str, bytes], ...]], ...]:
    """The folder of each cache, and the places in it that may be shown, with the way there from the home."""
    environ = dict(zip(NAMING, named, strict=True))
    credentials = [os.path.join(home, name) for name in places.CREDENTIALS]
    found: list[tuple[Cache, str, tuple[tuple[str, bytes], ...]]] = []
    for each in CACHES:
        folder = _folder(each, home, environ)
        wanted = [os.path.join(folder, part) for part in each.parts] or [folder]
        shown = [place for place in wanted if place != home and places.inside(place, home)]
        ways = [(place, os.fsencode(os.path.relpath(place, home))) for place in shown if _is_apart(place, credentials)]
        found.append((each, folder, tuple(ways)))
    return tuple(found)


def _folder(cache: Cache, home: str, environ: Mapping[str, str]) -> str:
    around, way = cache.within
    if not cache.option and (named := environ[cache.variable]):
        return os.path.normpath(named)
    if around and (named := environ[around]):
        return os.path.normpath(os.path.join(named, way))
    return os.path.join(home, cache.folder)


def _is_apart(place: str, others: Sequence[str]) -> bool:
    return not any(places.inside(place, each) or places.inside(each, place) for each in others)


def _is_folder(top: int, way: bytes) -> bool:
    try:
        os.close(openat2(top, way, IS_FOLDER))
    except OSError:
        return False
    return True


def usable_caches(roots: Sequence[str], hidden: Sequence[str]) -> Caches:
    """Of the user whose HOME is ours, where that is hidden from commands and they would not find them otherwise."""
    home = next(iter(places.homes()), "")
    if home not in places.hidden():
        return Caches()
    return find_caches(home, os.environ, (*roots, *hidden))


def lay_caches(caches: Caches, behind: Sequence[str], shown: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
    """Places and the flags for them; a cache that no overlay can be laid over is read-only."""
    for place in caches.folders:
        if not places.below_any(place, shown):
            yield place, ("--tmpfs", place)
    for place in caches.places:
        yield (
            place,
            (("--overlay-src", place, "--tmp-overlay") if place in behind else ("--ro-bind", place)) + (place,),
        )
