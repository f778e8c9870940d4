"""The token for a hub: from the environment, or from a file that may be replaced at any time."""

import os
from collections.abc import Sequence

from handhold.backends.settings.settings_file import read_regular_file
from handhold.core.errors import SettingsBroken

TOKEN_VARIABLE = "HANDHOLD_HUB_TOKEN"
FILE_VARIABLE = "HANDHOLD_HUB_TOKEN_FILE"


class HubToken:
    """Thread-safe. A file is read for each request, so a new token is used without a restart."""

    def __init__(self) -> None:
        self._file = os.environ.get(FILE_VARIABLE, "")
        self._token = os.environ.get(TOKEN_VARIABLE, "")
        if not (self._file or self._token):
            raise SettingsBroken("the environment", f"a hub needs a token in {TOKEN_VARIABLE} or {FILE_VARIABLE}")

    @property
    def files(self) -> tuple[str, ...]:
        return (os.path.realpath(self._file),) if self._file else ()

    def check_place(self, roots: Sequence[str]) -> None:
        """SettingsBroken if tools could read the token's file."""
        for root in roots:
            if self.files and self.files[0].startswith(os.path.realpath(root).rstrip("/") + "/"):
                raise SettingsBroken(self._file, "the hub's token must not be in the workspace: tools could read it")

    def read(self) -> str:
        data = read_regular_file(self._file, follow_links=True) if self._file else self._token.encode()
        words = (data or b"").split()
        if len(words) != 1 or not words[0].isascii():
            raise SettingsBroken(self._file or TOKEN_VARIABLE, "there is no token in it, or more than that")
        return words[0].decode("ascii")
