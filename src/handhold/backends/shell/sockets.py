"""Unix sockets that a command could reach: each obeys anybody who connects, even on a read-only mount.

The kernel identifies a socket by its inode, and an overlay has its own inodes. So through an overlay no socket bound
outside can be reached, whatever its name, its network namespace or the time it was bound. Only folders shown without an
overlay must be searched for sockets, which are then masked one by one.
"""

import os
import stat
import time
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path

from handhold.backends.shell import host_paths
from handhold.logs import log_swallowed

BOUND_SOCKETS_FILE = "/proc/net/unix"
SEARCH_TIMEOUT_SECONDS = 0.1  # breadth first: sockets are rarely deep
SEARCH_AGAIN_FACTOR = 1000  # searching again may take a thousandth of the time

_search_cache: dict[tuple[str, ...], tuple[float, list[str]]] = {}  # valid until, and what was found


def find_visible_sockets(folders: Mapping[str, bool]) -> list[str]:
    """Real paths of the sockets below `folders`; those with True are behind an overlay.

    The innermost folder decides. Found by the names bound in our network namespace, and by searching the folders in /,
    as far as the last search got.
    """
    exposed = tuple(
        place for place, overlaid in folders.items() if not overlaid and place in host_paths.list_top_level()
    )
    found = [
        place
        for place in (*_list_bound_paths(), *_search(exposed))
        if _is_exposed(place, folders) and _is_socket(place)
    ]
    return list(dict.fromkeys(found))


def _is_exposed(place: str, folders: Mapping[str, bool]) -> bool:
    enclosing = [top for top in folders if host_paths.is_inside(place, top)]
    return bool(enclosing) and not folders[max(enclosing, key=len)]


def _is_socket(place: str) -> bool:
    """Whether it is a socket in our mount namespace: a bound name may refer to another one."""
    try:
        return stat.S_ISSOCK(os.lstat(place).st_mode)
    except OSError:
        log_swallowed()
        return False


def _list_bound_paths() -> Iterator[str]:
    for line in Path(BOUND_SOCKETS_FILE).read_bytes().splitlines():
        name = os.fsdecode(line[line.find(b" /") + 1 :])
        if name.startswith("/"):
            yield os.path.realpath(name)


def _search(tops: tuple[str, ...]) -> list[str]:
    until, found = _search_cache.get(tops, (0.0, []))
    now = time.monotonic()
    if now >= until:
        found = list(_walk(tops, now + SEARCH_TIMEOUT_SECONDS))
        _search_cache[tops] = now + (time.monotonic() - now) * SEARCH_AGAIN_FACTOR, found
    return found


def _walk(tops: tuple[str, ...], deadline: float) -> Iterator[str]:
    ahead = deque(top for top in tops if not os.path.islink(top))
    while ahead and time.monotonic() < deadline:
        folder = ahead.popleft()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        ahead.append(entry.path)
                    elif not entry.is_file(follow_symlinks=False) and not entry.is_symlink():
                        yield entry.path
        except OSError:
            continue  # not accessible, or gone
