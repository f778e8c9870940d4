"""List a folder: directories first, then files, each sorted by name; deeper entries follow their folder.

A page continues after a name, not after a number, so it is the same whatever was added or removed before it. Of a
folder with a million entries, only those of the page are held.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Literal

from handhold.backends.files.directory_tree import DirectoryTree, DiskTree, EntryKind
from handhold.backends.files.workspace import Workspace
from handhold.backends.search.search_folder import open_search_folder
from handhold.backends.search.search_process import Deadline, DeadlineExceeded
from handhold.core.errors import NotDirectory, NotFound, ToolError
from handhold.core.facts import SearchHit, SearchOutcome, SkippedFiles, SkipReason
from handhold.core.plans import Search
from handhold.core.requests import ListFiles
from handhold.core.text.cursor import checksum
from handhold.core.text.default_ignores import find_default_skip_reason
from handhold.core.text.globs import GlobSet, parse_glob_line
from handhold.core.text.path_escaping import escape_ambiguous
from handhold.logs import log_swallowed
from handhold.version import VERSION

ENGINE = f"handhold {VERSION}"
MAX_STAMPED_FOLDERS = 500  # checked for changes between two pages
DEADLINE_CHECK_INTERVAL = 4096  # in entries
MAX_EXTRA_ENTRIES = 512  # held beyond two pages before the excess is dropped

ListedKind = Literal["file", "directory", "link"]
SortKey = tuple[bool, str]  # whether it is not a directory, and its name
ListingItem = tuple[SortKey, ListedKind, bool]  # with its kind, and whether it is a link


@dataclass
class NameRange:
    """The range of names that may still belong to the page; `end` moves closer as more are known."""

    start: str
    end: str | None = None


def list_directory(workspace: Workspace, search: Search, visible: Callable[[str], bool], until: float) -> SearchOutcome:
    asked = escape_ambiguous(search.place)
    look = workspace.stat(asked)
    if look is None:
        raise NotFound(asked, workspace.suggest_paths(asked))
    if look.kind != "directory":
        raise NotDirectory(asked)

    def resolve_link_kind(place: str) -> ListedKind:
        """What a link is shown as: its target's kind, if that is inside the workspace."""
        try:
            there = workspace.stat(escape_ambiguous(place))
        except ToolError:
            log_swallowed()
            return "link"
        return there.kind if there and there.kind != "other" else "link"

    with open_search_folder(workspace, search.place, visible) as (folder, _), DiskTree(folder.fd) as tree:
        return ListingRun(tree, search, visible, resolve_link_kind, Deadline(until)).run()


