"""What a fork changed, by file, for people: compared with what it started from, whatever the root has now."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from handhold.backends.forks.ancestors import MAX_TEXT_BYTES, Ancestor, RootAncestors, is_unchanged
from handhold.backends.forks.entries import Entry, TreeReader
from handhold.backends.forks.fork_layer import LayerItem
from handhold.core.plans import Content, ContentRef, InlineContent


class ForkChange(NamedTuple):
    """A file that a fork changed. The modes differ if only they changed."""

    rel: str
    before: Content | None
    after: Content | None
    old_mode: int | None
    new_mode: int | None


class ForkContents(NamedTuple):
    """All that a fork changed."""

    diff: str  # bounded
    hashes: Mapping[str, str]  # of what it has now, by path as in the diff: of all files that may be read
    digest: str  # of everything in the fork, shown or not


def list_changes(
    paths: Collection[str],
    items: Sequence[LayerItem],
    layer: TreeReader,
    base: TreeReader,
    ancestors: RootAncestors,
    texts: Path,
) -> Iterator[ForkChange]:
    """Each of these files that the fork created, changed or deleted."""
    by_path = {item.rel: item for item in items}
    for rel in sorted(paths):
        item, ancestor = by_path.get(rel), ancestors.get(rel)
        after = None if item is None or item.is_deletion else layer.read(rel, item.found)
        if ancestor.is_known and ancestor.entry == after:
            continue
        before = _read_before(rel, ancestor, base, texts)
        content = None if after is None else _read_content(layer, rel, after)
        if before is not None or content is not None:
            yield ForkChange(rel, before, content, _get_mode(ancestor.entry), _get_mode(after))


def _get_mode(entry: Entry | None) -> int | None:
    return entry.metadata.mode if entry else None


def _read_before(rel: str, ancestor: Ancestor, base: TreeReader, texts: Path) -> Content | None:
    """What the fork started from: the kept text, or what the root has, if it is the same or nobody knows better."""
    entry = ancestor.entry
    if entry is not None and entry.kind == "file" and (kept := texts / entry.hash).exists():
        return InlineContent(kept.read_bytes())
    if ancestor.is_known and entry is None:
        return None
    found = base.stat(rel)
    now = base.read(rel, found)
    if entry is not None and not is_unchanged(ancestor, found) and now != entry:
        return None if entry.kind == "folder" else ContentRef(entry.hash, 0)
    return None if now is None else _read_content(base, rel, now)


def _read_content(reader: TreeReader, rel: str, entry: Entry) -> Content | None:
    """None for folders and special files, which have no content."""
    found = reader.stat(rel)
    if entry.kind not in ("file", "link") or found is None:
        return None
    return (
        InlineContent(reader.read_bytes(rel))
        if found.st_size <= MAX_TEXT_BYTES
        else ContentRef(entry.hash, found.st_size)
    )
