"""Confine a search program by Landlock: it can read only the folder that it searches, without what is hidden there.

A search program opens files by name, and a name can be replaced by a link while it runs. Checking its hits afterwards
is not enough: that a file did *not* match reveals something, too. So the kernel denies it every other file.
"""

import os
from collections.abc import Iterator, Sequence
from functools import cache

from handhold.backends.files.directory_tree import DiskTree
from handhold.backends.landlock import LAUNCHER_PATH, MIN_ABI_VERSION, landlock_abi_version
from handhold.backends.programs import SubprocessError, run_program
from handhold.backends.search.ripgrep_binary import ENV, START_TIMEOUT_SECONDS
from handhold.backends.search.search_folder import SearchFolder
from handhold.backends.search.search_process import EngineFailed
from handhold.core.text.ignore import IGNORE_FILES
from handhold.logs import log_swallowed, warn_once

# What a dynamically linked program needs to start. Contains no secrets: every command may read it.
LIBRARIES = ("/usr", "/lib", "/lib32", "/lib64", "/nix/store", "/etc/ld.so.cache")
MAX_RULES = 8_000  # they are passed on the command line
CURRENT_DIR = b"."
LAUNCHER_ARGV = (LAUNCHER_PATH, "-w", "/dev/null")  # nothing else is writable

HiddenTree = dict[bytes, "HiddenTree"]  # hidden entries of a folder, by name; empty for one that is hidden as a whole


def confine(folder: SearchFolder, program: str, name: bytes, *, ignored: bool) -> list[str | bytes]:
    """The argv prefix for a search of a folder, or of the file `name` in it.

    Empty if this machine cannot confine programs. Raise EngineFailed if too much would have to be listed, or the
    program does not start: then another engine is used.

    With `ignored`, ignore files of parent folders are not needed.
    """
    needed = find_needed_files(program)
    if isinstance(needed, str):
        warn_once("search", f"Searches run outside the sandbox: {needed}")
        return []
    readable: list[str | bytes] = [*needed, *(() if ignored or name else list_ignore_files_above(folder))]
    flags: list[str | bytes] = [*LAUNCHER_ARGV]
    if name:
        readable.append(CURRENT_DIR + b"/" + name)
    elif hidden := build_hidden_tree(folder):
        flags += ["-l", CURRENT_DIR]
        for path in list_visible_parts(folder.fd, hidden):
            readable.append(path)
            if len(readable) > MAX_RULES:
                raise EngineFailed("there are too many files next to those that may not be read")
    else:
        readable.append(CURRENT_DIR)
    flags += [word for path in readable for word in ("-r", path)]
    return [*flags, "--"]


def find_unconfined_reason(program: str) -> str:
    """Why searches by this program are not confined; empty if they are."""
    try:
        needed = find_needed_files(program)
    except EngineFailed as broken:
        return str(broken)
    return needed if isinstance(needed, str) else ""


@cache
def find_needed_files(program: str) -> tuple[str, ...] | str:
    """Files that the program needs to start, or why it cannot be confined. Raise EngineFailed if it does not start."""
    if (version := landlock_abi_version()) < MIN_ABI_VERSION:
        return f"no Landlock: this kernel has {f'version {version} of it' if version else 'none'}"
    if not os.path.exists(LAUNCHER_PATH):
        return "there is no launcher: it was not built, because no C compiler was found"
    real = os.path.realpath(program)
    for libraries in ((), tuple(dict.fromkeys(map(os.path.realpath, LIBRARIES)))):
        needed = (real, *libraries)
        if can_start([*LAUNCHER_ARGV, *(word for path in needed for word in ("-r", path)), "--", program, "--version"]):
            return needed
    # Not cached: on a busy machine the next try may succeed, and an unconfined search would break the promise.
    raise EngineFailed(f"{program} does not start under Landlock")


def can_start(argv: Sequence[str]) -> bool:
    try:
        result = run_program(argv, env=ENV, timeout=START_TIMEOUT_SECONDS)
    except (OSError, SubprocessError):
        log_swallowed()
        return False
    return result.returncode == 0


def list_ignore_files_above(folder: SearchFolder) -> Iterator[str]:
    """The ignore files in parent folders that apply to a folder; most of them do not exist."""
    above = folder.to_place(b"").rstrip("/")
    while above:
        above = above.rpartition("/")[0]
        for name in IGNORE_FILES:
            path = f"{above}/{name}"
            if not folder.is_inside(path) or folder.visible(path):
                yield path


def build_hidden_tree(folder: SearchFolder) -> HiddenTree:
    hidden: HiddenTree = {}
    prefix = folder.to_place(b"")
    try:
        places = folder.denied_places
    except TimeoutError:
        raise EngineFailed("finding the files that may not be read takes too long") from None
    for place in places:
        if place.startswith(prefix):
            within = hidden
            for name in os.fsencode(place.removeprefix(prefix)).split(b"/"):
                within = within.setdefault(name, {})
    return hidden


def list_visible_parts(fd: int, hidden: HiddenTree) -> Iterator[bytes]:
    """Files and folders that together cover all of a folder except what is hidden: Landlock can only allow."""
    stack = [(b"", hidden)]
    with DiskTree(fd) as tree:
        while stack:
            rel_path, within = stack.pop()
            try:
                entries = tree.list_entries(rel_path)
            except OSError:
                log_swallowed()
                continue
            for name, kind in entries:
                if name not in within:
                    if kind in ("file", "directory"):
                        yield rel_path + name
                elif within[name]:
                    stack.append((rel_path + name + b"/", within[name]))
