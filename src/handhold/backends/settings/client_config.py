"""The configuration of another program: read completely, and replaced atomically.

A change to such a file is recorded in the user's state folder, so that it can be undone to the byte. The record has
positions, our own text, and what that replaced; nothing else from the file.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from handhold.backends.settings.settings_file import read_regular_file
from handhold.backends.state.state_folder import default_state_root, ensure_private_folder
from handhold.core.errors import SettingsBroken, Stale
from handhold.core.text.jsonc import TextEdit
from handhold.logs import log_swallowed

MAX_CONFIG_BYTES = 16 * 1024 * 1024  # one client keeps much else in the same file


@dataclass(frozen=True)
class InstallRecord:
    """A change to a file: the hash of the result, the edits in the order in which they were made, what they entered,
    and what did not exist before."""

    after: str
    layers: tuple[tuple[TextEdit, ...], ...]
    entered: tuple[Any, ...]
    made: bool
    folders: tuple[str, ...] = ()


def read_text(file: str, *, follow_links: bool) -> str | None:
    """None if it does not exist; raise SettingsBroken if it is not a file, or not text."""
    data = read_regular_file(file, follow_links=follow_links, max_bytes=MAX_CONFIG_BYTES)
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        raise SettingsBroken(file, "it is not UTF-8") from None


def replace_file(file: str, before: str | None, after: str) -> tuple[str, ...]:
    """Replace the text, and return the folders that were created. Raise Stale if the file has changed."""
    real = os.path.realpath(file)  # a link there stays a link
    folders = _find_missing_folders(real)
    os.makedirs(os.path.dirname(real), exist_ok=True)
    temporary = f"{real}.handhold-{os.getpid()}"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(fd, "wb") as opened:
            opened.write(after.encode())
            opened.flush()
            _copy_ownership(fd, real)
            os.fsync(fd)
        if read_text(real, follow_links=False) != before:
            raise Stale(file)
        os.replace(temporary, real)
    except BaseException:
        os.unlink(temporary)
        raise
    return folders


def remove_file(file: str, before: str, folders: Sequence[str]) -> None:
    """Remove a file that we created, and the folders created for it, if they are empty."""
    if read_text(file, follow_links=False) != before:
        raise Stale(file)
    os.unlink(file)
    for folder in reversed(folders):
        try:
            os.rmdir(folder)
        except OSError:
            log_swallowed()
            return


def _copy_ownership(fd: int, real: str) -> None:
    """Copy mode and owner of the replaced file; otherwise use those of a new file."""
    try:
        was = os.stat(real)
    except FileNotFoundError:
        umask = os.umask(0)
        os.umask(umask)
        return os.fchmod(fd, 0o666 & ~umask)
    if (was.st_uid, was.st_gid) != (os.geteuid(), os.getegid()):
        os.fchown(fd, was.st_uid, was.st_gid)
    return os.fchmod(fd, was.st_mode & 0o7777)


def _find_missing_folders(real: str) -> tuple[str, ...]:
    """Folders that do not exist, outermost first."""
    missing: list[str] = []
    folder = os.path.dirname(real)
    while not os.path.lexists(folder):
        missing.insert(0, folder)
        folder = os.path.dirname(folder)
    return tuple(missing)


# --- records


def save_record(file: str, name: str, record: InstallRecord | None) -> None:
    """Save the record; None removes it."""
    place = _locate_record(file, name)
    if record is None:
        return place.unlink(missing_ok=True)
    ensure_private_folder(place.parent)
    temporary = place.with_name(f"{place.name}.{os.getpid()}")
    temporary.write_text(json.dumps(asdict(record)), "utf-8")
    temporary.replace(place)
    return None


def load_record(file: str, name: str) -> InstallRecord | None:
    try:
        found = json.loads(_locate_record(file, name).read_text("utf-8"))
        layers = tuple(tuple(TextEdit(**each) for each in layer) for layer in found["layers"])
        return InstallRecord(found["after"], layers, tuple(found["entered"]), found["made"], tuple(found["folders"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None  # missing or unreadable: then only the file itself matters


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _locate_record(file: str, name: str) -> Path:
    key = os.fsencode(os.path.realpath(file)) + b"\0" + name.encode()
    return default_state_root() / "installed" / sha256(key).hexdigest()
