"""What snapshots promise, kept independently of them: what was at each path, and what each entry recorded.

The model reads the disk itself and compares trees itself. From the journal it takes only which paths an entry has, and
the hashes of its contents, which it checks.
"""

import json
import os
import stat
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import combinations, count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, NamedTuple

from handhold import Toolbox
from handhold.core.plans import DirectoryMetadata, FileChange, StagedContent
from handhold.core.ports.journal import JournalEntry
from handhold.core.text.path_escaping import unescape_ambiguous


class Node(NamedTuple):
    """One entry of a tree. What it looks like does not tell which names are one file; `file` does, in one tree."""

    kind: Literal["file", "folder", "link"]
    mode: int
    data: bytes
    inode: int
    file: int  # inode numbers are used again, so each tree has numbers of its own

    @property
    def look(self) -> tuple[str, int, bytes]:
        return self.kind, self.mode, self.data


Tree = dict[bytes, Node]
NEW_FOLDER = Node("folder", 0o755, b"", 0, 0)


def observe(root: bytes, below: bytes = b"", files: Mapping[int, int] | None = None) -> Tree:
    found: Tree = {}
    files = number_files() if files is None else files
    for name in sorted(os.listdir(os.path.join(root, below))):
        path = os.path.join(below, name)
        place = os.path.join(root, path)
        status = os.lstat(place)
        mode = stat.S_IMODE(status.st_mode)
        if stat.S_ISDIR(status.st_mode):
            found[path] = Node("folder", mode, b"", status.st_ino, 0)
            found |= observe(root, path, files)
        elif stat.S_ISLNK(status.st_mode):
            found[path] = Node("link", 0, os.readlink(place), status.st_ino, 0)
        else:
            with open(place, "rb") as file:
                found[path] = Node("file", mode, file.read(), status.st_ino, files[status.st_ino])
    return found


_numbers = count(1)


def number_files() -> Mapping[int, int]:
    return defaultdict(lambda: next(_numbers))


def is_same(tree: Tree, other: Tree) -> bool:
    """Whether nothing at all was done in between."""
    return {path: node[:4] for path, node in tree.items()} == {path: node[:4] for path, node in other.items()}


def part(tree: Tree, path: bytes) -> Tree:
    """The entry at a path and everything below it."""
    return {each: node for each, node in tree.items() if each == path or each.startswith(path + b"/")}


def looks(tree: Tree) -> dict[bytes, tuple[str, int, bytes]]:
    return {path: node.look for path, node in tree.items()}


def contents(tree: Tree) -> dict[bytes, tuple[str, bytes]]:
    return {path: (node.kind, node.data) for path, node in tree.items()}


@dataclass(frozen=True)
class Transition:
    """One path before and after. Of a folder that stays, only its mode changes."""

    path: bytes
    before: Tree
    after: Tree
    only_mode: bool = False
    is_made: bool = False  # a folder that our own tools made for a file: it goes only if it is empty

    def invert(self) -> "Transition":
        return Transition(self.path, self.after, self.before, self.only_mode, self.is_made)

    def is_at(self, tree: Tree, *, ignore_modes: bool) -> bool:
        """Whether a tree is what this transition starts from."""
        above = [folder for folder in _parents(self.path) if folder in tree or not ignore_modes]
        if self.after and not all(_is_folder(tree, folder) for folder in above):
            return False
        now = tree.get(self.path)
        if self.is_made:
            return now is None if not self.before else now is not None and now.kind == "folder"
        if self.only_mode:
            return now is not None and now.look == self.before[self.path].look
        there = part(tree, self.path)
        return contents(there) == contents(self.before) if ignore_modes else looks(there) == looks(self.before)

    def is_done(self, tree: Tree, *, ignore_modes: bool) -> bool:
        """Whether a tree is already what this transition leads to: then there is nothing to do, and nothing to lose."""
        return replace(self, before=self.after).is_at(tree, ignore_modes=ignore_modes)

    def apply(self, tree: Tree) -> Tree:
        now = part(tree, self.path)
        if self.only_mode:
            return {**tree, self.path: tree[self.path]._replace(mode=self.after[self.path].mode)}
        if self.is_made and len(now) > 1:
            return tree
        return {path: node for path, node in tree.items() if path not in now} | self.after


def _both_files(one: Node | None, other: Node) -> bool:
    return one is not None and one.kind == other.kind == "file"


