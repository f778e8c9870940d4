"""Git in a fork: which files it ignores there, and what becomes of the fork's commits.

A repository is not merged file by file: two histories of an index or a branch cannot be merged like texts. New objects
are added, and the fork's branches arrive as `refs/handhold/NAME/*`. Index, HEAD, logs and settings stay the root's. So
the fork's commits can be looked at, merged and cherry-picked, and what differs in its working tree merges as files.
"""

import os
import re
import stat
import subprocess
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from handhold.backends.forks.entries import Entry, Metadata, TreeReader
from handhold.backends.forks.fork_layer import LayerItem
from handhold.backends.forks.text_merge import find_git
from handhold.backends.forks.tree_merge import Placement, iterate_parents
from handhold.core.errors import ForkUnavailable

GIT = ".git"
HEADS = "refs/heads/"
# Objects that others can use as they are. The rest of the folder are indexes that git makes again, and settings.
OBJECT_PATH = re.compile(r"objects/(?:[0-9a-f]{2}/[0-9a-f]{38,62}|pack/pack-[0-9a-f]{40,64}\.(?:pack|idx|rev))")
LEFT_PATH = re.compile(r"refs/(?!heads/|remotes/|handhold/).+|config(?:\.worktree)?|hooks/.+|modules/.+|info/.+")
OBJECT_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
# Nothing in the settings of a repository may start a program, and whoever owns it is known already.
SAFE_SETTINGS = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "safe.directory=*")
IGNORED_FOUND, NONE_IGNORED = 0, 1  # exit status of `git check-ignore`


class GitPlacements(NamedTuple):
    """What a merge puts into one repository."""

    placements: dict[str, Placement]
    objects: tuple[str, ...]  # files to add before
    branches: tuple[str, ...]  # the names of the new refs
    left: tuple[str, ...]  # what a person may miss, and stays in the fork: tags, stashes, settings, hooks, submodules


def find_git_folder(rel: str) -> str:
    """The git directory that a path is in, relative to the root; empty if it is in none."""
    parts = rel.split("/")
    return "/".join(parts[: parts.index(GIT) + 1]) if GIT in parts else ""


def find_base_repositories(items: Iterable[LayerItem], base: TreeReader) -> list[str]:
    """The git directories of the root in which the fork changed something; not those that the fork created."""
    touched = dict.fromkeys(folder for item in items if (folder := find_git_folder(item.rel)))
    return [folder for folder in touched if base.open_folder(folder) >= 0]


class ForkedRepository:
    """A git directory of the root, as the fork has it."""

    def __init__(self, folder: str, items: Sequence[LayerItem], layer: TreeReader, base: TreeReader) -> None:
        self._folder = folder
        self._items = {item.rel: item for item in items if item.rel.startswith(f"{folder}/")}
        self._layer = layer
        self._base = base

    def merge(self, fork: str) -> GitPlacements:
        """New objects, and a ref for each branch that is another one in the fork."""
        ours, theirs = self._read_branches(in_fork=True), self._read_branches(in_fork=False)
        refs = {
            f"refs/handhold/{fork}/{name}": value for name, value in ours.items() if value and theirs.get(name) != value
        }
        placements: dict[str, Placement] = {}
        for ref, value in refs.items():
            rel, data = f"{self._folder}/{ref}", f"{value}\n".encode()
            if self._base.stat(rel) is None or self._base.read_bytes(rel) != data:
                placements[rel] = Placement(self._make_entry(), data)
        objects = tuple(self._list_objects()) if refs else ()
        return GitPlacements(placements, objects, tuple(refs), tuple(self._list_left()))

    def _list_objects(self) -> Iterator[str]:
        for rel, item in self._items.items():
            name = rel.removeprefix(f"{self._folder}/")
            if not item.is_deletion and not item.is_folder and OBJECT_PATH.fullmatch(name):
                yield rel

    def _list_left(self) -> Iterator[str]:
        for item in self._items.values():
            if LEFT_PATH.fullmatch(item.rel.removeprefix(f"{self._folder}/")) and not item.is_folder:
                ours = None if item.is_deletion else self._layer.read(item.rel, item.found)
                if ours != self._base.read(item.rel):
                    yield item.rel

    def _make_entry(self) -> Entry:
        found = self._base.stat(f"{self._folder}/HEAD")
        assert found is not None  # it is a repository
        return Entry("file", Metadata(found.st_mode & 0o666, (found.st_uid, found.st_gid)))

    def _read_branches(self, *, in_fork: bool) -> dict[str, str]:
        """The commits of branches by name, and of HEAD if it is on no branch."""
        found = self._read_packed(self._read("packed-refs", in_fork=in_fork))
        names = self._list_files(HEADS.rstrip("/"), in_fork=in_fork)
        found |= {name.removeprefix(HEADS): self._read(name, in_fork=in_fork).strip() for name in names}
        found["HEAD"] = self._read("HEAD", in_fork=in_fork).strip()
        return {name: value for name, value in found.items() if OBJECT_ID.fullmatch(value)}

    def _read_packed(self, text: str) -> dict[str, str]:
        lines = (line.partition(" ") for line in text.splitlines())
        return {name.removeprefix(HEADS): value for value, _, name in lines if name.startswith(HEADS)}

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
                item = self._items.get(prefix + rel) if in_fork else None
                if item is not None and item.is_deletion:
                    continue
                is_folder = item.is_folder if item else self._base.open_folder(prefix + rel) >= 0
                (pending if is_folder else found).append(rel)
        return found

    def _is_hidden(self, rel: str) -> bool:
        hiding = (self._items.get(each) for each in (rel, *iterate_parents(rel)))
        return any(item is not None and item.hides_base for item in hiding)

    def _read(self, name: str, *, in_fork: bool) -> str:
        """A small file of the git directory; empty if it is not there."""
        rel = f"{self._folder}/{name}"
        item = self._items.get(rel) if in_fork else None
        if item is not None:
            return "" if item.is_deletion or item.is_folder else os.fsdecode(self._layer.read_bytes(rel))
        if (in_fork and self._is_hidden(rel)) or self._base.stat(rel) is None:
            return ""
        return os.fsdecode(self._base.read_bytes(rel))


