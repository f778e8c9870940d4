"""Git in a fork: what becomes of its commits.

A repository is not merged file by file: two histories of an index or a branch cannot be merged like texts. New objects
are added, and the fork's branches arrive as `refs/handhold/NAME/*`. Index, HEAD, logs and settings stay the root's. So
the fork's commits can be looked at, merged and cherry-picked, and what differs in its working tree merges as files.
Whatever else the fork has in a repository is named, and the fork is kept for it.
"""

import hashlib
import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import NamedTuple

from handhold.backends.forks.entries import Entry, Metadata, TreeReader
from handhold.backends.forks.fork_layer import LayerItem
from handhold.backends.forks.ignored_files import GIT, SAFE_SETTINGS, Capture, find_git_folder
from handhold.backends.forks.text_merge import find_git
from handhold.backends.forks.tree_merge import Placement, iterate_parents

HEADS, MERGED = "refs/heads/", "refs/handhold/"
# Objects that others can use as they are. The rest of the folder are indexes that git makes again, and settings.
OBJECT_PATH = re.compile(
    r"objects/(?:[0-9a-f]{2}/[0-9a-f]{38,62}|pack/pack-[0-9a-f]{40,64}\.(?:pack|idx|rev|promisor))"
)
# What git makes again, or what says only what the fork did last. Refs and indexes are compared by their content.
HARMLESS_PATH = re.compile(
    r"""objects/(?!info/(?:http-)?alternates$).* | refs/.* | packed-refs | gc\.(?:log|pid) | info/refs | [\w-]+\.lock
    | (?:worktrees/[^/]+/)?
      (?: logs/.* | HEAD | ORIG_HEAD | FETCH_HEAD | AUTO_MERGE | COMMIT_EDITMSG | index | sharedindex\..* )""",
    re.VERBOSE | re.DOTALL,
)
INDEX_PATH = re.compile(r"(?:worktrees/[^/]+/)?index")
WORKTREE_HEAD = re.compile(r"worktrees/[^/]+/HEAD")
# Without what these name, commits are incomplete.
OBJECT_SETTINGS = frozenset(("shallow", "objects/info/alternates", "objects/info/http-alternates"))
UNNAMED_REFS = (HEADS, "refs/remotes/", MERGED)  # that may differ without a note: merged, or to be had again
OBJECT_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
SHA1_DIGITS = 40
NO_MODE = "000000"  # of a deleted path


class GitPlacements(NamedTuple):
    """What a merge puts into one repository."""

    placements: dict[str, Placement]
    objects: tuple[str, ...]  # files to add before
    branches: tuple[str, ...]  # the names of the new refs
    left: tuple[str, ...]  # what stays in the fork: tags, stashes, settings, hooks, submodules and so on
    is_incomplete: bool = False  # whether the branches stay as well, because commits would be broken here


def find_base_repositories(items: Iterable[LayerItem], base: TreeReader) -> list[str]:
    """The git directories of the root in which the fork changed something; not those that the fork created."""
    touched = dict.fromkeys(folder for item in items if (folder := find_git_folder(item.rel)))
    return [folder for folder in touched if base.open_folder(folder) >= 0]


def find_unmerged_pointers(
    items: Iterable[LayerItem], layer: TreeReader, base: TreeReader, repositories: Collection[str], real: str
) -> Iterator[str]:
    """Files `.git` that lead to a part of a repository that only the fork has: a submodule or worktree made there."""
    for item in items:
        folder, name = os.path.split(item.rel)
        if name == GIT and stat.S_ISREG(item.found.st_mode) and not item.is_deletion:
            target = os.fsdecode(layer.read_bytes(item.rel)).removeprefix("gitdir:").strip()
            rel = os.path.relpath(os.path.join(real, folder, target), real)
            if find_git_folder(rel) in repositories and base.stat(rel) is None:
                yield item.rel


