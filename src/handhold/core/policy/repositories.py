"""Git directories among changes: those named `.git`, and those that git recognizes by their content.

A plain folder with HEAD, objects and refs is a bare repository, and git obeys its configuration when run inside it. So
a change is judged by the state it leaves behind: what is on disk, with all changes of the call applied.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from posixpath import normpath
from types import MappingProxyType
from typing import Protocol

from handhold.core.errors import ToolError
from handhold.core.plans import Content, Directory, DirectoryMetadata, FileChange, StagedContent
from handhold.core.policy import gitdir
from handhold.core.policy.gitdir import GitEntryState
from handhold.core.policy.protected_names import Protection
from handhold.core.ports.files import FileView
from handhold.core.text.path_escaping import escape_ambiguous, unescape_ambiguous

NO_OTHER_NAMES: Mapping[str, Sequence[str]] = MappingProxyType({})


class StagedContentSource(Protocol):
    """Provides the contents of changes."""

    def read_content(self, content: Content, path: str) -> bytes | None: ...

    def list_staged_tree(
        self, content: StagedContent, path: str, limit: int
    ) -> Sequence[tuple[str, StagedContent]]: ...


@dataclass(frozen=True)
class Repositories:
    """The git directories that the changes of one call affect."""

    files: FileView
    source: StagedContentSource
    protection: Protection
    changes: Sequence[FileChange]
    reached: Mapping[str, Sequence[str]] = field(
        default_factory=lambda: NO_OTHER_NAMES
    )  # the names by which the call has reached a place

    def find_names(self, place: str) -> Sequence[str]:
        """Every name by which the change at a place is judged."""
        names = self.reached.get(place) or (place,)
        known = (map(escape_ambiguous, self.protection.find_names(unescape_ambiguous(name))) for name in names)
        return tuple(dict.fromkeys(name for found in known for name in found))

    def judge(self, place: str, name: str) -> str:
        """Why the change at a place needs approval under one of its names; empty if it does not."""
        because = self.find_objection(place, name)
        return self.protection.find_reason_by_name(name) if because is None else because

    def find_objection(self, place: str, name: str) -> str | None:
        """Why the change at a place needs approval under one of its names; empty if it is harmless, None if no git
        directory is involved."""
        relative_path = self.protection.relative_to_root(name)
        if relative_path is None:
            return None
        root = name[: len(name) - len(relative_path)]
        states = self.get_state_before(place), self.get_state_after(place)
        if in_gitdir := gitdir.split_gitdir(relative_path):
            return self._check_entry(name.removesuffix(f"/{in_gitdir[1]}"), in_gitdir[1], *states)
        parts = relative_path.split("/")
        for depth in range(len(parts)):
            folder = (root + "/".join(parts[:depth])).rstrip("/")
            if not self._is_gitdir(folder, self.get_state_after, self._gitdir_after_cache):
                continue
            is_new = not self._is_gitdir(folder, self.get_state_before, self._gitdir_before_cache)
            because = self._check_new_gitdir(folder) if is_new else self._check_tree_entries(folder, place, name)
            return because or self._check_entry(folder, "/".join(parts[depth:]), *states)
        return None

    def _check_entry(
        self, folder: str, relative_path: str, before: GitEntryState | None, after: GitEntryState | None
    ) -> str:
        return gitdir.find_objection(relative_path, before, after, gitdir=folder, is_inside=self._is_inside)

    def _check_new_gitdir(self, folder: str) -> str:
        """Check a folder that becomes a git directory: files that were already in it may now be obeyed."""
        if folder not in self._new_gitdir_cache:
            states = (
                (relative_path, self.get_state_after(f"{folder}/{relative_path}"))
                for relative_path in (*gitdir.OBEYED_FOLDERS, *gitdir.OBEYED_PATHS)
            )
            objections = (
                self._check_entry(folder, relative_path, None, side) for relative_path, side in states if side
            )
            self._new_gitdir_cache[folder] = next(filter(None, objections), "") or self._check_tree_entries(
                folder, folder, folder
            )
        return self._new_gitdir_cache[folder]

    def _check_tree_entries(self, folder: str, place: str, name: str) -> str:
        """Check a folder that is added or removed as a whole, entry by entry, under one of its names."""
        objections = (
            self._check_entry(
                folder,
                (name + entry[len(place) :]).removeprefix(f"{folder}/"),
                self.get_state_before(entry),
                self.get_state_after(entry),
            )
            for entry in self._list_entries(place)
        )
        return next(filter(None, objections), "")

    def _is_inside(self, path: str) -> bool:
        """Whether a path is in the workspace and not in a dependency folder."""
        place = normpath(path)
        if ".." in path.split("/") or place in self.files.roots:
            return place in self.files.roots
        try:
            return self.files.resolve(place) == place and self.protection.is_applicable(place)
        except ToolError:
            return False

    # --- state before and after

    def _is_gitdir(self, folder: str, get_state: Callable[[str], GitEntryState | None], cache: dict[str, bool]) -> bool:
        if folder not in cache:
            cache[folder] = get_state(f"{folder}/HEAD") is not None and (
                get_state(f"{folder}/commondir") is not None
                or all(get_state(f"{folder}/{name}") for name in ("objects", "refs"))  # git accepts files, too
            )
        return cache[folder]

    def get_state_before(self, place: str) -> GitEntryState | None:
        return self._get_state(place, lambda change: change.before)

    def get_state_after(self, place: str) -> GitEntryState | None:
        return self._get_state(place, lambda change: change.after)

    def _get_state(self, place: str, get_content: Callable[[FileChange], Content | None]) -> GitEntryState | None:
        if change := self._change_by_path.get(place):
            return self._to_state(get_content(change), place)
        parent = place
        while (parent := parent.rpartition("/")[0]) and parent not in self._change_by_path:
            pass
        if parent:
            tree = get_content(self._change_by_path[parent])
            if isinstance(tree, StagedContent) and tree.kind == "link":
                return GitEntryState("link", None, lambda: None)  # as on disk: what is behind it is not ours to say
            if isinstance(tree, StagedContent) and tree.kind == "tree":
                return self._to_state(self._list_tree(tree, parent).get(place), place)
            if not isinstance(tree, DirectoryMetadata | Directory):
                return None
        if any(get_content(change) for change in self._changes_below.get(place, ())):
            return GitEntryState("tree", None, lambda: None)
        return self._get_state_on_disk(place)

    def _to_state(self, content: Content | None, place: str) -> GitEntryState | None:
        if content is None:
            return None
        read = self.source.read_content
        match content:
            case StagedContent(kind=kind, mode=mode):
                return GitEntryState(kind, mode, lambda: read(content, place))
            case DirectoryMetadata(mode=mode):
                return GitEntryState("tree", mode, lambda: None)
            case Directory():
                return GitEntryState("tree", None, lambda: None)
            case _:
                return GitEntryState("file", None, lambda: read(content, place))

    def _get_state_on_disk(self, place: str) -> GitEntryState | None:
        try:
            stat = self.files.stat(place)
            if stat is None:
                return None
            if stat.path != place or stat.kind == "other":
                return GitEntryState("link", None, lambda: None)
            return GitEntryState(
                "tree" if stat.kind == "directory" else "file", None, lambda: self.files.read(place).data
            )
        except ToolError:  # a link that leads out of the workspace
            return GitEntryState("link", None, lambda: None)

    def _list_tree(self, tree: StagedContent, path: str) -> Mapping[str, StagedContent]:
        key = f"{path}\0{tree.hash}"
        if key not in self._tree_cache:
            entries = self.source.list_staged_tree(tree, path, tree.entry_count)
            self._tree_cache[key] = {
                f"{path}/{escape_ambiguous(relative_path)}": content for relative_path, content in entries
            }
        return self._tree_cache[key]

    def _list_entries(self, place: str) -> Sequence[str]:
        """The entries below a place in a folder that is added or removed as a whole."""
        parent = place
        while parent and parent not in self._change_by_path:
            parent = parent.rpartition("/")[0]
        change = self._change_by_path.get(parent)
        trees = (change.before, change.after) if change else ()
        found = [
            self._list_tree(tree, parent) for tree in trees if isinstance(tree, StagedContent) and tree.kind == "tree"
        ]
        return [entry for entries in found for entry in entries if entry.startswith(f"{place}/")]

    @cached_property
    def _change_by_path(self) -> dict[str, FileChange]:
        return {change.path: change for change in self.changes}

    @cached_property
    def _changes_below(self) -> dict[str, list[FileChange]]:
        """Changes by the `objects` and `refs` folders above them."""
        found: dict[str, list[FileChange]] = {}
        for change in self.changes:
            parent = change.path
            while parent := parent.rpartition("/")[0]:
                if parent.endswith(("/objects", "/refs")):
                    found.setdefault(parent, []).append(change)
        return found

    @cached_property
    def _gitdir_after_cache(self) -> dict[str, bool]:
        return {}

    @cached_property
    def _gitdir_before_cache(self) -> dict[str, bool]:
        return {}

    @cached_property
    def _new_gitdir_cache(self) -> dict[str, str]:
        return {}

    @cached_property
    def _tree_cache(self) -> dict[str, Mapping[str, StagedContent]]:
        return {}
