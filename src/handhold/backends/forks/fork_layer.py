"""The layer of a fork: what was created, changed and deleted on top of one root."""

import os
import stat
from collections.abc import Iterator
from typing import NamedTuple

from handhold.backends.files.commit.file_metadata import list_xattrs
from handhold.backends.files.commit.tree_copier import force_open
from handhold.backends.forks.entries import TreeReader
from handhold.backends.shell.overlay_xattrs import (
    OPAQUE_XATTR,
    ORIGIN_XATTR,
    PARTIAL_COPY_XATTRS,
    WHITEOUT_XATTR,
    is_whiteout,
)
from handhold.backends.state.state_folder import FORK_STAGING_FOLDER
from handhold.core.errors import SystemFailure


class LayerItem(NamedTuple):
    """One path in a layer."""

    rel: str
    found: os.stat_result
    is_deletion: bool
    is_opaque: bool  # a folder that hides what the root has below this path
    is_copy: bool  # it was copied from the root, and perhaps moved since

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.found.st_mode)

    @property
    def hides_base(self) -> bool:
        """Whether nothing of the root is visible below this path."""
        return self.is_opaque or not self.is_folder


def walk_layer(reader: TreeReader) -> Iterator[LayerItem]:
    """Everything in a layer but our own staging area, folders before what they contain."""
    pending = [""]
    while pending:
        folder = pending.pop()
        for name in reader.list_names(folder):
            if not folder and name == FORK_STAGING_FOLDER:
                continue
            rel = f"{folder}/{name}" if folder else name
            item = _read_item(reader, rel)
            yield item
            if item.is_folder:
                pending.append(rel)


def _read_item(reader: TreeReader, rel: str) -> LayerItem:
    found = reader.stat(rel)
    assert found is not None  # the fork is locked, or a program in it just removed the entry: then it is asked again
    if is_whiteout(found):
        return LayerItem(rel, found, is_deletion=True, is_opaque=False, is_copy=False)
    if not stat.S_ISDIR(found.st_mode) and not stat.S_ISREG(found.st_mode):
        return LayerItem(rel, found, is_deletion=False, is_opaque=False, is_copy=False)
    above, name = os.path.split(rel)
    fd = force_open(reader.open_folder(above), name, found)
    try:
        names = list_xattrs(fd)
        if not PARTIAL_COPY_XATTRS.isdisjoint(names):
            raise SystemFailure(rel, "the overlay kept only part of it")
        opaque = OPAQUE_XATTR in names and stat.S_ISDIR(found.st_mode) and os.getxattr(fd, OPAQUE_XATTR) == b"y"
    finally:
        os.close(fd)
    deleted = WHITEOUT_XATTR in names and not found.st_size and stat.S_ISREG(found.st_mode)
    return LayerItem(rel, found, deleted, opaque, ORIGIN_XATTR in names)
