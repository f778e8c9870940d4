"""Masks: what a rule forbids to read is out of a command's reach too, whatever program it starts.

Over each such file something is mounted that nobody can open, over each such folder an empty one. Inside there are no
capabilities, so modes hold for root as well; and no namespace can be made in which a mount could be taken off again.
What is masked can be neither moved nor removed, and no folder that it lies in.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from handhold.backends.state.state_folder import ensure_private_folder
from handhold.core.errors import NoShell
from handhold.core.facts import SandboxStatus
from handhold.core.text.path_escaping import escape_path

MAX_MASKS = 500  # for each mount bubblewrap reads the list of all, so a thousand would take seconds
MAX_LISTED_PATHS = 100
MAX_EXAMPLE_PATHS = 5


def build_masks(denied_paths: Sequence[str], roots: Sequence[str], state: Path) -> Mapping[str, str]:
    """What to mount where. NoShell if that cannot be, and then nothing may run."""
    if not denied_paths:
        return {}
    if len(denied_paths) > MAX_MASKS:
        raise NoShell(
            f"{len(denied_paths):,} files and folders may not be read,"
            f" and at most {MAX_MASKS} can be hidden from a command"
        )
    if denied_root := next((place for place in denied_paths if place in roots), ""):
        raise NoShell(f"{denied_root} may not be read, and it is the workspace itself")
    file, folder = create_mask_sources(state)
    return {place: folder if os.path.isdir(place) else file for place in denied_paths if os.path.lexists(place)}


def create_mask_sources(state: Path) -> tuple[str, str]:
    """A file and a folder, both empty, that nobody can open."""
    sources = ensure_private_folder(state / "shut")
    file, folder = sources / "file", sources / "folder"
    if not os.path.lexists(file):
        os.close(os.open(file, os.O_CREAT | os.O_RDONLY | os.O_CLOEXEC, 0))
    folder.mkdir(0, exist_ok=True)
    return str(file), str(folder)


def add_hidden_paths(status: SandboxStatus, denied_paths: Sequence[str], first_root: str) -> SandboxStatus:
    """With what was hidden."""
    names = tuple(format_path(place, first_root) for place in denied_paths[:MAX_LISTED_PATHS])
    return replace(status, hidden=names, hidden_total=len(denied_paths))


def explain_unhidden(denied_paths: Sequence[str], first_root: str) -> str:
    """Why a command that nothing contains is not run; empty if there is nothing that it must not see."""
    if not denied_paths:
        return ""
    names = ", ".join(format_path(place, first_root) for place in denied_paths[:MAX_EXAMPLE_PATHS])
    more = f" and {len(denied_paths) - MAX_EXAMPLE_PATHS:,} more" if len(denied_paths) > MAX_EXAMPLE_PATHS else ""
    return f"{names}{more} may not be read, and only a command that we contain ourselves can be kept from it"


def format_path(place: str, first_root: str) -> str:
    return escape_path(place.removeprefix(first_root.rstrip("/") + "/"))