Capture = Callable[[Sequence[str], str, bytes], subprocess.CompletedProcess[bytes]]  # runs a program in a folder


def find_ignored(
    fork: str, real: str, paths: Collection[str], layer: TreeReader, base: TreeReader, capture: Capture
) -> set[str]:
    """The paths that git ignores, according to a git that `capture` runs.

    In the fork, its ignore files apply, and what is tracked there is not ignored. ForkUnavailable if the root is in a
    repository, and git is not installed or fails.
    """
    by_repository: dict[str, list[str]] = {}
    tops: dict[str, bool] = {}
    for rel in paths:
        if any((found := layer.stat(above)) and stat.S_ISLNK(found.st_mode) for above in iterate_parents(rel)):
            continue  # deleted, and behind a link now: git would refuse to look
        for folder in (*iterate_parents(rel), ""):
            if folder not in tops:
                pointer = f"{folder}/{GIT}".lstrip("/")
                tops[folder] = layer.stat(pointer) is not None or base.stat(pointer) is not None
            if tops[folder]:
                by_repository.setdefault(folder, []).append(rel.removeprefix(f"{folder}/") if folder else rel)
                break
        else:
            if _is_in_repository(real):
                by_repository.setdefault("", []).append(rel)
    ignored: set[str] = set()
    for folder, inner in by_repository.items():
        found = _check_ignored(fork, os.path.join(real, folder), inner, capture)
        ignored.update(f"{folder}/{rel}".lstrip("/") for rel in found)
    return ignored


def _is_in_repository(real: str) -> bool:
    return any(os.path.lexists(os.path.join("/", above, GIT)) for above in iterate_parents(real.lstrip("/")))


def _check_ignored(fork: str, folder: str, paths: Sequence[str], capture: Capture) -> list[str]:
    git = find_git()
    if not git:
        because = "git is not installed, so it cannot be told which files are ignored; --all merges all of them"
        raise ForkUnavailable(fork, because)
    data = b"".join(os.fsencode(path) + b"\0" for path in paths)
    command = (git, *SAFE_SETTINGS, "check-ignore", "-z", "--stdin")
    done = capture(command, folder, data)
    if done.returncode not in (IGNORED_FOUND, NONE_IGNORED):
        because = f"git check-ignore failed in {folder}: {os.fsdecode(done.stderr).strip()}; --all merges all files"
        raise ForkUnavailable(fork, because)
    return [os.fsdecode(each) for each in done.stdout.split(b"\0") if each]


def capture_in_base(command: Sequence[str], folder: str, data: bytes) -> subprocess.CompletedProcess[bytes]:
    """Run git on the root itself, while the fork cannot be mounted."""
    try:
        return subprocess.run(command, cwd=folder, input=data, capture_output=True, check=False)
    except OSError as error:  # the fork made the folder
        raise ForkUnavailable(folder, str(error)) from error
