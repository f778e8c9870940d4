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
    """None if git is not installed, or one of them is not a text. `scratch` is a folder for copies.

    `take` decides the lines that conflict; all others are merged.
    """
    git = find_git()
    if not git:
        return None
    with TemporaryDirectory(prefix="merge-", dir=scratch) as folder:
        ours, theirs = Path(folder, "fork"), Path(folder, "base")
        ours.write_bytes(fork)
        theirs.write_bytes(base)
        labels = ("-L", "workspace", "-L", "original", "-L", "fork")
        favor = {"fork": ("--theirs",), "base": ("--ours",), "": ("--diff3",)}[take]
        command = (git, "merge-file", "--stdout", *favor, *labels, str(theirs), str(ancestor), str(ours))
        done = run_program(command, cwd=folder, env=build_own_environment(**GIT_ENVIRONMENT))
    if not 0 <= done.returncode <= MAX_CONFLICTS:
        return None
    return MergedText(done.stdout, done.returncode > 0)
