"""Copy git objects out of a fork, as a fetch does.

They are no part of the change set: a later commit may use them, so an undo must not remove them. Without a ref that
leads to them they are harmless, and git removes them some day.
"""

import os
from collections.abc import Iterable
from secrets import token_hex

from handhold.backends.files.commit.syscalls import sync_file_system
from handhold.backends.files.commit.tree_copier import TreeCopier
from handhold.backends.forks.entries import TreeReader

TEMPORARY_PREFIX = "tmp_obj_"  # git removes such files if they are old


def add_objects(rels: Iterable[str], layer: TreeReader, base: TreeReader) -> None:
    """Copy these files to the root, durably. What is there already stays."""
    missing = [rel for rel in rels if base.stat(rel) is None]
    for rel in sorted(missing, key=lambda rel: (rel.endswith(".idx"), rel)):  # a pack counts once it has an index
        above, name = os.path.split(rel)
        if base.open_folder(above) < 0:
            around, folder = os.path.split(above)
            os.mkdir(folder, dir_fd=base.open_folder(around))
        temporary = f"{TEMPORARY_PREFIX}{token_hex(8)}"
        TreeCopier(base.open_folder(above)).copy(layer.open_folder(above), name, temporary)
        base.strip_xattrs(f"{above}/{temporary}")
        os.rename(temporary, name, src_dir_fd=base.open_folder(above), dst_dir_fd=base.open_folder(above))
    if missing:
        sync_file_system(base.top)
