"""Masks: hide what a rule denies from commands, whatever program they run.

A file is covered by one that nobody can open, a folder by an empty one. Commands have no capabilities, so modes bind
root as well, and they cannot create a namespace in which a mount could be removed. Masked entries, and the folders
they are in, can be neither moved nor removed.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from handhold.backends.state.state_folder import ensure_private_folder
from handhold.core.errors import NoShell
from handhold.core.facts import SandboxStatus
from handhold.core.text.path_escaping import escape_path

MAX_MASKS = 500  # bubblewrap reads the whole mount list for each mount, so a thousand would take seconds
MAX_LISTED_PATHS = 100
MAX_EXAMPLE_PATHS = 5


def build_masks(denied_paths: Sequence[str], roots: Sequence[str], state: Path) -> Mapping[str, str]:
    """Map each path to what is mounted over it. Raise NoShell if that is impossible: then nothing may run."""
    if not denied_paths:
        return {}
    if len(denied_paths) > MAX_MASKS:
        raise NoShell(
            f"{len(denied_paths):,} files and folders may not be read,"
            f" but at most {MAX_MASKS} can be hidden from a command"
        )
    if denied_root := next((place for place in denied_paths if place in roots), ""):
        raise NoShell(f"{denied_root} may not be read, but it is the workspace itself")
    file, folder = create_mask_sources(state)
    return {place: folder if os.path.isdir(place) else file for place in denied_paths if os.path.lexists(place)}


def create_mask_sources(state: Path) -> tuple[str, str]:
    """An empty file and an empty folder that nobody can open."""
    sources = ensure_private_folder(state / "shut")
    file, folder = sources / "file", sources / "folder"
    if not os.path.lexists(file):
        os.close(os.open(file, os.O_CREAT | os.O_RDONLY | os.O_CLOEXEC, 0))
    folder.mkdir(0, exist_ok=True)
    return str(file), str(folder)


def add_hidden_paths(status: SandboxStatus, denied_paths: Sequence[str], first_root: str) -> SandboxStatus:
    """The status with the paths that were hidden."""
    names = tuple(format_path(place, first_root) for place in denied_paths[:MAX_LISTED_PATHS])
    return replace(status, hidden=names, hidden_total=len(denied_paths))


def explain_unhidden(denied_paths: Sequence[str], first_root: str) -> str:
    """Why an unsandboxed command is not run; empty if there is nothing to hide from it."""
    if not denied_paths:
        return ""
    names = ", ".join(format_path(place, first_root) for place in denied_paths[:MAX_EXAMPLE_PATHS])
    more = f" and {len(denied_paths) - MAX_EXAMPLE_PATHS:,} more" if len(denied_paths) > MAX_EXAMPLE_PATHS else ""
    return f"{names}{more} may not be read, but only a command in our own sandbox can be kept from reading it"


def format_path(place: str, first_root: str) -> str:
    return escape_path(place.removeprefix(first_root.rstrip("/") + "/"))
