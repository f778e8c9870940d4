"""Traverse folders, with ripgrep's rules and in path order.

Iterative, so that no tree is too deep. The files of a folder come in runs between its subfolders, so that all files
come in path order.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from handhold.backends.files.directory_tree import DirectoryTree, TreeEntry
from handhold.backends.search.ignore_rules import load_folder_rules
from handhold.backends.search.search_process import Deadline, EntryLimitReached
from handhold.core.requests import Glob, Grep
from handhold.core.text.default_ignores import find_default_skip_reason
from handhold.core.text.globs import Overrides
from handhold.core.text.ignore import IgnoreRules
from handhold.logs import log_swallowed

MAX_DEPTH = 20_000  # paths below would fill a page by themselves


class DirectoryFiles(NamedTuple):
    """Consecutive files of one folder."""

    rel_path: bytes
    names: list[bytes]


@dataclass
class TreeWalk:
    """One traversal below a folder. `rules` are those of its parents."""

    tree: DirectoryTree
    place: str
    rules: IgnoreRules
    overrides: Overrides
    hidden: bool = False
    ignored: bool = False
    flags_decide: bool = False  # see SearchRequest
    deadline: Deadline = field(default_factory=lambda: Deadline(inf))
    unstable_count: int = 0  # folders that have just disappeared
    unreadable: int = 0
    too_deep: int = 0
    max_entries: int | None = None  # visited entries, counted when their folder is entered; None: all. If the flags
    # decide, entries that they exclude do not count
    visited: int = 0
    limit_reached: bool = False  # there are more than that
    _prefix: bytes = field(init=False)

    def __post_init__(self) -> None:
        self._prefix = os.fsencode(self.place.rstrip("/")) + b"/"

    def iter_files(self) -> Iterator[DirectoryFiles]:
        """Raise DeadlineExceeded when time runs out.

        Raise EntryLimitReached after the last run, if there are more entries than may be visited.
        """
        stack: list[tuple[bytes, IgnoreRules, Iterator[TreeEntry]]] = []
        if entered := self._enter(b"", self.rules):
            stack.append(entered)
        while stack:
            rel_path, rules, entries = stack[-1]
            names: list[bytes] = []
            below = None
            for name, kind in entries:
                if kind == "file":
                    names.append(name)
                else:
                    below = rel_path + name + b"/"
                    break
            if names:
                yield DirectoryFiles(rel_path, names)
            if below is None:
                stack.pop()
            elif len(stack) >= MAX_DEPTH:
                self.too_deep += 1
            elif entered := self._enter(below, rules):
                stack.append(entered)
        if self.limit_reached:
            raise EntryLimitReached

    def _enter(self, rel_path: bytes, rules: IgnoreRules) -> tuple[bytes, IgnoreRules, Iterator[TreeEntry]] | None:
        self.deadline.check_remaining()
        try:
            entries = self.tree.list_entries(rel_path)
        except FileNotFoundError:
            self.unstable_count += 1
            return None
        except OSError:
            log_swallowed()
            self.unreadable += 1
            return None
        if not self.ignored:
            rules = load_folder_rules(
                self.tree, os.fsdecode(self._prefix + rel_path).rstrip("/") or "/", rel_path, entries, rules
            )
        entries = sorted(entries)
        if self.flags_decide:
            entries = [entry for entry in entries if self._is_included_by_flags(rel_path, entry, rules)]
        entries = [entry for entry in self._visit(entries) if entry.kind in ("file", "directory")]
        return rel_path, rules, iter(self._filter_entries(rel_path, entries, rules))

    def _is_included_by_flags(self, rel_path: bytes, entry: TreeEntry, rules: IgnoreRules) -> bool:
        is_directory = entry.kind == "directory"
        name = os.fsdecode(entry.name)
        if find_default_skip_reason(name, is_directory=is_directory, hidden=self.hidden, ignored=self.ignored):
            return False
        rule = rules.decide(self._prefix + rel_path + entry.name, entry.name, directory=is_directory)
        return rule is None or rule.line.is_negated

    def _visit(self, entries: list[TreeEntry]) -> list[TreeEntry]:
        """As many of these entries as may still be visited."""
        if self.max_entries is not None:
            left = self.max_entries - self.visited
            self.limit_reached = self.limit_reached or len(entries) > left
            entries = entries[:left]
            self.visited += len(entries)
        return entries

    def _filter_entries(self, rel_path: bytes, entries: list[TreeEntry], rules: IgnoreRules) -> list[TreeEntry]:
        prefix, verdict, decide = self._prefix + rel_path, self.overrides.decide, rules.decide
        has_overrides, has_rules, hidden = bool(self.overrides.globs), not rules.is_empty, self.hidden
        kept: list[TreeEntry] = []
        for entry in entries:
            name, kind = entry
            is_directory = kind == "directory"
            included = verdict(rel_path + name, name, directory=is_directory) if has_overrides else None
            if self.flags_decide:
                included = included is not False
            elif included is None:
                rule = decide(prefix + name, name, directory=is_directory) if has_rules else None
                if rule is None:
                    included = hidden or name[0] != 0x2E
                else:
                    included = rule.line.is_negated
            if included:
                kept.append(entry)
        return kept


def build_walk(
    tree: DirectoryTree, place: str, rules: IgnoreRules, request: Glob | Grep, deadline: Deadline
) -> TreeWalk:
    """The walk over what a request searches."""
    overrides = build_overrides(request)
    return TreeWalk(tree, place, rules, overrides, request.hidden, request.ignored, request.flags_decide, deadline)


def build_overrides(request: Glob | Grep) -> Overrides:
    """The request's globs. Git's own folder is left out unless everything is requested."""
    match request:
        case Glob():
            globs = (f"/{request.pattern}",)  # relative to the folder: without the slash it would match at any depth
        case Grep():
            globs = (request.glob,) if request.glob else ()
    return Overrides(globs if request.ignored else (*globs, "!.git"))
