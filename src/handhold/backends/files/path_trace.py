"""The names by which a path leads to its file: as asked, and after each link on the way.

`..` is taken as the kernel does: it leaves the folder that a link led to, not the link.
"""

import os

from handhold.backends.files.roots import RootedPath, Roots, split_names
from handhold.backends.files.walk_resolver import MAX_SYMLINKS
from handhold.logs import log_swallowed


def trace_names(roots: Roots, rooted: RootedPath) -> tuple[str, ...]:
    """The place that a path leads to, then its other names. They need not exist."""
    return PathTrace(roots, rooted).follow()


class PathTrace:
    """The folder that has been reached, with all of its names, and the names that remain.

    A name counts from a link on: the parent of a folder that a link led to has no name through that link.
    """

    def __init__(self, roots: Roots, rooted: RootedPath) -> None:
        self._roots = roots
        self._root = rooted.root
        self._parts: list[str] = []
        self._remaining = split_names(rooted.rel_path)[::-1]  # in reverse order
        self._aliases: list[tuple[str, int]] = []  # other names of the folder, and how long the link in each is
        self._open_links: list[tuple[int, list[str]]] = []  # how much remains once a link was followed, and its names
        self._link_count = 0

    def follow(self) -> tuple[str, ...]:
        while self._remaining and self._link_count <= MAX_SYMLINKS:
            name = self._remaining.pop()
            if name == "..":
                self._go_up()
            else:
                self._enter(name)
            while self._open_links and len(self._remaining) <= self._open_links[-1][0]:
                self._aliases += ((alias, len(alias)) for alias in self._open_links.pop()[1])
        return tuple(dict.fromkeys((self._place, *(alias for alias, _ in self._aliases))))

    @property
    def _place(self) -> str:
        return self._root.prefix + "/".join(self._parts) if self._parts else self._root.real

    def _enter(self, name: str) -> None:
        place = f"{self._place.rstrip('/')}/{name}"
        try:
            target = os.readlink(place)
        except OSError:  # no link, or nothing there
            log_swallowed()
            self._parts.append(name)
            self._aliases = [(f"{alias}/{name}", length) for alias, length in self._aliases]
            return
        self._link_count += 1
        self._open_links.append((len(self._remaining), [place, *(f"{alias}/{name}" for alias, _ in self._aliases)]))
        if target.startswith("/"):
            self._go_to(target)
        else:
            self._remaining += split_names(target)[::-1]

    def _go_up(self) -> None:
        if self._parts:
            self._parts.pop()
            self._aliases = [
                (alias.rpartition("/")[0], length) for alias, length in self._aliases if len(alias) > length
            ]
        else:  # a link may lead from one root to another
            self._go_to(os.path.dirname(self._root.real))

    def _go_to(self, path: str) -> None:
        """Continue at an absolute path. One that leads out of the roots is refused by whoever opens it."""
        self._aliases = []
        names = split_names(path)
        while (found := self._roots.split_absolute("/" + "/".join(names))) is None and self._remaining:
            name = self._remaining.pop()
            names = names[:-1] if name == ".." else [*names, name]
        if found:
            self._root, rel_path = found
            self._parts = []
            self._remaining += split_names(rel_path)[::-1]
