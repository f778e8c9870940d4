"""Linked worktrees as roots: the repository is elsewhere, and is made visible to commands.

A `.git` file may name any folder, and may come from an archive. So it is trusted only if it names a worktree of a
repository that in turn names this root: `git worktree add` writes both, and an archive cannot write the second.
"""

import os
from collections.abc import Iterable

from handhold.logs import suppress_and_log

MAX_LINE_BYTES = 8192  # twice the longest path
OPEN_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def find_linked_repository(root: str) -> str:
    """The git directory of the repository that a root is a linked worktree of; empty if it is none."""
    pointer = _read_line(os.path.join(root, ".git"))
    if not pointer.startswith("gitdir: "):
        return ""
    gitdir = os.path.normpath(os.path.join(root, pointer.removeprefix("gitdir: ")))
    worktrees, name = os.path.split(gitdir)
    common = os.path.dirname(worktrees)
    back = os.path.normpath(os.path.join(gitdir, _read_line(os.path.join(gitdir, "gitdir"))))
    is_worktree = (
        worktrees == os.path.join(common, "worktrees")
        and name != ""
        and os.path.realpath(gitdir) == gitdir
        and back == os.path.join(root, ".git")
        and os.path.normpath(os.path.join(gitdir, _read_line(os.path.join(gitdir, "commondir")))) == common
        and os.path.isfile(os.path.join(common, "HEAD"))
        and all(os.path.isdir(os.path.join(common, each)) for each in ("objects", "refs"))
    )
    return common if is_worktree else ""


def advise_on_worktrees(roots: Iterable[str], output: str) -> tuple[str, ...]:
    """What to do if git reported that such a repository is read-only."""
    if "Read-only file system" not in output and "Permission denied" not in output:
        return ()
    outside = dict.fromkeys(common for root in roots if (common := find_linked_repository(root)) and common in output)
    return tuple(
        f"{each} is outside the workspace, so git can only read it. To commit, ask the user to open "
        f"that folder as a second root (--root {each})"
        for each in outside
    )


def _read_line(path: str) -> str:
    """The only line of a small file; empty if there is no such file, or it contains more."""
    with suppress_and_log(OSError, ValueError):
        with os.fdopen(os.open(path, OPEN_FLAGS), "rb") as file:
            held = file.read(MAX_LINE_BYTES + 1)
        line = os.fsdecode(held).removesuffix("\n").removesuffix("\r")
        return line if len(held) <= MAX_LINE_BYTES and "\n" not in line and "\0" not in line else ""
    return ""
