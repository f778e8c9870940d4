"""The effects of a command on several roots, as one; the same for an overlay and for the broker."""

import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Protocol

from handhold.backends.files.os_errors import translate_os_errors
from handhold.backends.files.staging_area import StagingArea
from handhold.backends.shell.layer_extraction import LayerExtractor
from handhold.core.plans import Conflict, Effects, FileChange, FolderMtime, StagedContent


class RootEffects(Protocol):
    """What a command did below one root."""

    @property
    def files(self) -> Sequence[FileChange]: ...
    @property
    def conflicts(self) -> Sequence[Conflict]: ...
    @property
    def protected(self) -> Collection[str]: ...
    @property
    def privileged(self) -> Collection[str]: ...
    @property
    def notes(self) -> Sequence[str]: ...
    @property
    def times(self) -> Sequence[FolderMtime]: ...


class RootSlots(Protocol):
    """Where the slots of a command for one root are."""

    @property
    def staging_area(self) -> StagingArea: ...
    @property
    def command(self) -> str: ...


def join_effects(roots: Sequence[RootEffects], notes: Sequence[str] = (), refused: Sequence[str] = ()) -> Effects:
    return Effects(
        tuple(sorted((change for each in roots for change in each.files), key=lambda change: change.path)),
        tuple(sorted((conflict for each in roots for conflict in each.conflicts), key=lambda conflict: conflict.path)),
        tuple(sorted({path for each in roots for path in each.protected})),
        tuple(sorted({path for each in roots for path in each.privileged})),
        (*(note for each in roots for note in each.notes), *notes),
        tuple(time for each in roots for time in each.times),
        tuple(refused),
    )


def set_aside(change: FileChange, roots: Sequence[RootSlots], scratch: Path) -> Conflict:
    """Keep the command's version of a conflicting change where it can be read, outside its slot."""
    if not isinstance(change.after, StagedContent):
        return Conflict(change.path, "mode" if change.after else "deleted")
    command, slot = change.after.slot.split("/")
    slots = next(each for each in roots if each.command == command)
    with translate_os_errors(change.path):
        folder = slots.staging_area.open_folder(command)
        try:
            extractor = LayerExtractor(folder, command, scratch / "conflicts")
            return Conflict(change.path, "changed", extractor.move_aside(folder, slot, os.path.basename(change.path)))
        finally:
            os.close(folder)
