"""Where the code is that Handhold runs: its interpreter, its launcher, its package, and all packages beside it.

If a workspace contains some of it, as a project does that has Handhold in its `.venv`, a command could change what
runs outside the sandbox with the next start: a module of ours, one that we import, a `.pth` or a `sitecustomize.py`.
So these places are protected like a git hook: changing them needs a person's approval. An environment without Handhold
is not ours, and packages are installed into it as before.
"""

import os
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from functools import cache

from handhold.backends.link_way import find_links_on_way
from handhold.backends.programs import PACKAGE_ROOT, find_interpreter, list_package_folders

LAUNCHER = "handhold"
ENVIRONMENT_FILE = "pyvenv.cfg"  # at the top of a virtual environment


def find_own_code(roots: Sequence[str]) -> tuple[str, ...]:
    """The places of our own code that are in these roots, or around one, with links resolved, and these links."""
    inside = [place for place in _list_own_code() if any(_is_in(place, root) or _is_in(root, place) for root in roots)]
    return tuple(place for place in inside if not any(place != other and _is_in(place, other) for other in inside))


def _is_in(place: str, folder: str) -> bool:
    return f"{place}/".startswith(f"{folder.rstrip('/')}/")


@cache
def _list_own_code() -> tuple[str, ...]:
    places = [*_iterate_own_code()]
    links = [link for place in places for link in find_links_on_way(place)]  # such as `.venv -> envs/main`
    return tuple(dict.fromkeys((*map(os.path.realpath, places), *links)))


def _iterate_own_code() -> Iterator[str]:
    yield os.path.join(PACKAGE_ROOT, LAUNCHER)
    yield find_interpreter()
    if os.path.basename(sys.argv[0]) == LAUNCHER:
        yield os.path.abspath(sys.argv[0])
    yield from (sysconfig.get_path(name) for name in ("stdlib", "platstdlib"))
    packages = [folder for folder in list_package_folders() if folder != PACKAGE_ROOT or _has_packages(folder)]
    for folder in (*packages, sys.prefix):
        environment = _find_environment(folder)
        if environment:
            yield environment
        elif folder != sys.prefix:
            yield folder


def _has_packages(folder: str) -> bool:
    """Whether it is a folder of installed packages, not that of a clone."""
    return folder.endswith(("site-packages", "dist-packages"))


def _find_environment(folder: str) -> str:
    """The virtual environment that a folder is in; empty if it is in none."""
    while folder != os.path.dirname(folder):
        if os.path.isfile(os.path.join(folder, ENVIRONMENT_FILE)):
            return folder
        folder = os.path.dirname(folder)
    return ""
