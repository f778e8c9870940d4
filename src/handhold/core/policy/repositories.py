"""Git directories among changes: those called `.git`, and those that git knows by what is in them.

A plain folder with HEAD, objects and refs is a bare repository, and git obeys its configuration when somebody stands in
it. So a change is judged by the state it leaves behind: what is on the disk, with all changes of the call applied.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from posixpath import normpath
from typing import Protocol

from handhold.core.errors import ToolError
from handhold.core.plans import Content, Directory, FileChange, Folder, Shelved
from handhold.core.policy import gitdir
from handhold.core.policy.gitdir import Side
from handhold.core.policy.protected import Protection
from handhold.core.ports import FileView
from handhold.core.text.names import unmistakable


class Source(Protocol):
    """Where the contents of changes are read from."""

    def content(self, content: Content, path: str) -> bytes | None: ...

    def unfolded(self, content: Shelved, path: str, most: int) -> Sequence[tuple[str, Shelved]]: ...


@dataclass(frozen=True)
class Repositories:
    """The git directories that the changes of one call concern."""

    files: FileView
    source: Source
    protection: Protection
    changes: Sequence[FileChange]

    def objection(self, place: str) -> str | None:
        """Why a person has to see what happens at a place; empty if it is harmless, None if git has no part in it."""
        way = self.protection.way(place)
        if way is None:
            return None
        root = place[: len(place) - len(way)]
        sides = self.before(place), self.after(place)
        if named := gitdir.split(way):
            return self._judged(place.removesuffix(f"/{named[1]}"), named[1], *sides)
        parts = way.split("/")
        for depth in range(len(parts)):
            folder = (root + "/".join(parts[:depth])).rstrip("/")
            if not self._is_gitdir(folder, self.after, self._now):
                continue
            is_new = not self._is_gitdir(folder, self.before, self._was)
            because = self._of_new(folder) if is_new else self._of_entries(folder, place)
            return because or self._judged(folder, "/".join(parts[depth:]), *sides)
        return None

    def _judged(self, folder: str, way: str, before: Side | None, after: Side | None) -> str:
        return gitdir.objection(way, before, after, gitdir=folder, is_inside=self._is_inside)

    def _of_new(self, folder: str) -> str:
        """A folder that becomes a git directory brings along what stood in it before."""
        if folder not in self._new:
            found = ((way, self.after(f"{folder}/{way}")) for way in gitdir.OBEYED)
            objections = (self._judged(folder, way, None, side) for way, side in found if side)
            self._new[folder] = next(filter(None, objections), "") or self._of_entries(folder, folder)
        return self._new[folder]

    def _of_entries(self, folder: str, place: str) -> str:
        """What comes or goes in one piece, judged entry by entry: their names do not say that git obeys them."""
        objections = (
            self._judged(folder, entry.removeprefix(f"{folder}/"), self.before(entry), self.after(entry))
            for entry in self._entries(place)
        )
        return next(filter(None, objections), "")

    def _is_inside(self, path: str) -> bool:
        """Whether a path lies in the workspace, and not in what packages ship."""
        place = normpath(path)
        if ".." in path.split("/") or place in self.files.roots:
            return place in self.files.roots
        try:
            return self.files.place(place) == place and self.protection.applies(place)
        except ToolError:
            return False

    # --- what stands where

    def _is_gitdir(self, folder: str, at: Callable[[str], Side | None], known: dict[str, bool]) -> bool:
        if folder not in known:
            known[folder] = at(f"{folder}/HEAD") is not None and (
                at(f"{folder}/commondir") is not None
                or all(at(f"{folder}/{name}") for name in ("objects", "refs"))  # git takes files, too
            )
        return known[folder]

    def before(self, place: str) -> Side | None:
        return self._at(place, lambda change: change.before)

    def after(self, place: str) -> Side | None:
        return self._at(place, lambda change: change.after)

    def _at(self, place: str, side: Callable[[FileChange], Content | None]) -> Side | None:
        if change := self._by_path.get(place):
            return self._side(side(change), place)
        above = place
        while (above := above.rpartition("/")[0]) and above not in self._by_path:
            pass
        if above:
            tree = side(self._by_path[above])
            if isinstance(tree, Shelved):
                return self._side(self._inside(tree, above).get(place), place)
            if not isinstance(tree, Folder | Directory):
                return None
        if any(side(change) for change in self._below.get(place, ())):
            return Side("tree", None, lambda: None)
        return self._on_disk(place)

    def _side(self, content: Content | None, place: str) -> Side | None:
        if content is None:
            return None
        read = self.source.content
        match content:
            case Shelved(kind=kind, mode=mode):
                return Side(kind, mode, lambda: read(content, place))
            case Folder(mode=mode):
                return Side("tree", mode, lambda: None)
            case Directory():
                return Side("tree", None, lambda: None)
            case _:
                return Side("file", None, lambda: read(content, place))

    def _on_disk(self, place: str) -> Side | None:
        try:
            look = self.files.look(place)
            if look is None:
                return None
            if look.path != place or look.kind == "other":
                return Side("link", None, lambda: None)
            return Side("tree" if look.kind == "directory" else "file", None, lambda: self.files.read(place).data)
        except ToolError:  # a link that leads out of the workspace
            return Side("link", None, lambda: None)

    def _inside(self, tree: Shelved, path: str) -> Mapping[str, Shelved]:
        key = f"{path}\0{tree.hash}"
        if key not in self._unfolded:
            entries = self.source.unfolded(tree, path, tree.entries)
            self._unfolded[key] = {f"{path}/{unmistakable(way)}": thing for way, thing in entries}
        return self._unfolded[key]

    def _entries(self, place: str) -> Sequence[str]:
        """What is below a place in a folder that comes or goes in one piece."""
        above = place
        while above and above not in self._by_path:
            above = above.rpartition("/")[0]
        change = self._by_path.get(above)
        trees = (change.before, change.after) if change else ()
        found = [self._inside(tree, above) for tree in trees if isinstance(tree, Shelved) and tree.kind == "tree"]
        return [entry for entries in found for entry in entries if entry.startswith(f"{place}/")]

    @cached_property
    def _by_path(self) -> dict[str, FileChange]:
        return {change.path: change for change in self.changes}

    @cached_property
    def _below(self) -> dict[str, list[FileChange]]:
        """The changes below a folder, of folders that a git directory has."""
        found: dict[str, list[FileChange]] = {}
        for change in self.changes:
            above = change.path
            while above := above.rpartition("/")[0]:
                if above.endswith(("/objects", "/refs")):
                    found.setdefault(above, []).append(change)
        return found

    @cached_property
    def _now(self) -> dict[str, bool]:
        return {}

    @cached_property
    def _was(self) -> dict[str, bool]:
        return {}

    @cached_property
    def _new(self) -> dict[str, str]:
        return {}

    @cached_property
    def _unfolded(self) -> dict[str, Mapping[str, Shelved]]:
        return {}
