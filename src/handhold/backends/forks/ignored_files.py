"""Which files git ignores in a fork, and how git is run there."""

import os
import stat
from collections.abc import Callable, Collection, Sequence

from handhold.backends.forks.entries import TreeReader
from handhold.backends.forks.text_merge import find_git
from handhold.backends.forks.tree_merge import iterate_parents
from handhold.backends.programs import CompletedProcess, TimeoutExpired, build_user_environment, run_program
from handhold.core.errors import ForkUnavailable

GIT = ".git"
# Nothing in the settings of a repository may start a program, and whoever owns it is known already.
SAFE_SETTINGS = (
    *("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "safe.directory=*"),
    *("-c", "protocol.allow=never"),
)
HERE = b"./"  # before a path, so that a colon at its start has no meaning to git
IGNORED_FOUND, NONE_IGNORED = 0, 1  # exit status of `git check-ignore`

GIT_SECONDS = 600  # for one question to git; it waits for ever if an ignore file or a settings file is a pipe
TOO_SLOW = "git did not answer, perhaps because a file that it reads is a pipe; --all merges all files"
Capture = Callable[[Sequence[str], str, bytes], CompletedProcess[bytes]]  # runs a program in a folder


def find_git_folder(rel: str) -> str:
    """The git directory that a path is in, relative to the root; empty if it is in none."""
    parts = rel.split("/")
    return "/".join(parts[: parts.index(GIT) + 1]) if GIT in parts else ""


def find_ignored(
    fork: str, real: str, paths: Collection[str], layer: TreeReader, base: TreeReader, capture: Capture
) -> set[str]:
    """The paths that git ignores, according to a git that `capture` runs.

    In the fork, its ignore files apply, and what is tracked there is not ignored. A repository is ignored with
    everything in it if one around it ignores its folder. ForkUnavailable if the root is in a repository, and git is not
    installed or fails.
    """
    questions: dict[str, dict[str, list[str]]] = {}  # by repository and path there: the paths that it is asked for
    tops: dict[str, bool] = {}
    for rel in paths:
        if any((found := layer.stat(above)) and stat.S_ISLNK(found.st_mode) for above in iterate_parents(rel)):
            continue  # deleted, and behind a link now: git would refuse to look
        git_folder = find_git_folder(rel)
        asked = os.path.dirname(git_folder) if git_folder else rel
        for folder in (*iterate_parents(asked), "") if asked else ():
            if folder not in tops:
                pointer = f"{folder}/{GIT}".lstrip("/")
                is_top = layer.stat(pointer) is not None or base.stat(pointer) is not None
                tops[folder] = is_top or (not folder and _is_in_repository(real))
            if tops[folder]:
                inner = asked.removeprefix(f"{folder}/") if folder else asked
                questions.setdefault(folder, {}).setdefault(inner, []).append(rel)
                asked = folder
    ignored: set[str] = set()
    for folder, by_path in questions.items():
        for found in _check_ignored(fork, os.path.join(real, folder), [*by_path], capture):
            ignored.update(by_path[found])
    return ignored


def _is_in_repository(real: str) -> bool:
    return any(os.path.lexists(os.path.join("/", above, GIT)) for above in iterate_parents(real.lstrip("/")))


def _check_ignored(fork: str, folder: str, paths: Sequence[str], capture: Capture) -> list[str]:
    git = find_git()
    if not git:
        because = "git is not installed, so it cannot be told which files are ignored; --all merges all of them"
        raise ForkUnavailable(fork, because)
    data = b"".join(HERE + os.fsencode(path) + b"\0" for path in paths)
    command = (git, *SAFE_SETTINGS, "check-ignore", "-z", "--stdin")
    done = capture(command, folder, data)
    if done.returncode not in (IGNORED_FOUND, NONE_IGNORED):
        because = f"git check-ignore failed in {folder}: {os.fsdecode(done.stderr).strip()}; --all merges all files"
        raise ForkUnavailable(fork, because)
    return [os.fsdecode(each.removeprefix(HERE)) for each in done.stdout.split(b"\0") if each]


def capture_in_base(command: Sequence[str], folder: str, data: bytes) -> CompletedProcess[bytes]:
    """Run git on the root itself, while the fork cannot be mounted."""
    try:
        return run_program(command, cwd=folder, env=build_user_environment(), data=data, timeout=GIT_SECONDS)
    except OSError as error:  # the fork made the folder
        raise ForkUnavailable(folder, str(error)) from error
    except TimeoutExpired:
        raise ForkUnavailable(folder, TOO_SLOW) from None
