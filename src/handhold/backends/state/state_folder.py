"""Where state is stored: one private folder per workspace, below the user's state directory."""

import os
import sys
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path

ROOTS_FILE = "roots.txt"  # tells people which folder belongs to which roots; nothing reads it
FORK_FILE = "fork.txt"  # in the state that programs in a fork see: the name of the fork
FORK_STAGING_FOLDER = ".handhold-fork"  # the staging area in a fork, in each root
NAME_LENGTH = 16


def ensure_state_folder(state: Path | None, roots: Sequence[str]) -> Path:
    """The state folder of a workspace, created if missing. Links to a root share its folder."""
    real = [os.path.realpath(root) for root in roots]
    folder = state_folder_path(state, roots)
    ensure_private_folder(folder.parent)
    ensure_private_folder(folder)
    if folder.stat().st_mode & 0o077:  # the name makes it ours, whoever created it
        folder.chmod(0o700)
    roots_file = folder / ROOTS_FILE
    if not roots_file.exists():
        roots_file.write_bytes(b"".join(os.fsencode(root) + b"\n" for root in real))
    return folder


def state_folder_path(state: Path | None, roots: Sequence[str]) -> Path:
    """Where the state of a workspace is, or would be: absolute, as programs with other working directories use it."""
    name = sha256(os.fsencode(os.path.realpath(roots[0]))).hexdigest()[:NAME_LENGTH]
    return Path(os.path.abspath(state or default_state_root())) / name


def list_states_above(folder: Path, state: Path | None) -> Iterator[tuple[Path, Path]]:
    """The folders that contain this one and have a state, outermost first; each with its state folder."""
    for above in reversed(folder.resolve().parents):
        place = state_folder_path(state, [str(above)])
        if place.exists():
            yield above, place


def default_state_root() -> Path:
    """The user's state directory; a relative XDG_STATE_HOME is ignored, as the standard requires."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "handhold"
    home = os.environ.get("XDG_STATE_HOME", "")
    return (Path(home) if os.path.isabs(home) else Path.home() / ".local" / "state") / "handhold"


def find_surrounding_fork(state: Path) -> str:
    """The fork that this process runs in; empty if it runs in none."""
    try:
        return os.fsdecode((state / FORK_FILE).read_bytes()).strip()
    except FileNotFoundError:
        return ""


def ensure_private_folder(folder: Path) -> Path:
    """Create a folder that only its owner can access; an existing one keeps its mode."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder
