"""Where state lives: one private folder a workspace, beneath the user's state directory."""

import os
import sys
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

ROOTS_FILE = "roots.txt"  # for people who wonder which folder is whose; nothing reads it
NAME_LENGTH = 16


def ensure_state_folder(state: Path | None, roots: Sequence[str]) -> Path:
    """The state folder of a workspace, made if it was not there. Links to a root lead to one folder."""
    real = [os.path.realpath(root) for root in roots]
    folder = state_folder_path(state, roots)
    ensure_private_folder(folder.parent)
    ensure_private_folder(folder)
    if folder.stat().st_mode & 0o077:  # it is ours by its name, whoever made it
        folder.chmod(0o700)
    roots_file = folder / ROOTS_FILE
    if not roots_file.exists():
        roots_file.write_bytes(b"".join(os.fsencode(root) + b"\n" for root in real))
    return folder


def state_folder_path(state: Path | None, roots: Sequence[str]) -> Path:
    """Where the state of a workspace is, or would be."""
    name = sha256(os.fsencode(os.path.realpath(roots[0]))).hexdigest()[:NAME_LENGTH]
    return (state or default_state_root()) / name


def default_state_root() -> Path:
    """The user's state directory; a relative XDG_STATE_HOME counts as none, as its standard says."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "handhold"
    home = os.environ.get("XDG_STATE_HOME", "")
    return (Path(home) if os.path.isabs(home) else Path.home() / ".local" / "state") / "handhold"


def ensure_private_folder(folder: Path) -> Path:
    """A folder, made for its owner alone if it was not there; one that was there may be somebody's for other things."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder
