"""Forks without an overlay: each root is copied, and what a program changed is found by comparing the copy with a list
of what was copied.

The blocks of files are shared where the file system can do that. What the root had at a changed path is known as long
as nobody changed it there since it was copied; afterwards a change in both is a conflict.
"""

import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from handhold.backends.files.commit.tree_copier import TreeCopier
from handhold.backends.files.staging_area import LIST_FLAGS
from handhold.backends.forks.ancestors import ABSENT, UNKNOWN, Ancestor, RootAncestors, keep_text, write_atomically
from handhold.backends.forks.entries import Stamp, TreeReader, make_stamp
from handhold.backends.forks.fork_layer import LayerItem
from handhold.backends.forks.tree_merge import iterate_parents
from handhold.backends.state.state_folder import FORK_STAGING_FOLDER


class CopiedEntry(NamedTuple):
    """An entry when it was copied: in the root, and the copy. None: somebody changed the root's meanwhile."""

    base: Stamp | None
    copy: Stamp


Manifest = Mapping[str, CopiedEntry]  # by path


def measure_tree(folder: str) -> tuple[int, int]:
    """How many files there are, and how many bytes they have."""
    count = size = 0
    pending = [folder]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                else:
                    count, size = count + 1, size + entry.stat(follow_symlinks=False).st_size
    return count, size


def copy_root(real: str, target: str, manifest: Path, started_ns: int) -> None:
    """Copy a root. `started_ns` is the time by its clock."""
    above, name = os.path.split(target)
    into = os.open(above, LIST_FLAGS)
    try:
        top = os.open(os.path.dirname(real), LIST_FLAGS)
        try:
            TreeCopier(into).copy(top, os.path.basename(real), name)
        finally:
            os.close(top)
    finally:
        os.close(into)
    fds = [os.open(folder, LIST_FLAGS) for folder in (real, target)]
    try:
        with TreeReader(fds[0]) as base, TreeReader(fds[1]) as copy:
            copied = {rel: (_stamp_base(base.stat(rel), started_ns), _stamp(found)) for rel, found in _walk(copy)}
    finally:
        for fd in fds:
            os.close(fd)
    write_atomically(manifest, json.dumps(copied).encode())


def load_manifest(file: Path) -> Manifest:
    copied = json.loads(file.read_bytes())
    return {rel: CopiedEntry(tuple(base) if base else None, tuple(copy)) for rel, (base, copy) in copied.items()}


def list_changed(copy: TreeReader, manifest: Manifest) -> list[LayerItem]:
    """What is not as it was copied, as the items of a layer: with the folders around it, and without what is equal."""
    present = dict(_walk(copy))
    changed = {rel for rel, found in present.items() if rel not in manifest or manifest[rel].copy != _stamp(found)}
    changed |= manifest.keys() - present.keys()
    changed |= {above for rel in changed for above in iterate_parents(rel)}
    nothing = os.stat_result((0,) * 10)
    return [
        LayerItem(rel, present.get(rel, nothing), rel not in present, is_opaque=False, is_copy=rel in manifest)
        for rel in sorted(changed)
    ]


def record_copy(
    known: RootAncestors,
    items: Sequence[LayerItem],
    manifest: Manifest,
    copy: TreeReader,
    base: TreeReader,
    texts: Path | None,
) -> None:
    """Record what the root had where the copy was changed."""
    present = {item.rel for item in items}
    known.records = {rel: ancestor for rel, ancestor in known.records.items() if rel in present}
    for item in items:
        if item.rel not in known.records:
            known.records[item.rel] = _find_ancestor(item, manifest.get(item.rel), copy, base, texts)


def _find_ancestor(
    item: LayerItem, copied: CopiedEntry | None, copy: TreeReader, base: TreeReader, texts: Path | None
) -> Ancestor:
    if copied is None:
        return ABSENT
    if item.is_folder and copied.copy == _stamp(item.found):
        return Ancestor(copy.read(item.rel, item.found))
    found = base.stat(item.rel)
    if found is None or copied.base is None or copied.base != _stamp_base(found):
        return UNKNOWN
    entry = base.read(item.rel, found)
    if entry and entry.kind == "file" and texts:
        keep_text(base, item.rel, entry, found, texts)
    now = base.stat(item.rel)
    return Ancestor(entry, make_stamp(found)) if now and _stamp_base(now) == copied.base else UNKNOWN


def _walk(reader: TreeReader) -> Iterator[tuple[str, os.stat_result]]:
    pending = [""]
    while pending:
        folder = pending.pop()
        for name in reader.list_names(folder):
            if not folder and name == FORK_STAGING_FOLDER:
                continue
            rel = f"{folder}/{name}" if folder else name
            if (found := reader.stat(rel)) is not None:
                yield rel, found
                if stat.S_ISDIR(found.st_mode):
                    pending.append(rel)


def _stamp(found: os.stat_result) -> Stamp:
    """A folder changes with everything in it, so only its mode and owner count."""
    if stat.S_ISDIR(found.st_mode):
        return found.st_mode, found.st_uid, found.st_gid
    return make_stamp(found)[1:]  # without the device, which may have another number after a restart


def _stamp_base(found: os.stat_result | None, started_ns: int | None = None) -> Stamp | None:
    if found is None or (started_ns and not stat.S_ISDIR(found.st_mode) and found.st_ctime_ns >= started_ns):
        return None
    return _stamp(found)
