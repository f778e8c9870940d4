"""Where programs that Handhold itself starts are found: never in a workspace, and never relative to a folder.

What is in a root came with somebody's repository, or was put there by a command. Every root that was opened in this
process counts, also one that is closed again.
"""

import os
from collections.abc import Iterable, Iterator, Sequence

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/run/current-system/sw/bin"

_roots: set[str] = set()


def distrust(root: str) -> None:
    """Use no program in this folder from now on. The whole file system cannot be left out."""
    if root != "/":
        _roots.add(root.rstrip("/"))


def is_trusted(path: str, roots: Iterable[str] = ()) -> bool:
    """Whether it is absolute, and neither it nor what it leads to is in a workspace."""
    if not os.path.isabs(path):
        return False
    folders = [root.rstrip("/") + "/" for root in (*_roots, *roots)]
    names = (os.path.normpath(path), os.path.realpath(path))
    return not any(f"{name}/".startswith(folder) for name in names for folder in folders)


def list_trusted_folders(value: str, roots: Sequence[str] = ()) -> list[str]:
    """The folders of a variable such as PATH that can be trusted."""
    return [folder for folder in value.split(os.pathsep) if is_trusted(folder, roots)]


def find_trusted_path() -> str:
    """The user's PATH without workspaces, for a program of ours that starts others by their names."""
    return os.pathsep.join((*list_trusted_folders(os.environ.get("PATH", os.defpath)), *SYSTEM_PATH.split(os.pathsep)))


def iterate_programs(name: str, roots: Sequence[str] = ()) -> Iterator[str]:
    """Where a program is, first by the user's PATH, then in the system's folders."""
    folders = list_trusted_folders(os.environ.get("PATH", os.defpath), roots)
    for folder in dict.fromkeys((*folders, *SYSTEM_PATH.split(os.pathsep))):
        path = os.path.join(folder, name)
        is_system = folder not in folders
        if os.path.isfile(path) and os.access(path, os.X_OK) and (is_system or is_trusted(path, roots)):
            yield path


def find_program(name: str, roots: Sequence[str] = ()) -> str:
    """The path of a program; empty if it is not installed."""
    return next(iterate_programs(name, roots), "")
