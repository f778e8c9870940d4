"""Which folders' settings a person has looked at: by the folder's real path, and by what the file held then.

One small file a folder, so that two processes never write the same one by halves.
"""

import os
from hashlib import sha256
from pathlib import Path

from handhold.world.state.folder import default_state, private

LENGTH = 64  # of a digest, in letters


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def recorded(root: str) -> str | None:
    """The digest of the file that was trusted there; None if none was."""
    try:
        text = _record(root).read_text("utf-8", "replace")
    except OSError:
        return None
    found = text.partition("\n")[0]
    return found if len(found) == LENGTH else None


def record(root: str, data: bytes) -> None:
    place = _record(root)
    private(place.parent)
    beside = place.with_name(f"{place.name}.{os.getpid()}")
    beside.write_bytes(f"{digest(data)}\n".encode() + os.fsencode(os.path.realpath(root)) + b"\n")
    beside.replace(place)


def forget(root: str) -> bool:
    """Whether there was anything to forget."""
    try:
        _record(root).unlink()
    except FileNotFoundError:
        return False
    return True


def folder() -> Path | None:
    """Where the user's state is; None if they have no home, and what stands in its place may be anybody's."""
    try:
        state = default_state()
    except RuntimeError:
        return None
    return state if state.is_absolute() else None


def _record(root: str) -> Path:
    state = folder()
    if state is None:
        raise FileNotFoundError("there is no home to remember it in")
    return state / "trusted" / digest(os.fsencode(os.path.realpath(root)))
