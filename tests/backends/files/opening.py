"""Workspaces for reading, with a chosen resolver."""

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Literal

import pytest

from handhold.backends.files.workspace import Workspace


class NoContents:
    """Reading needs no store."""

    def keep(self, contents: Iterable[bytes]) -> None: ...

    def get(self, hash: str) -> bytes | None:
        return None

    def has(self, hash: str) -> bool:
        return False

    def needed_slots(self, commands: Collection[str]) -> Collection[str]:
        return ()

    def dropped_slots(self, limit: int) -> Sequence[str]:
        return ()

    def forget_dropped_slots(self, commands: Collection[str]) -> None: ...

    def can_removal_wait(self) -> bool:
        return True


class Opener:
    """Opens workspaces with one resolver, and closes them."""

    def __init__(self, resolver: Literal["openat2", "walk"] | None) -> None:
        self.resolver: Literal["openat2", "walk"] | None = resolver
        self.opened: list[Workspace] = []

    def __call__(self, *roots: Path | str, read_only: Iterable[Path] = ()) -> Workspace:
        try:
            self.opened.append(Workspace(roots, NoContents(), self.resolver, read_only=tuple(read_only)))
        except NotImplementedError as missing:
            pytest.skip(str(missing))
        return self.opened[-1]
