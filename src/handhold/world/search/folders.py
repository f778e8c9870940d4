"""Going through folders, with ripgrep's rules and in its order.

One by one, and never by a function that calls itself, so no tree is too deep. The files of a folder come in runs,
between the folders that stand between them: so all of them come in the order of paths.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from handhold.core.requests import Glob, Grep
from handhold.core.text.globs import Overrides
from handhold.core.text.ignore import Rules
from handhold.world.files.tree import Entry, Tree, rules_in
from handhold.world.search.running import Deadline, Spent

MOST_DEEP = 20_000  # folders; the paths below would fill a page by themselves


class Run(NamedTuple):
    """Files that stand together in one folder."""

    way: bytes
    names: list[bytes]


@dataclass
class Walk:
    """One walk below a folder. `rules` hold at its top, by what stands above it."""

    tree: Tree
    place: str
    rules: Rules
    overrides: Overrides
    hidden: bool = False
    ignored: bool = False
    deadline: Deadline = field(default_factory=lambda: Deadline(inf))
    unsteady: int = 0  # folders that were there a moment ago
    unreadable: int = 0
    too_deep: int = 0
    most: int | None = None  # entries that are visited, counted as their folder is entered; None: all
    visited: int = 0
    spent: bool = False  # there are more than that
    _prefix: bytes = field(init=False)

    def __post_init__(self) -> None:
        self._prefix = os.fsencode(self.place.rstrip("/")) + b"/"

    def runs(self) -> Iterator[Run]:
        """Late when the time is over. Spent behind the last run, if there were more entries than may be visited."""
        ahead: list[tuple[bytes, Rules, Iterator[Entry]]] = []
        if entered := self._entered(b"", self.rules):
            ahead.append(entered)
        while ahead:
            way, rules, entries = ahead[-1]
            names: list[bytes] = []
            below = None
            for name, kind in entries:
                if kind == "file":
                    names.append(name)
                else:
                    below = way + name + b"/"
                    break
            if names:
                yield Run(way, names)
            if below is None:
                ahead.pop()
            elif len(ahead) >= MOST_DEEP:
                self.too_deep += 1
            elif entered := self._entered(below, rules):
                ahead.append(entered)
        if self.spent:
            raise Spent

    def _entered(self, way: bytes, rules: Rules) -> tuple[bytes, Rules, Iterator[Entry]] | None:
        self.deadline.left()
        try:
            entries = self.tree.entries(way)
        except FileNotFoundError:
            self.unsteady += 1
            return None
        except OSError:
            self.unreadable += 1
            return None
        if not self.ignored:
            rules = rules_in(self.tree, os.fsdecode(self._prefix + way).rstrip("/") or "/", way, entries, rules)
        entries = [entry for entry in self._visit(entries) if entry.kind in ("file", "directory")]
        return way, rules, iter(self._kept(way, entries, rules))

    def _visit(self, entries: list[Entry]) -> list[Entry]:
        """These entries in their order, as many as may still be visited."""
        entries = sorted(entries)
        if self.most is not None:
            left = self.most - self.visited
            self.spent = self.spent or len(entries) > left
            entries = entries[:left]
            self.visited += len(entries)
        return entries

    def _kept(self, way: bytes, entries: list[Entry], rules: Rules) -> list[Entry]:
        prefix, verdict, decide = self._prefix + way, self.overrides.verdict, rules.decide
        asks, ruled, hidden = bool(self.overrides.globs), not rules.silent, self.hidden
        kept: list[Entry] = []
        for entry in entries:
            name, kind = entry
            is_directory = kind == "directory"
            said = verdict(way + name, name, directory=is_directory) if asks else None
            if said is None:
                rule = decide(prefix + name, name, directory=is_directory) if ruled else None
                if rule is None:
                    said = hidden or name[0] != 0x2E
                else:
                    said = rule.line.negated
            if said:
                kept.append(entry)
        return kept


def overrides_of(request: Glob | Grep) -> Overrides:
    """What the caller wants of the names. Git's own folder stays out unless everything is asked for."""
    match request:
        case Glob():
            globs = (f"/{request.pattern}",)  # from the folder on: without the slash it would match at any depth
        case Grep():
            globs = (request.glob,) if request.glob else ()
    return Overrides(globs if request.ignored else (*globs, "!.git"))
