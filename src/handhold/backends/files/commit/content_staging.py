"""Put contents into slots, so that they can be committed together with what a command left in others.

A new content gets the metadata of what it replaces, which waits in the same slot afterwards: so a redo restores it with
its inode and times.
"""

import os
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from handhold.backends.files.commit.file_metadata import READ_FLAGS, copy_metadata
from handhold.backends.files.commit.file_ops import CommitTree
from handhold.backends.files.manifest import read_entry_state
from handhold.backends.files.os_errors import translate_os_errors
from handhold.backends.files.staging_area import StagingArea
from handhold.core.errors import ContentDropped, NotFound, PermissionDenied, Stale
from handhold.core.plans import FileChange, InlineContent, StagedContent, hash_or_none

NEW_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def stage_changes(tree: CommitTree, changes: Sequence[FileChange]) -> Generator[Sequence[FileChange]]:
    with ExitStack() as created:
        yield [_stage(tree, change, created) for change in changes]


def _stage(tree: CommitTree, change: FileChange, created: ExitStack) -> FileChange:
    """The change with both sides in one slot: that of the old version, if a command left it, else a new one."""
    if isinstance(change.after, StagedContent):
        return replace(change, before=_describe(tree, change, change.after.slot), mode=None)
    area = tree.find_staging_area(change.path)
    if area is None:
        raise PermissionDenied(change.path, "nothing can be staged for this folder")
    command = area.create_folder()
    created.callback(area.drop, command)
    slot = f"{command}/1"
    before = _describe(tree, change, slot)
    if change.after is None:
        return replace(change, before=before, mode=None)
    if not isinstance(change.after, InlineContent):
        raise ContentDropped((change.path,))
    return FileChange(change.path, before, _write(tree, area, change, change.after.data, slot))


def _describe(tree: CommitTree, change: FileChange, slot: str) -> StagedContent | None:
    try:
        with tree.open_parent(change.path) as (directory, name), translate_os_errors(change.path):
            found = read_entry_state(name, dir_fd=directory, whole=True)
    except NotFound:
        found = None
    if hash_or_none(change.before) != (found.hash if found else None):
        raise Stale(change.path)
    return found and found.to_staged(slot)


def _write(tree: CommitTree, area: StagingArea, change: FileChange, data: bytes, slot: str) -> StagedContent:
    command, _, place = slot.partition("/")
    with ExitStack() as opened, translate_os_errors(change.path):
        folder = area.open_folder(command)
        opened.callback(os.close, folder)
        new = os.open(place, NEW_FLAGS, 0o600, dir_fd=folder)
        with os.fdopen(new, "wb") as file:
            file.write(data)
            file.flush()
            if change.before is not None:
                directory, name = opened.enter_context(tree.open_parent(change.path))
                old = os.open(name, READ_FLAGS, dir_fd=directory)
                opened.callback(os.close, old)
                if not copy_metadata(old, new, os.fstat(old)):
                    raise PermissionDenied(change.path, "a new version cannot get its owner and attributes")
            if change.mode is not None:
                os.fchmod(new, change.mode)
        state = read_entry_state(place, dir_fd=folder, whole=True)
    if state is None:
        raise Stale(change.path)
    return state.to_staged(slot)