def adapt(transition: Transition, tree: Tree, *, keeps_modes: bool) -> list[Transition] | None:
    """What this transition is in a tree where something may have come later: itself, nothing if it is done, or a text
    that has what came later as well. None if what came later would be lost."""
    if transition.is_at(tree, ignore_modes=keeps_modes):
        return [transition]
    if transition.is_done(tree, ignore_modes=keeps_modes):
        return []
    path = transition.path
    left, old, now = transition.before.get(path), transition.after.get(path), tree.get(path)
    if left is None or old is None or now is None or {left.kind, old.kind, now.kind} != {"file"}:
        return None
    mode = now.mode if keeps_modes or left.mode == old.mode else old.mode
    if mode != now.mode and now.mode != left.mode:
        return None
    data = merge(now.data, left.data, old.data)
    return None if data is None else [Transition(path, {path: now}, {path: now._replace(mode=mode, data=data)})]


def merge(now: bytes, left: bytes, old: bytes) -> bytes | None:
    """A text as it is now, with what led from `old` to `left` reversed; None if both touch the same lines."""
    with TemporaryDirectory() as folder:
        places = [Path(folder, name) for name in ("now", "left", "old")]
        for place, data in zip(places, (now, left, old), strict=True):
            place.write_bytes(data)
        done = subprocess.run(["git", "merge-file", "--stdout", *places], cwd=folder, capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else None


def compare(old: Tree, new: Tree) -> dict[bytes, Transition]:
    """The transitions from one tree to the other: whole subtrees, unless a folder stays a folder."""
    found: dict[bytes, Transition] = {}
    for path in sorted(old.keys() | new.keys()):
        above = path.rpartition(b"/")[0]
        if above and not (_is_folder(old, above) and _is_folder(new, above)):
            continue  # part of what is above it
        one, other = old.get(path), new.get(path)
        if one is not None and other is not None and one.look == other.look:
            continue
        if _is_folder(old, path) and _is_folder(new, path):
            found[path] = Transition(path, {path: old[path]}, {path: new[path]}, only_mode=True)
        else:
            found[path] = Transition(path, part(old, path), part(new, path))
    return found


def pair_names(tree: Tree) -> set[tuple[bytes, bytes]]:
    """Which names are one file."""
    names = defaultdict[int, list[bytes]](list)
    for path, node in tree.items():
        if node.kind == "file":
            names[node.file].append(path)
    return {pair for each in names.values() for pair in combinations(sorted(each), 2)}


def _is_folder(tree: Tree, path: bytes) -> bool:
    return path in tree and tree[path].kind == "folder"


@dataclass
class Booked:
    """An entry of the journal, as the model understood it when it was recorded."""

    seq: int
    transitions: list[Transition]
    session: str
    keeps_modes: bool = False  # our own tools write contents; modes stay


@dataclass
class OpenedWindow:
    session: str
    call_id: str
    paths: tuple[bytes, ...] | None


class LaterChange(NamedTuple):
    path: bytes
    is_lost: bool  # else it is merged


class Violation(AssertionError):
    pass


def check(is_right: object, *what: object) -> None:
    if not is_right:
        raise Violation(*what)


@dataclass
class Model:
    """Follows one workspace and its journal."""

    root: Path
    baseline: Tree = field(default_factory=Tree)
    booked: dict[int, Booked] = field(default_factory=dict[int, Booked])
    windows: list[OpenedWindow] = field(default_factory=list[OpenedWindow])
    paired: set[tuple[bytes, bytes]] = field(default_factory=set[tuple[bytes, bytes]])  # names that were ever one file
    last: int = 0  # entries up to this one are known
    not_kept: int = 0  # paths that could not be undone
    undone: int = 0  # undos and redos that were carried out
    refused: int = 0

    def observe(self) -> Tree:
        """What is on the disk now."""
        tree = observe(os.fsencode(self.root))
        self.paired |= pair_names(tree)
        return tree

    def relative(self, path: str) -> bytes:
        prefix = os.fsencode(self.root) + b"/"
        plain = os.fsencode(unescape_ambiguous(path))
        check(plain.startswith(prefix), "outside the root", path)
        return plain.removeprefix(prefix)

    # --- entries

    def follow(self, box: Toolbox, disk: Tree, after: Tree) -> None:
        """Understand the new entries of the journal. The disk was the first tree, and is the second."""
        found = [entry for entry in box.store.entries() if entry.seq > self.last]
        ours: JournalEntry | None = None
        for entry in found:
            self.last = entry.seq
            if entry.call.dialect == "adopted":  # within a call of ours: before it changed anything
                self.book_adopted(box, entry, disk)
            else:
                disk = self._follow_ours(box, ours, disk, after)
                ours = entry
        disk = self._follow_ours(box, ours, disk, after)
        check(looks(disk) == looks(after), "changed without an entry", compare(disk, after))
        pairs = pair_names(after)
        check(pairs >= pair_names(disk), "names are not one file again", pair_names(disk) - pairs)
        check(self.paired >= pairs - pair_names(disk), "names are one file that never were", pairs)

    def _follow_ours(self, box: Toolbox, entry: JournalEntry | None, disk: Tree, after: Tree) -> Tree:
        if entry is None or not entry.succeeded:
            return disk
        if entry.takes_back:  # it changes nothing if all is reversed already
            return self.book_reversal(entry, disk)
        if not entry.changed:
            return disk
        self.book_ours(box, entry, disk, after)
        return after

    def book_adopted(self, box: Toolbox, entry: JournalEntry, disk: Tree) -> Booked:
        """An entry of others' changes: exactly what differs from the last scan, and not booked before."""
        files = box.store.changes_of(entry.seq)
        arguments = json.loads(entry.call.arguments)
        not_kept = frozenset(map(self.relative, arguments.get("not_kept", ())))
        self.not_kept += len(not_kept)
        kind = "foreign" if entry.call.session == "foreign" else "window"
        open_differences = compare(self.baseline, disk)
        booked = Booked(entry.seq, [], entry.call.session)
        paths = [self.relative(change.path) for change in files]
        check(len(set(paths)) == len(paths), "a path is twice in one entry", paths)
        for path, change in zip(paths, files, strict=True):
            transition = open_differences.get(path)
            check(transition, "booked, but it did not change since the last scan", entry.seq, path)
            assert transition is not None
            transition = _without(transition, not_kept)
            self._check_hashes(change, transition)
            booked.transitions.append(transition)
            self._check_owner(kind, path)
        for path in {*paths, *(each for each in not_kept if each in open_differences)}:
            self.baseline = open_differences[path].apply(self.baseline)
        self.booked[entry.seq] = booked
        return booked

    def _check_owner(self, kind: str, path: bytes) -> None:
        could = any(
            window.paths is None or any(name == path or name.startswith(path + b"/") for name in window.paths)
            for window in self.windows
        )
        check(could == (kind == "window"), f"booked as {kind}", path, self.windows)

    def _check_hashes(self, change: FileChange, transition: Transition) -> None:
        for content, tree in ((change.before, transition.before), (change.after, transition.after)):
            node = tree.get(transition.path)
            if content is None or node is None:
                check(content is None and node is None, "recorded as", content, "but was", node)
            elif isinstance(content, DirectoryMetadata):
                check((node.kind, node.mode) == ("folder", content.mode), change, node)
            elif isinstance(content, StagedContent):
                kind = {"folder": "tree"}.get(node.kind, node.kind)
                check(content.kind == kind, change, node)
                check(node.kind == "link" or content.mode == node.mode, change, node)
                check(node.kind == "folder" or content.hash == sha256(node.data).hexdigest(), change, node)
                check(content.entry_count == len(tree), change, tree)
            else:
                raise Violation("not a staged content", change)

    def check_scanned(self, disk: Tree, named: Iterable[bytes] | None = None) -> None:
        """After a scan, nothing is left that it should have found."""
        left = compare(self.baseline, disk)
        if named is not None:
            left = {path: left[path] for path in left if path in {*named}}
        check(not left, "not found by a scan", left)
        if named is None:
            self.baseline = disk

    # --- our own commits

    def book_ours(self, box: Toolbox, entry: JournalEntry, disk: Tree, after: Tree) -> None:
        """A call of our own tools. What others changed there was booked before it.

        A file with several names is written in place. What that changes at the other names, the next scan finds.
        """
        named = {self.relative(change.path) for change in box.store.changes_of(entry.seq)}
        changed = compare(disk, after)
        written = {after[path].file for path in named if path in after}
        for path in changed.keys() - named:
            check(path in after and after[path].file in written, "changed without being in the entry", path)
        transitions = [each for path in changed if path in named for each in _split_made(changed[path])]
        booked = Booked(entry.seq, transitions, entry.call.session, keeps_modes=True)
        self._check_settled(booked.transitions, disk)
        for transition in booked.transitions:
            self.baseline = transition.apply(self.baseline)
        self.booked[entry.seq] = booked

    def book_reversal(self, entry: JournalEntry, disk: Tree) -> Tree:
        """An undo or a redo; returns what it must leave on the disk."""
        reversed_entries = [self.booked[seq] for seq in reversed(entry.takes_back)]
        keeps_modes = all(each.keeps_modes for each in reversed_entries)
        done: list[Transition] = []
        start = disk
        for each in reversed_entries:
            files = number_files()
            for transition in _invert_all([each]):
                adapted = adapt(transition, disk, keeps_modes=keeps_modes)
                check(adapted is not None, "a later change is lost", transition, disk)
                for step in _perform_all(adapted, disk, files, keeps_modes=keeps_modes):
                    done.append(step)
                    disk = _write_names(step, disk)
        self._check_settled(done, start)
        for step in done:
            self.baseline = step.apply(self.baseline)
        self.booked[entry.seq] = Booked(entry.seq, done, entry.call.session, keeps_modes=keeps_modes)
        return disk

    def find_later_changes(self, chosen: Sequence[JournalEntry], disk: Tree) -> Iterator[LaterChange]:
        """Where something came later than these entries, up to the first place where undoing them would lose it."""
        entries = [self.booked[entry.seq] for entry in reversed(chosen)]
        for entry in entries:
            files = number_files()
            for transition in _invert_all([entry]):
                adapted = adapt(transition, disk, keeps_modes=entry.keeps_modes)
                if adapted != [transition] and not transition.is_done(disk, ignore_modes=entry.keeps_modes):
                    yield LaterChange(transition.path, is_lost=adapted is None)
                if adapted is None:
                    return
                for step in _perform_all(adapted, disk, files, keeps_modes=entry.keeps_modes):
                    disk = _write_names(step, disk)

    def _check_settled(self, transitions: Sequence[Transition], disk: Tree) -> None:
        """What others changed where we write is booked before: else our own commit would hide it."""
        left = compare(self.baseline, disk)
        hidden = [
            path
            for path in left
            for each in transitions
            if path == each.path or path.startswith(each.path + b"/") or each.path.startswith(path + b"/")
            if not left[path].only_mode
        ]
        check(not hidden, "our commit hides a change of others", hidden)


def _split_made(transition: Transition) -> Iterator[Transition]:
    """New folders, and what is in them, each for itself."""
    if transition.before or transition.only_mode:
        yield transition
        return
    for path, node in sorted(transition.after.items()):
        yield Transition(path, {}, {path: node}, is_made=node.kind == "folder")


def _perform_all(
    transitions: Sequence[Transition] | None, disk: Tree, files: Mapping[int, int], *, keeps_modes: bool
) -> list[Transition]:
    return [step for each in transitions or () for step in _perform(each, disk, files, keeps_modes=keeps_modes)]


def _perform(transition: Transition, disk: Tree, files: Mapping[int, int], *, keeps_modes: bool) -> list[Transition]:
    """What reversing does to a disk. Our own tools write a file with several names in place, and make folders."""
    path, now = transition.path, disk.get(transition.path)
    restored = {
        each: node._replace(file=files[node.file] if node.file else 0) for each, node in transition.after.items()
    }
    new = restored.get(path)
    if keeps_modes and now is not None and new is not None and _both_files(now, new):
        return [Transition(path, part(disk, path), {path: now._replace(data=new.data)})]
    made = [above for above in _parents(path) if keeps_modes and restored and above not in disk]
    return [
        *(Transition(above, {}, {above: NEW_FOLDER}, is_made=True) for above in reversed(made)),
        Transition(path, transition.before, restored, transition.only_mode, transition.is_made),
    ]


def _write_names(transition: Transition, disk: Tree) -> Tree:
    """The disk afterwards. What is written in place shows at every name of the file."""
    old, new = disk.get(transition.path), transition.after.get(transition.path)
    after = transition.apply(disk)
    if old is None or new is None or not old.file or old.file != new.file:
        return after
    return after | {path: node._replace(data=new.data) for path, node in disk.items() if node.file == old.file}


def _parents(path: bytes) -> Iterator[bytes]:
    while path := path.rpartition(b"/")[0]:
        yield path


def _invert_all(entries: Iterable[Booked]) -> Iterator[Transition]:
    return (transition.invert() for entry in entries for transition in reversed(entry.transitions))


def _without(transition: Transition, not_kept: frozenset[bytes]) -> Transition:
    """What can be restored of it."""
    lost = [path for path in not_kept if path in transition.before and path != transition.path]
    before = {path: node for path, node in transition.before.items() if not _is_below(path, lost)}
    return Transition(transition.path, before, transition.after, transition.only_mode)


def _is_below(path: bytes, places: Sequence[bytes]) -> bool:
    return any(path == place or path.startswith(place + b"/") for place in places)