@dataclass
class ListingRun:
    tree: DirectoryTree
    search: Search
    visible: Callable[[str], bool]
    resolve_link_kind: Callable[[str], ListedKind]
    deadline: Deadline
    skipped: Counter[SkipReason] = field(default_factory=Counter[SkipReason])
    unstable_count: int = 0
    unreadable: int = 0

    def __post_init__(self) -> None:
        assert isinstance(self.search.request, ListFiles)
        self.request = self.search.request
        lines = [line for glob in self.request.ignore if (line := parse_glob_line(glob))]
        self._ignore_globs = GlobSet(lines, lenient=False)
        self._prefix = self.search.place.rstrip("/") + "/"

    def run(self) -> SearchOutcome:
        after = self.search.after.removeprefix(self._prefix)
        found: list[SearchHit] = []
        aborted: Literal["", "deadline"] = ""
        state = 0
        changed = False
        try:
            state = self._compute_checksum()
            changed = self.search.checksum not in (None, state) or bool(after and not self._lookup_kind(after))
            for hit in self._iter_below("", after.split("/") if after else [], self.request.limit + 1):
                found.append(hit)
                if len(found) > self.request.limit:
                    break
        except DeadlineExceeded:
            aborted = "deadline"
        skipped = [SkippedFiles(rule, count) for rule, count in self.skipped.most_common()]
        if self.unreadable:
            skipped.append(SkippedFiles("unreadable", self.unreadable, at_least=True))
        return SearchOutcome(
            hits=tuple(found[: self.request.limit]),
            engine=ENGINE,
            abort_reason=aborted,
            has_more=len(found) > self.request.limit or bool(aborted),
            skipped=tuple(skipped),
            changed_since_cursor=changed,
            checksum=state,
            is_checksum_of_all=True,
            unstable_count=self.unstable_count,
        )

    # --- order

    def _iter_below(self, rel_path: str, after: list[str], limit: int) -> Iterator[SearchHit]:
        """What is below a folder, after the name that `after` leads to."""
        stack = [self._iter_page(rel_path, after, limit)]
        after = after[1:]
        while stack:
            entry = next(stack[-1], None)
            if entry is None:
                stack.pop()
                continue
            path, kind, enter, again = entry
            if not again:
                yield SearchHit(self._prefix + path, kind)
            if enter and len(stack) < self.request.depth:
                stack.append(self._iter_page(path + "/", after if again else [], limit))
            if again:
                after = after[1:]

    def _iter_page(self, rel_path: str, after: list[str], limit: int) -> Iterator[tuple[str, ListedKind, bool, bool]]:
        """The first entries of a folder after a name: path, kind, whether to descend.

        If the previous page ended with a folder, or inside it, that folder comes again, with the last flag set.
        """
        start: SortKey | None = None
        again = False
        if after:
            kind = "directory" if len(after) > 1 else self._lookup_kind(rel_path + after[0])
            again = kind == "directory" and self.request.depth > rel_path.count("/") + 1
            start = (kind not in ("directory", ""), after[0])
        for key, shown, is_link in self._select_first(limit + again, rel_path, start, include_start=again):
            yield rel_path + key[1], shown, shown == "directory" and not is_link, key == start

    def _select_first(
        self, limit: int, rel_path: str, start: SortKey | None, *, include_start: bool
    ) -> list[ListingItem]:
        """The first entries of a folder after `start`, or including it."""
        first: list[ListingItem] = []
        names = NameRange(start[1] if start and start[0] else "")
        for entry in self._iter_entries(rel_path, names):
            key = entry[0]
            if start is None or key > start or (include_start and key == start):
                first.append(entry)
                if len(first) >= 2 * limit + MAX_EXTRA_ENTRIES:
                    first = sorted(first)[:limit]
                    no_directory, name = first[-1][0]
                    names.end = name if no_directory else ""
        return sorted(first)[:limit]

    def _iter_entries(self, rel_path: str, names: NameRange) -> Iterator[ListingItem]:
        """The entries of a folder, without skipped ones and without plain files outside the range."""
        ignore_globs = self._ignore_globs
        try:
            for count, (name, kind) in enumerate(self.tree.iter_entries(os.fsencode(rel_path))):
                if count % DEADLINE_CHECK_INTERVAL == 0:
                    self.deadline.check_remaining()
                plain = kind == "file" and name[0] != "."
                if plain and (name <= names.start or (names.end is not None and name >= names.end)):
                    continue  # nearly all of a million: skip the visibility check
                place = self._prefix + rel_path + name
                if not self.visible(place):
                    continue
                if ignore_globs.lines and self._is_ignored(rel_path, name, kind):
                    continue
                if plain:
                    yield (True, name), "file", False
                elif rule := self._find_skip_rule(name, kind):
                    self.skipped[rule] += 1
                else:
                    shown = self._resolve_kind(place, kind)
                    yield (shown != "directory", name), shown, kind == "link"
        except FileNotFoundError:
            self.unstable_count += 1
        except OSError:
            log_swallowed()
            self.unreadable += 1

    def _find_skip_rule(self, name: str, kind: EntryKind) -> SkipReason | None:
        request = self.request
        is_directory = kind == "directory"
        return find_default_skip_reason(name, is_directory=is_directory, hidden=request.hidden, ignored=request.ignored)

    def _is_ignored(self, rel_path: str, name: str, kind: EntryKind) -> bool:
        path, last = os.fsencode(rel_path + name), os.fsencode(name)
        line = self._ignore_globs.match(path, last, directory=kind == "directory")
        return line is not None and not line.is_negated

    def _resolve_kind(self, place: str, kind: EntryKind) -> ListedKind:
        match kind:
            case "link":
                return self.resolve_link_kind(place)
            case "directory":
                return "directory"
            case _:
                return "file"

    def _lookup_kind(self, path: str) -> str:
        """What a path below the folder is shown as now; empty if it does not exist."""
        above, slash, name = path.rpartition("/")
        kind = self.tree.get_kind(os.fsencode(above + slash), os.fsencode(name))
        return self._resolve_kind(self._prefix + path, kind) if kind else ""

    # --- change detection

    def _compute_checksum(self) -> int:
        """A checksum of the listed folders: it changes when an entry is added or removed."""
        state = 0
        level = [""]
        stamped = 0
        for depth in range(self.request.depth):
            below: list[str] = []
            for rel_path in level:
                try:
                    state = checksum(state, rel_path, self.tree.read_stamp(os.fsencode(rel_path)))
                    if depth + 1 < self.request.depth:
                        below += self._list_folders(rel_path, MAX_STAMPED_FOLDERS - stamped)
                except OSError:
                    log_swallowed()
                    continue
                stamped += 1
                if stamped >= MAX_STAMPED_FOLDERS:
                    return state
            level = below
        return state

    def _list_folders(self, rel_path: str, limit: int) -> list[str]:
        """Only the folders that are shown: changes in others affect no page."""
        folders = (name for name, kind in self.tree.iter_entries(os.fsencode(rel_path)) if kind == "directory")
        shown = (
            name
            for name in folders
            if self.visible(self._prefix + rel_path + name) and not self._find_skip_rule(name, "directory")
        )
        return [f"{rel_path}{name}/" for name in nsmallest(limit, shown)]