class ForkedRepository:
    """A git directory of the root, as the fork has it."""

    def __init__(
        self, folder: str, items: Sequence[LayerItem], layer: TreeReader, base: TreeReader, capture: Capture
    ) -> None:
        """`capture` runs git in the fork; it gets a folder relative to the root."""
        self._folder = folder
        self._items = {item.rel: item for item in items}
        self._inside = {
            item.rel.removeprefix(f"{folder}/"): item for item in items if item.rel.startswith(f"{folder}/")
        }
        self._layer = layer
        self._base = base
        self._capture = capture

    def merge(self, fork: str) -> GitPlacements:
        """New objects, and a ref for each branch that is another one in the fork."""
        own = self._items.get(self._folder)
        if own is not None and (own.is_deletion or not own.is_folder):
            return GitPlacements({}, (), (), (self._folder,))
        ours, theirs = self._read_refs(in_fork=True), self._read_refs(in_fork=False)
        files, objects = [*self._list_left()], [*self._list_objects()]
        refs = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
        left = [*files, *(name for name in refs if name.startswith("refs/") and not name.startswith(UNNAMED_REFS))]
        shown = (*(f"{self._folder}/{name}" for name in left), *self._list_staged())
        changed = {
            name.removeprefix(HEADS): ours[name]
            for name in refs
            if OBJECT_ID.fullmatch(ours.get(name, "")) and (name.startswith(HEADS) or not name.startswith("refs/"))
        }
        is_partial = "config" in files and any(name.endswith(".promisor") for name in objects)
        if changed and (is_partial or not OBJECT_SETTINGS.isdisjoint(files)):
            return GitPlacements({}, (), (), shown, is_incomplete=True)
        merged = self._name_refs(fork, changed, theirs)
        placements = {
            f"{self._folder}/{ref}": Placement(self._make_entry(), f"{value}\n".encode())
            for ref, value in merged.items()
            if theirs.get(ref) != value
        }
        added = tuple(f"{self._folder}/{name}" for name in objects) if merged else ()
        return GitPlacements(placements, added, tuple(merged), shown)

    def _make_entry(self) -> Entry:
        found = self._base.stat(self._folder)
        assert found is not None  # it is a folder of the root
        return Entry("file", Metadata(found.st_mode & 0o666, (found.st_uid, found.st_gid)))

    # --- what is merged

    def _list_objects(self) -> Iterator[str]:
        for name, item in self._inside.items():
            if not item.is_deletion and not item.is_folder and OBJECT_PATH.fullmatch(name):
                yield name

    def _name_refs(self, fork: str, branches: Mapping[str, str], theirs: Mapping[str, str]) -> dict[str, str]:
        """The new refs. An earlier fork of the same name may have left some: they are moved on, never lost."""
        known = {name: value for name, value in theirs.items() if name.startswith(MERGED)}
        for n in count(1):
            prefix = f"{MERGED}{fork if n == 1 else f'{fork}-{n}'}/"
            refs = {f"{prefix}{name}": value for name, value in branches.items()}
            if not any(self._clashes(refs, name, value) for name, value in known.items()):
                return refs
        raise AssertionError  # there is always a free name

    def _clashes(self, refs: Mapping[str, str], known: str, value: str) -> bool:
        """Whether a known ref would be lost. No ref can be in another one, as no file can be in a file."""
        if known in refs:
            return value != refs[known] and not self._is_ancestor(value, refs[known])
        return any(known.startswith(f"{name}/") or name.startswith(f"{known}/") for name in refs)

    def _is_ancestor(self, old: str, new: str) -> bool:
        return self._run_git("", "merge-base", "--is-ancestor", old, new) is not None

    # --- what is left

    def _list_left(self) -> Iterator[str]:
        for name, item in self._inside.items():
            if not item.is_folder and not HARMLESS_PATH.fullmatch(name):
                ours = None if item.is_deletion else self._layer.read(item.rel, item.found)
                if ours != self._base.read(item.rel):
                    yield name

    def _list_staged(self) -> Iterator[str]:
        """Files that were staged in the fork with a content that is neither in a commit nor in the working tree."""
        for index in [name for name in self._inside if INDEX_PATH.fullmatch(name)]:
            found = self._run_git(
                os.path.dirname(index), "diff-index", "--cached", "--no-renames", "--raw", "-z", "HEAD"
            )
            if found is None:
                yield f"{self._folder}/{index}"
                continue
            fields = iter(found.split(b"\0")[:-1])
            for status, path in zip(fields, fields, strict=True):
                _, mode, _, staged, _ = os.fsdecode(status).split(" ")
                rel = os.path.join(os.path.dirname(self._folder), os.fsdecode(path))
                if mode != NO_MODE and (index != "index" or self._hash_blob(rel, staged) != staged):
                    yield f"{rel} as it was staged"

    def _hash_blob(self, rel: str, like: str) -> str:
        """What git calls a file of the working tree; empty if there is none."""
        data = self._read(rel, in_fork=True)
        if data is None:
            return ""
        algorithm = "sha1" if len(like) == SHA1_DIGITS else "sha256"
        return hashlib.new(algorithm, b"blob %d\0%b" % (len(data), data), usedforsecurity=False).hexdigest()

    # --- reading

    def _run_git(self, worktree: str, *arguments: str) -> bytes | None:
        """The output of git in the fork; None if it fails or is not installed."""
        command = (find_git(), *SAFE_SETTINGS, f"--git-dir={os.path.join(GIT, worktree)}", *arguments)
        done = self._capture(command, os.path.dirname(self._folder), b"") if command[0] else None
        return done.stdout if done is not None and not done.returncode else None

    def _read_refs(self, *, in_fork: bool) -> dict[str, str]:
        """All refs by their full name, loose or packed, and the HEADs."""
        lines = (line.partition(" ") for line in self._read_text("packed-refs", in_fork=in_fork).splitlines())
        found = {name: value for value, _, name in lines if name.startswith("refs/")}
        heads = [name for name in self._list_files("worktrees", in_fork=in_fork) if WORKTREE_HEAD.fullmatch(name)]
        names = [name for name in self._list_files("refs", in_fork=in_fork) if not name.endswith(".lock")]
        found |= {name: self._read_text(name, in_fork=in_fork).strip() for name in (*names, *heads, "HEAD")}
        return found

    def _list_files(self, folder: str, *, in_fork: bool) -> list[str]:
        """The files below a folder of the git directory, as the fork or the root sees them."""
        prefix, found = f"{self._folder}/", list[str]()
        pending = [folder]
        while pending:
            above = pending.pop()
            names = (
                {*self._base.list_names(prefix + above)}
                if not (in_fork and self._is_hidden(prefix + above))
                else set[str]()
            )
            if in_fork:
                names |= {*self._layer.list_names(prefix + above)}
            for name in sorted(names):
                rel = f"{above}/{name}"
                item = self._inside.get(rel) if in_fork else None
                if item is not None and item.is_deletion:
                    continue
                is_folder = item.is_folder if item else self._base.open_folder(prefix + rel) >= 0
                (pending if is_folder else found).append(rel)
        return found

    def _is_hidden(self, rel: str) -> bool:
        hiding = (self._items.get(each) for each in (rel, *iterate_parents(rel)))
        return any(item is not None and item.hides_base for item in hiding)

    def _read_text(self, name: str, *, in_fork: bool) -> str:
        """A small file of the git directory; empty if it is not there."""
        return os.fsdecode(self._read(f"{self._folder}/{name}", in_fork=in_fork) or b"")

    def _read(self, rel: str, *, in_fork: bool) -> bytes | None:
        item = self._items.get(rel) if in_fork else None
        if item is not None:
            return None if item.is_deletion or item.is_folder else self._layer.read_bytes(rel)
        if (in_fork and self._is_hidden(rel)) or self._base.stat(rel) is None or self._base.open_folder(rel) >= 0:
            return None
        return self._base.read_bytes(rel)
