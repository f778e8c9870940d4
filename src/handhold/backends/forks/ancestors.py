"""What a fork started from: for each path in its layer, the entry that the root had there.

An overlay does not say from which version of a file a change was made, and a root may change while a fork is mounted
and between mounts. So after each mount, what the root has now is recorded for every path that is new in the layer. It
is what the fork saw, if nobody changed it since the mount began: its ctime is older, and no folder above it was
replaced. Otherwise the ancestor is unknown, and a merge cannot take either side by itself.
"""

import json
import os
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from handhold.backends.forks.entries import Entry, Metadata, Stamp, TreeReader, make_stamp
from handhold.backends.forks.fork_layer import LayerItem
from handhold.backends.state.state_folder import ensure_private_folder
from handhold.logs import log_swallowed

MAX_TEXT_BYTES = 4 * 1024 * 1024  # larger files are not merged line by line
MAX_HASHED_DELETIONS = 5_000  # files in deleted folders; of further ones, only the identity is compared
BINARY_SAMPLE_BYTES = 8_000  # as git looks at to tell texts from other files


class Ancestor(NamedTuple):
    """What the fork started from at one path. Without `is_known`, nobody can tell."""

    entry: Entry | None  # None: nothing was there
    stamp: Stamp | None = None  # of the entry, when it was recorded
    is_known: bool = True


ABSENT = Ancestor(None)
UNKNOWN = Ancestor(None, is_known=False)


@dataclass
class RootAncestors:
    """The ancestors of one root's layer. `hidden` are paths below which the fork shows nothing of the root."""

    records: dict[str, Ancestor] = field(default_factory=dict[str, Ancestor])
    hidden: set[str] = field(default_factory=set[str])

    def get(self, rel: str) -> Ancestor:
        return self.records.get(rel, UNKNOWN)

    def update(self, items: Collection[LayerItem], base: TreeReader, texts: Path | None, started_ns: int) -> None:
        """Record what is new in the layer since the mount that began at `started_ns`. Idempotent.

        What the fork created is recorded as well: what the root gets there later is not its ancestor.
        Texts that the fork changed are copied to the folder `texts`, if there is one.
        """
        recorder = _Recorder(base, texts, started_ns)
        present, hidden = {item.rel for item in items}, {item.rel for item in items if item.hides_base}
        for item in items:
            if item.rel not in self.records:
                self.records[item.rel] = ABSENT if _is_below(item.rel, self.hidden) else recorder.record(item)
        for rel in sorted(hidden - self.hidden):
            for inner in _walk_folder(base, rel, self.hidden):
                if inner not in self.records:
                    self.records[inner] = recorder.record_deletion(inner)
        self.hidden = hidden
        gone = [rel for rel in self.records if rel not in present and not _is_below(rel, hidden)]
        for rel in gone:
            del self.records[rel]


class _Recorder:
    def __init__(self, base: TreeReader, texts: Path | None, started_ns: int) -> None:
        self._base = base
        self._texts = texts
        self._started_ns = started_ns
        self._hashed = 0
        self._moved: dict[str, bool] = {}  # folders, and whether somebody may have replaced them

    def record(self, item: LayerItem) -> Ancestor:
        found = self._base.stat(item.rel)
        if found is None:
            return UNKNOWN if item.is_copy and self._may_be_deleted(item.rel) else ABSENT
        if stat.S_ISDIR(found.st_mode):
            return self._record_folder(item, found)
        keeps_text = stat.S_ISREG(item.found.st_mode) and not item.is_deletion
        return self._record(item.rel, found, hashed=True, keeps_text=keeps_text)

    def record_deletion(self, rel: str) -> Ancestor:
        found = self._base.stat(rel)
        if found is None:
            return ABSENT
        self._hashed += 1
        return self._record(rel, found, hashed=self._hashed <= MAX_HASHED_DELETIONS, keeps_text=False)

    def _record_folder(self, item: LayerItem, found: os.stat_result) -> Ancestor:
        """A folder changes with everything in it, so its ctime counts only if the fork changed its mode."""
        if found.st_ctime_ns >= self._started_ns and found.st_mode != item.found.st_mode:
            return UNKNOWN
        return Ancestor(self._base.read(item.rel, found), make_stamp(found))

    def _record(self, rel: str, found: os.stat_result, *, hashed: bool, keeps_text: bool) -> Ancestor:
        is_folder = stat.S_ISDIR(found.st_mode)
        if (found.st_ctime_ns >= self._started_ns and not is_folder) or self._is_moved(os.path.dirname(rel)):
            return UNKNOWN
        try:
            entry = self._base.read(rel, found, hashed=hashed)
            if entry and entry.kind == "file" and keeps_text and self._texts is not None:
                keep_text(self._base, rel, entry, found, self._texts)
            now = self._base.stat(rel)
        except OSError:
            log_swallowed()
            return UNKNOWN
        if now is None or (make_stamp(now) != make_stamp(found) and not is_folder):
            return UNKNOWN
        return Ancestor(entry, make_stamp(found))

    def _may_be_deleted(self, rel: str) -> bool:
        """Whether somebody removed an entry from the nearest folder that is still there."""
        folder = os.path.dirname(rel)
        while (found := self._base.stat(folder)) is None:
            folder = os.path.dirname(folder)
        return found.st_ctime_ns >= self._started_ns

    def _is_moved(self, folder: str) -> bool:
        """Whether another folder may be here than when the mount began.

        A rename changes the ctimes of what is moved and of the folder around it. Both also change when somebody adds
        files here and there; then this is wrong, and a conflict is reported that is none.
        """
        if not folder:
            return False
        if (known := self._moved.get(folder)) is None:
            above = os.path.dirname(folder)
            found, around = self._base.stat(folder), self._base.stat(above)
            known = found is None or around is None or min(found.st_ctime_ns, around.st_ctime_ns) >= self._started_ns
            known = self._moved[folder] = known or self._is_moved(above)
        return known


