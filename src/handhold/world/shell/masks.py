"""Masks: what a rule forbids to read is out of a command's reach too, whatever program it starts.

Over each such file something is mounted that nobody can open, over each such folder an empty one. Inside there are no
capabilities, so modes hold for root as well; and no namespace can be made in which a mount could be taken off again.
What is masked can be neither moved nor removed, and no folder that it lies in.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from handhold.core.errors import NoShell
from handhold.core.facts import Held
from handhold.core.text.names import escaped
from handhold.world.state.folder import private

MOST = 500  # for each mount bubblewrap reads the list of all, so a thousand would take seconds
MOST_TOLD = 100
FEW = 5


def masks(denied: Sequence[str], roots: Sequence[str], state: Path) -> Mapping[str, str]:
    """What to mount where. NoShell if that cannot be, and then nothing may run."""
    if not denied:
        return {}
    if len(denied) > MOST:
        raise NoShell(
            f"{len(denied):,} files and folders may not be read, and at most {MOST} can be hidden from a command"
        )
    if whole := next((place for place in denied if place in roots), ""):
        raise NoShell(f"{whole} may not be read, and it is the workspace itself")
    file, folder = closed(state)
    return {place: folder if os.path.isdir(place) else file for place in denied if os.path.lexists(place)}


def closed(state: Path) -> tuple[str, str]:
    """A file and a folder, both empty, that nobody can open."""
    shut = private(state / "shut")
    file, folder = shut / "file", shut / "folder"
    if not os.path.lexists(file):
        os.close(os.open(file, os.O_CREAT | os.O_RDONLY | os.O_CLOEXEC, 0))
    folder.mkdir(0, exist_ok=True)
    return str(file), str(folder)


def told(held: Held, denied: Sequence[str], first: str) -> Held:
    """With what was hidden."""
    names = tuple(named(place, first) for place in denied[:MOST_TOLD])
    return replace(held, hidden=names, hidden_total=len(denied))


def unhidden(denied: Sequence[str], first: str) -> str:
    """Why a command that nothing contains is not run; empty if there is nothing that it must not see."""
    if not denied:
        return ""
    names = ", ".join(named(place, first) for place in denied[:FEW])
    more = f" and {len(denied) - FEW:,} more" if len(denied) > FEW else ""
    return f"{names}{more} may not be read, and only a command that we contain ourselves can be kept from it"


def named(place: str, first: str) -> str:
    return escaped(place.removeprefix(first.rstrip("/") + "/"))
