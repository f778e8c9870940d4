"""The folders of a session in the state."""

import os
import re
import stat
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from handhold.backends.shell import host_paths
from handhold.backends.shell.cleanup import mark_used
from handhold.backends.state.state_folder import ensure_private_folder
from handhold.logs import log_swallowed, suppress_and_log

# The address of a Unix socket has room for 107 bytes, and programs add up to 50 to the folder for temporary files.
MAX_TMP_BYTES = 56
SHORT_PREFIX = "handhold-"
PLAIN_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,63}", re.ASCII)


@dataclass(frozen=True)
class SessionFolders:
    """A session's folders in the state: its /tmp, its HOME, and outputs that were too long to show."""

    state: Path
    session: str

    @property
    def tmp(self) -> str:
        name = self.session
        if not PLAIN_NAME.fullmatch(name):
            name = sha256(os.fsencode(name)).hexdigest()[:32]
        folder = self.state / "sessions" / name
        tmp = ensure_private_folder(folder / "tmp")
        mark_used(folder)
        return str(tmp)

    @property
    def home(self) -> str:
        return str(ensure_private_folder(self.state / "home"))

    @property
    def results(self) -> Path:
        return ensure_private_folder(self.state / "results")


def shorten_tmp(tmp: str) -> str:
    """The same folder by a path in which programs can create Unix sockets: a link in the machine's /tmp."""
    if len(os.fsencode(tmp)) <= MAX_TMP_BYTES:
        return tmp
    link = f"{host_paths.TMP}/{SHORT_PREFIX}{sha256(os.fsencode(tmp)).hexdigest()[:12]}"
    try:
        if not os.path.lexists(link):
            _remove_dangling_links()
            with suppress(FileExistsError):  # another process did
                os.symlink(tmp, link)
        # In a folder where only the owner of an entry may replace it.
        if _is_own_link(link) and os.stat(host_paths.TMP).st_mode & stat.S_ISVTX and os.readlink(link) == tmp:
            return link
    except OSError:
        log_swallowed()
    return tmp


def _is_own_link(path: str) -> bool:
    found = os.lstat(path)
    return stat.S_ISLNK(found.st_mode) and found.st_uid == os.geteuid()


def _remove_dangling_links() -> None:
    """Those of sessions whose folders have been removed."""
    with os.scandir(host_paths.TMP) as entries:
        links = [entry.path for entry in entries if entry.name.startswith(SHORT_PREFIX) and entry.is_symlink()]
    for link in links:
        with suppress_and_log(OSError):
            if _is_own_link(link) and not os.path.exists(link):
                os.unlink(link)