def keep_text(base: TreeReader, rel: str, entry: Entry, found: os.stat_result, texts: Path) -> None:
    """Copy a file of the root to the folder `texts`, if it is a text."""
    if found.st_size > MAX_TEXT_BYTES:
        return
    data = base.read_bytes(rel)
    kept = texts / entry.hash
    if sha256(data).hexdigest() != entry.hash:  # somebody just changed it
        return
    if b"\0" not in data[:BINARY_SAMPLE_BYTES] and not kept.exists():
        ensure_private_folder(texts)
        write_atomically(kept, data)


def _walk_folder(base: TreeReader, rel: str, hidden: Collection[str]) -> Iterator[str]:
    """Everything that the root has below a path, except below what was hidden: the fork never saw that."""
    pending = [] if _is_below(rel, hidden) else [rel]
    while pending:
        folder = pending.pop()
        for name in base.list_names(folder):
            inner = f"{folder}/{name}"
            yield inner
            if inner not in hidden and (found := base.stat(inner)) and stat.S_ISDIR(found.st_mode):
                pending.append(inner)


def _is_below(rel: str, folders: Collection[str]) -> bool:
    while rel := os.path.dirname(rel):
        if rel in folders:
            return True
    return False


# --- on disk


def save_ancestors(file: Path, roots: Mapping[str, RootAncestors]) -> None:
    packed = {
        real: {
            "records": {rel: pack_ancestor(each) for rel, each in root.records.items()},
            "hidden": sorted(root.hidden),
        }
        for real, root in roots.items()
    }
    write_atomically(file, json.dumps(packed).encode())


def load_ancestors(file: Path) -> dict[str, RootAncestors]:
    try:
        packed = json.loads(file.read_bytes())
    except FileNotFoundError:
        return {}
    return {
        real: RootAncestors({rel: unpack_ancestor(each) for rel, each in root["records"].items()}, {*root["hidden"]})
        for real, root in packed.items()
    }


def pack_ancestor(ancestor: Ancestor) -> Any:
    if ancestor.entry is None:
        return ancestor.is_known
    entry, (mode, owner, attributes) = ancestor.entry, ancestor.entry.metadata
    return [entry.kind, mode, *owner, attributes, entry.hash, *(ancestor.stamp or ())]


def unpack_ancestor(packed: Any) -> Ancestor:
    if isinstance(packed, bool):
        return ABSENT if packed else UNKNOWN
    kind, mode, uid, gid, attributes, hash, *stamp = packed
    return Ancestor(Entry(kind, Metadata(mode, (uid, gid), attributes), hash), tuple(stamp) or None)


def write_atomically(file: Path, data: bytes) -> None:
    """Durably: a power loss leaves the old file or the new one."""
    temporary = file.with_name(f"{file.name}.new")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as target:
        target.write(data)
        target.flush()
        os.fsync(fd)
    os.rename(temporary, file)


def is_unchanged(ancestor: Ancestor, found: os.stat_result | None) -> bool:
    """Whether the root still has the recorded entry, by its identity; False if its content must be compared."""
    return found is not None and ancestor.stamp == make_stamp(found)
