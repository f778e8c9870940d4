"""Which folders' settings a person has reviewed: by the folder's real path, and by the content of the file at that
time.

One small file per folder, so that two processes never write to the same one.
"""

import os
from hashlib import sha256
from pathlib import Path

from handhold.backends.descriptor_pool import EXHAUSTED_ERRNOS, to_exhausted_error
from handhold.backends.state.state_folder import default_state_root, ensure_private_folder
from handhold.logs import log_swallowed

DIGEST_LENGTH = 64  # in characters


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def read_trusted_digest(root: str) -> str | None:
    """The digest of the file that was trusted there; None if none was."""
    try:
        text = _record_path(root).read_text("utf-8", "replace")
    except OSError as error:
        if error.errno in EXHAUSTED_ERRNOS:
            raise to_exhausted_error(error, root) from error
        log_swallowed()
        return None
    found = text.partition("\n")[0]
    return found if len(found) == DIGEST_LENGTH else None


def record_trust(root: str, data: bytes) -> None:
    place = _record_path(root)
    ensure_private_folder(place.parent)
    beside = place.with_name(f"{place.name}.{os.getpid()}")
    beside.write_bytes(f"{digest(data)}\n".encode() + os.fsencode(os.path.realpath(root)) + b"\n")
    beside.replace(place)


def forget_trust(root: str) -> bool:
    """Return whether there was anything to forget."""
    try:
        _record_path(root).unlink()
    except FileNotFoundError:
        return False
    return True


def find_state_root() -> Path | None:
    """The user's state directory; None without a home, where anybody might control the substitute."""
    try:
        state = default_state_root()
    except RuntimeError:
        return None
    return state if state.is_absolute() else None


def _record_path(root: str) -> Path:
    state = find_state_root()
    if state is None:
        raise FileNotFoundError("there is no home folder to store it in")
    return state / "trusted" / digest(os.fsencode(os.path.realpath(root)))
