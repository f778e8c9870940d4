"""Three-way merge of texts, by `git merge-file`: its rules are those that people know, conflicts included."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, NamedTuple

from handhold.backends.program_search import find_program
from handhold.backends.programs import build_own_environment, run_program

MAX_CONFLICTS = 127  # as many as an exit status can tell; a higher one is a failure
# No configuration of the user or of a repository applies.
GIT_ENVIRONMENT = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_DIR": os.devnull}


class MergedText(NamedTuple):
    data: bytes
    has_conflicts: bool  # then both sides are in `data`, between markers


def find_git() -> str:
    """The path of git; empty if it is not installed."""
    return find_program("git")


def merge_texts(
    ancestor: Path, fork: bytes, base: bytes, scratch: Path, take: Literal["fork", "base", ""] = ""
) -> MergedText | None:
    """What a fork and its workspace made of a text. None if git is not installed, or one of them is not a text.

    `scratch` is a folder for copies. `take` decides the lines that conflict; all others are merged.
    """
    favor = {"fork": "--theirs", "base": "--ours", "": "--diff3"}[take]
    with TemporaryDirectory(prefix="merge-", dir=scratch) as folder:
        return _merge_files(folder, base, ancestor, fork, ("workspace", "original", "fork"), favor)


def reverse_text(
    now: bytes, after: bytes, before: bytes, labels: tuple[str, str, str], favor: Literal["now", "before", ""] = ""
) -> MergedText | None:
    """A text as it is now without what a change did to it, from `before` to `after`; `labels` name the three.

    Where both touch the same lines is a conflict, unless one of them is favored. None as above.
    """
    option = {"now": "--ours", "before": "--theirs", "": "--diff3"}[favor]
    with TemporaryDirectory(prefix="handhold-undo-") as folder:
        ancestor = Path(folder, "ancestor")
        ancestor.write_bytes(after)
        return _merge_files(folder, now, ancestor, before, labels, option)


def _merge_files(
    folder: str, ours: bytes, ancestor: Path, theirs: bytes, labels: tuple[str, str, str], favor: str
) -> MergedText | None:
    git = find_git()
    if not git:
        return None
    first, second = Path(folder, "ours"), Path(folder, "theirs")
    first.write_bytes(ours)
    second.write_bytes(theirs)
    named = (part for label in labels for part in ("-L", label))
    command = (git, "merge-file", "--stdout", favor, *named, str(first), str(ancestor), str(second))
    done = run_program(command, cwd=folder, env=build_own_environment(**GIT_ENVIRONMENT))
    if not 0 <= done.returncode <= MAX_CONFLICTS:
        return None
    return MergedText(done.stdout, done.returncode > 0)
