"""Confines a search program by Landlock: it can read the folder that it searches, and nothing that is hidden there.

A search program opens files by name, and a name can be turned into a link while it runs. Checking its hits afterwards
is not enough: that a file did *not* match says something, too. So the kernel keeps it from every other file.
"""

import os
import subprocess
from collections.abc import Iterator, Sequence
from functools import cache

from handhold.core.text.ignore import NAMES
from handhold.world.files.tree import DiskTree
from handhold.world.landlock import LAUNCHER, USABLE, landlock_version
from handhold.world.search.checked import Folder
from handhold.world.search.programs import ENV, PATIENCE
from handhold.world.search.running import Broken

# What a program that is not linked statically needs to start. Nobody's secrets: every command may read it.
LIBRARIES = ("/usr", "/lib", "/lib32", "/lib64", "/nix/store", "/etc/ld.so.cache")
MOST_RULES = 8_000  # they go into the command line
HERE = b"."
BEGIN = (LAUNCHER, "-w", "/dev/null")  # and nothing else is written to

Hidden = dict[bytes, "Hidden"]  # what is hidden in a folder, by name; empty for what is hidden as a whole


def confine(folder: Folder, program: str, name: bytes, *, ignored: bool) -> list[str | bytes]:
    """What goes before the command line of a search of a folder, or of the file `name` in it.

    Nothing where this machine cannot confine a program. Broken if too much would have to be listed, or the program
    fails to start: then another search answers.

    With `ignored`, no ignore file of a folder above is needed.
    """
    needed = files_needed(program)
    if isinstance(needed, str):
        return []
    readable: list[str | bytes] = [*needed, *(() if ignored or name else ignore_files_above(folder))]
    flags: list[str | bytes] = [*BEGIN]
    if name:
        readable.append(HERE + b"/" + name)
    elif hidden := hidden_below(folder):
        flags += ["-l", HERE]
        for path in visible_parts(folder.fd, hidden):
            readable.append(path)
            if len(readable) > MOST_RULES:
                raise Broken("too many files lie beside those that may not be read")
    else:
        readable.append(HERE)
    flags += [word for path in readable for word in ("-r", path)]
    return [*flags, "--"]


def why_unconfined(program: str) -> str:
    """Empty if searches by this program are confined."""
    try:
        needed = files_needed(program)
    except Broken as broken:
        return str(broken)
    return needed if isinstance(needed, str) else ""


@cache
def files_needed(program: str) -> tuple[str, ...] | str:
    """What the program has to read before it can start, or why none is confined. Broken if it does not start."""
    if (version := landlock_version()) < USABLE:
        return f"no Landlock: this kernel has {f'version {version} of it' if version else 'none'}"
    if not os.path.exists(LAUNCHER):
        return "no launcher: it was not built, for want of a C compiler"
    real = os.path.realpath(program)
    for libraries in ((), tuple(dict.fromkeys(map(os.path.realpath, LIBRARIES)))):
        needed = (real, *libraries)
        if starts([*BEGIN, *(word for path in needed for word in ("-r", path)), "--", program, "--version"]):
            return needed
    # Not kept: on a busy machine the next try may succeed, and a search without a wall is not what was promised.
    raise Broken(f"{program} does not start under Landlock")


def starts(argv: Sequence[str]) -> bool:
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, env=ENV, timeout=PATIENCE, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


def ignore_files_above(folder: Folder) -> Iterator[str]:
    """The ignore files that hold below a folder because they stand above it; most of them do not exist."""
    above = folder.place(b"").rstrip("/")
    while above:
        above = above.rpartition("/")[0]
        for name in NAMES:
            path = f"{above}/{name}"
            if not folder.is_inside(path) or folder.visible(path):
                yield path


def hidden_below(folder: Folder) -> Hidden:
    hidden: Hidden = {}
    prefix = folder.place(b"")
    try:
        places = folder.hidden
    except TimeoutError:
        raise Broken("it takes too long to find the files that may not be read") from None
    for place in places:
        if place.startswith(prefix):
            within = hidden
            for name in os.fsencode(place.removeprefix(prefix)).split(b"/"):
                within = within.setdefault(name, {})
    return hidden


def visible_parts(fd: int, hidden: Hidden) -> Iterator[bytes]:
    """Files and folders that together are all of a folder but what is hidden in it: Landlock can only allow."""
    ahead = [(b"", hidden)]
    with DiskTree(fd) as tree:
        while ahead:
            way, within = ahead.pop()
            try:
                entries = tree.entries(way)
            except OSError:
                continue
            for name, kind in entries:
                if name not in within:
                    if kind in ("file", "directory"):
                        yield way + name
                elif within[name]:
                    ahead.append((way + name + b"/", within[name]))
