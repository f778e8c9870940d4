"""Listing a folder: directories first, then files, each in the order of their names; deeper ones below their folder.

A page goes on behind a name and not behind a number, so it is the same page whatever came or went before it. Of a
folder with a million entries only those of the page are held.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Literal

from handhold.core.errors import NotDirectory, NotFound, ToolError
from handhold.core.facts import Hit, Rule, Scan, Skipped
from handhold.core.plans import Search
from handhold.core.requests import ListFiles
from handhold.core.text.cursor import checksum
from handhold.core.text.globs import GlobSet, line_of
from handhold.core.text.heavy import HEAVY
from handhold.core.text.names import unmistakable
from handhold.version import VERSION
from handhold.world.files.tree import DiskTree, EntryKind, Tree
from handhold.world.files.workspace import Workspace
from handhold.world.search.checked import opened
from handhold.world.search.running import Deadline, Late

ENGINE = f"handhold {VERSION}"
MOST_STAMPED = 500  # folders that are watched for changes between two pages
EVERY = 4096  # entries between two looks at the clock
SPARE = 512  # entries more than twice a page that are held before those beyond the page are let go

Shown = Literal["file", "directory", "link"]
Key = tuple[bool, str]  # whether it is no directory, and its name
Item = tuple[Key, Shown, bool]  # and whether it is a link


@dataclass
class Span:
    """Between which names the files of a page can still be; `end` comes nearer as more of them are known."""

    start: str
    end: str | None = None


def listing(workspace: Workspace, search: Search, visible: Callable[[str], bool], until: float) -> Scan:
    asked = unmistakable(search.place)
    look = workspace.look(asked)
    if look is None:
        raise NotFound(asked, workspace.near(asked))
    if look.kind != "directory":
        raise NotDirectory(asked)

    def target(place: str) -> Shown:
        """What a link is shown as: what it leads to, if that is inside."""
        try:
            there = workspace.look(unmistakable(place))
        except ToolError:
            return "link"
        return there.kind if there and there.kind != "other" else "link"

    with opened(workspace, search.place, visible) as (folder, _), DiskTree(folder.fd) as tree:
        return Listing(tree, search, visible, target, Deadline(until)).scan()


@dataclass
class Listing:
    tree: Tree
    search: Search
    visible: Callable[[str], bool]
    target: Callable[[str], Shown]
    deadline: Deadline
    skipped: Counter[Rule] = field(default_factory=Counter[Rule])
    unsteady: int = 0
    unreadable: int = 0

    def __post_init__(self) -> None:
        assert isinstance(self.search.request, ListFiles)
        self.request = self.search.request
        lines = [line for glob in self.request.ignore if (line := line_of(glob))]
        self._unwanted = GlobSet(lines, lenient=False)
        self._prefix = self.search.place.rstrip("/") + "/"

    def scan(self) -> Scan:
        after = self.search.after.removeprefix(self._prefix)
        found: list[Hit] = []
        aborted: Literal["", "deadline"] = ""
        state = 0
        changed = False
        try:
            state = self._state()
            changed = self.search.state not in (None, state) or bool(after and not self._kind(after))
            for hit in self._below("", after.split("/") if after else [], self.request.limit + 1):
                found.append(hit)
                if len(found) > self.request.limit:
                    break
        except Late:
            aborted = "deadline"
        skipped = [Skipped(rule, count) for rule, count in self.skipped.most_common()]
        if self.unreadable:
            skipped.append(Skipped("unreadable", self.unreadable, at_least=True))
        return Scan(
            hits=tuple(found[: self.request.limit]),
            engine=ENGINE,
            aborted=aborted,
            more=len(found) > self.request.limit or bool(aborted),
            skipped=tuple(skipped),
            changed=changed,
            state=state,
            whole=True,
            unsteady=self.unsteady,
        )

    # --- in order

    def _below(self, way: str, after: list[str], wanted: int) -> Iterator[Hit]:
        """What is below a folder, from behind the name that `after` leads to."""
        ahead = [self._page(way, after, wanted)]
        after = after[1:]
        while ahead:
            entry = next(ahead[-1], None)
            if entry is None:
                ahead.pop()
                continue
            path, kind, enter, again = entry
            if not again:
                yield Hit(self._prefix + path, kind)
            if enter and len(ahead) < self.request.depth:
                ahead.append(self._page(path + "/", after if again else [], wanted))
            if again:
                after = after[1:]

    def _page(self, way: str, after: list[str], wanted: int) -> Iterator[tuple[str, Shown, bool, bool]]:
        """The first entries of a folder that come behind a name: path, kind, whether to go into it.

        If the page before ended with a folder, or in it, that one comes once more, and the last flag tells so.
        """
        start: Key | None = None
        again = False
        if after:
            kind = "directory" if len(after) > 1 else self._kind(way + after[0])
            again = kind == "directory" and self.request.depth > way.count("/") + 1
            start = (kind not in ("directory", ""), after[0])
        for key, shown, is_link in self._first(wanted + again, way, start, again=again):
            yield way + key[1], shown, shown == "directory" and not is_link, key == start

    def _first(self, most: int, way: str, start: Key | None, *, again: bool) -> list[Item]:
        """Those of a folder that come first from behind `start` on, or with it."""
        first: list[Item] = []
        span = Span(start[1] if start and start[0] else "")
        for entry in self._wanted(way, span):
            key = entry[0]
            if start is None or key > start or (again and key == start):
                first.append(entry)
                if len(first) >= 2 * most + SPARE:
                    first = sorted(first)[:most]
                    no_directory, name = first[-1][0]
                    span.end = name if no_directory else ""
        return sorted(first)[:most]

    def _wanted(self, way: str, span: Span) -> Iterator[Item]:
        """What a folder holds, without what is left out and without plain files that are outside of the span."""
        unwanted = self._unwanted
        try:
            for count, (name, kind) in enumerate(self.tree.stream(os.fsencode(way))):
                if count % EVERY == 0:
                    self.deadline.left()
                plain = kind == "file" and name[0] != "."
                if plain and (name <= span.start or (span.end is not None and name >= span.end)):
                    continue  # nearly all, of a million: who may see them is not asked
                place = self._prefix + way + name
                if not self.visible(place):
                    continue
                if unwanted.lines and self._is_unwanted(way, name, kind):
                    continue
                if plain:
                    yield (True, name), "file", False
                elif rule := self._left_out(name, kind):
                    self.skipped[rule] += 1
                else:
                    shown = self._shown(place, kind)
                    yield (shown != "directory", name), shown, kind == "link"
        except FileNotFoundError:
            self.unsteady += 1
        except OSError:
            self.unreadable += 1

    def _left_out(self, name: str, kind: EntryKind) -> Rule | None:
        if not self.request.ignored and name in HEAVY and kind == "directory":
            return "heavy folder"
        return "hidden" if not self.request.hidden and name.startswith(".") else None

    def _is_unwanted(self, way: str, name: str, kind: EntryKind) -> bool:
        path, last = os.fsencode(way + name), os.fsencode(name)
        line = self._unwanted.match(path, last, directory=kind == "directory")
        return line is not None and not line.negated

    def _shown(self, place: str, kind: EntryKind) -> Shown:
        match kind:
            case "link":
                return self.target(place)
            case "directory":
                return "directory"
            case _:
                return "file"

    def _kind(self, path: str) -> str:
        """What a path below the folder is shown as now; empty if nothing is there."""
        above, slash, name = path.rpartition("/")
        kind = self.tree.kind(os.fsencode(above + slash), os.fsencode(name))
        return self._shown(self._prefix + path, kind) if kind else ""

    # --- whether it is still the same

    def _state(self) -> int:
        """A checksum of the folders that a listing shows: it changes when something comes or goes in one of them."""
        state = 0
        level = [""]
        stamped = 0
        for depth in range(self.request.depth):
            below: list[str] = []
            for way in level:
                try:
                    state = checksum(state, way, self.tree.stamp(os.fsencode(way)))
                    if depth + 1 < self.request.depth:
                        below += self._folders(way, MOST_STAMPED - stamped)
                except OSError:
                    continue
                stamped += 1
                if stamped >= MOST_STAMPED:
                    return state
            level = below
        return state

    def _folders(self, way: str, most: int) -> list[str]:
        """Those that are shown: what comes or goes in another changes no page."""
        folders = (name for name, kind in self.tree.stream(os.fsencode(way)) if kind == "directory")
        shown = (
            name
            for name in folders
            if self.visible(self._prefix + way + name) and not self._left_out(name, "directory")
        )
        return [f"{way}{name}/" for name in nsmallest(most, shown)]
