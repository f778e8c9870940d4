"""The folders of a session in the state."""

import os
import re
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from handhold.backends.shell.cleanup import mark_used
from handhold.backends.state.state_folder import ensure_private_folder

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
