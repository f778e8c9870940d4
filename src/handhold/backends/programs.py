"""Starts every program that Handhold runs: interpreters, helpers, git, and what the user asked for.

A folder that we work on may hold a `queue.py`, a `sitecustomize.py`, a `git` or a library: whatever an interpreter, a
loader or a search by name would take from there runs outside the sandbox, with the user's rights. So a program of ours
is started by its absolute path, in the folder `/`, with an environment of our own, and gets no descriptor that is not
named. An interpreter is isolated and runs no `site`: it imports the standard library, Handhold, and the folders of
installed packages that this process uses, in this order.

`checks/starts.py` refuses every other way to start a program, and `pickle` and `marshal`, which would run what another
process sends.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import (
    DEVNULL,
    PIPE,
    CompletedProcess,
    Popen,
    SubprocessError,
    TimeoutExpired,
    run,
)
from typing import IO

from handhold.backends.program_search import SYSTEM_PATH, find_trusted_path, list_trusted_folders

__all__ = (
    "DEVNULL",
    "PIPE",
    "CompletedProcess",
    "Popen",
    "SubprocessError",
    "TimeoutExpired",
    "build_own_environment",
    "build_python_argv",
    "build_user_environment",
    "find_interpreter",
    "run_program",
    "start_for_user",
    "start_program",
    "TRUSTED_FOLDER",
)

TRUSTED_FOLDER = "/"
PACKAGE_ROOT = str(Path(__file__).parents[2])  # the folder that has `handhold`
PACKAGE_FOLDER_NAMES = ("site-packages", "dist-packages")
PYTHON_CODE = "import sys; sys.path += {folders!r}; from {module} import main; main()"
LOADER_PREFIXES = ("PYTHON", "LD_")  # what makes an interpreter or the loader run other code
# They concern commands of a toolbox alone: an isolated interpreter ignores them.
HARMLESS_VARIABLES = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "PYTHONUTF8")
LIBRARY_PATH = "LD_LIBRARY_PATH"  # an interpreter may need it to find its own library

Stream = int | IO[bytes] | None


# --- interpreters


def find_interpreter() -> str:
    """This interpreter itself, not a link to it, which may be in a workspace."""
    return os.path.realpath(sys.executable)


def build_python_argv(module: str, *arguments: str) -> tuple[str, ...]:
    """The command line that runs `main` of a module of ours."""
    code = PYTHON_CODE.format(folders=list_package_folders(), module=module)
    return (find_interpreter(), "-I", "-S", "-c", code, *arguments)


def list_package_folders() -> list[str]:
    """Ours, and those of installed packages. Other folders of `sys.path` may be those of somebody's project."""
    installed = (each for each in sys.path if os.path.isabs(each) and each.endswith(PACKAGE_FOLDER_NAMES))
    return list(dict.fromkeys((PACKAGE_ROOT, *installed)))


# --- environments


def build_own_environment(**more: str) -> dict[str, str]:
    """For helpers that need nothing of the user's."""
    kept = {name: value for name, value in os.environ.items() if name == "LANG" or name.startswith("LC_")}
    return {"PATH": SYSTEM_PATH, **kept, **_find_libraries(), **more}


def build_user_environment(**more: str) -> dict[str, str]:
    """The user's, for a program of ours that acts for them: without what makes it run other code than its own.

    Only a toolbox, whose commands have the user's PATH, is given that.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(LOADER_PREFIXES) or name in HARMLESS_VARIABLES
    }
    return {**kept, "PATH": find_trusted_path(), **_find_libraries(), **more}


def _find_libraries() -> dict[str, str]:
    folders = list_trusted_folders(os.environ.get(LIBRARY_PATH, ""))
    return {LIBRARY_PATH: os.pathsep.join(folders)} if folders else {}


# --- starting


def run_program(
    argv: Sequence[str | bytes],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str = TRUSTED_FOLDER,
    data: bytes = b"",
    timeout: float | None = None,
    pass_fds: Sequence[int] = (),
) -> CompletedProcess[bytes]:
    """Run a program of ours to its end. Raises OSError if it does not start, TimeoutExpired if it does not end."""
    _require_path(argv)
    return run(
        argv,
        input=data,
        capture_output=True,
        env=build_own_environment() if env is None else env,
        cwd=cwd,
        timeout=timeout,
        pass_fds=tuple(pass_fds),
        check=False,
    )


def start_program(
    argv: Sequence[str | bytes],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str = TRUSTED_FOLDER,
    stdin: Stream = DEVNULL,
    stdout: Stream = PIPE,
    stderr: Stream = PIPE,
    pass_fds: Sequence[int] = (),
    new_session: bool = False,
) -> Popen[bytes]:
    """Start a program of ours. Raises OSError if it does not start."""
    _require_path(argv)
    return Popen(
        argv,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        env=build_own_environment() if env is None else env,
        cwd=cwd,
        pass_fds=tuple(pass_fds),
        start_new_session=new_session,
        bufsize=0,
    )


def start_for_user(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    stdin: Stream = None,
    stdout: Stream = None,
    stderr: Stream = None,
    pass_fds: Sequence[int] = (),
) -> Popen[bytes]:
    """Start what the user asked for, as their shell would: by its name, in their folder, with their environment."""
    return Popen(command, stdin=stdin, stdout=stdout, stderr=stderr, env=env, cwd=cwd, pass_fds=tuple(pass_fds))


def _require_path(argv: Sequence[str | bytes]) -> None:
    """A name would be looked for in folders that somebody else fills. OSError, as for a program that is missing."""
    if not os.path.isabs(argv[0]):
        raise FileNotFoundError(2, "not installed", os.fsdecode(argv[0]))
