"""What a search did not look at, and by which rule: after a miss, that is half the answer."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from handhold.core.facts import Skipped
from handhold.core.requests import Glob, Grep
from handhold.core.text.globs import Overrides
from handhold.core.text.ignore import Rules
from handhold.world.files.tree import Tree, above, rules_above, rules_in
from handhold.world.files.workspace import Workspace
from handhold.world.search.checked import opened
from handhold.world.search.folders import Walk, overrides_of
from handhold.world.search.running import Deadline, Late

ACCOUNT = 0.5  # seconds, for telling what was not searched


class Reason(NamedTuple):
    """Why a file is left out: by a line of an ignore file, or else because it is hidden."""

    source: str = ""
    line: int = 0
    pattern: str = ""


@dataclass
class Judge:
    """Says of any file below a folder why a search leaves it out. The topmost folder that is out decides."""

    tree: Tree
    place: str
    rules: Rules
    overrides: Overrides
    hidden: bool
    ignored: bool
    _known: dict[bytes, tuple[Reason | None, Rules]] = field(default_factory=dict[bytes, tuple[Reason | None, Rules]])

    def reason(self, way: bytes, name: bytes) -> Reason | None:
        """None if it is searched."""
        reason, rules = self._folder(way)
        return reason or self._decided(way, name, rules, directory=False)

    def _folder(self, way: bytes) -> tuple[Reason | None, Rules]:
        ahead = [way]
        while ahead[-1] and ahead[-1] not in self._known:
            ahead.append(above(ahead[-1]))
        while ahead:
            way = ahead.pop()
            if way not in self._known:
                self._known[way] = self._judged(way)
        return self._known[way]

    def _judged(self, way: bytes) -> tuple[Reason | None, Rules]:
        rules = self.rules
        if way:
            reason, rules = self._known[above(way)]
            reason = reason or self._decided(above(way), way[:-1].rpartition(b"/")[2], rules, directory=True)
            if reason:
                return reason, rules
        try:
            marks = () if self.ignored else self.tree.marks(way)
        except OSError:
            marks = ()
        folder = self.place.rstrip("/") + "/" + os.fsdecode(way)
        return None, rules_in(self.tree, folder.rstrip("/") or "/", way, marks, rules)

    def _decided(self, way: bytes, name: bytes, rules: Rules, *, directory: bool) -> Reason | None:
        if self.overrides.verdict(way + name, name, directory=directory):
            return None
        place = os.fsencode(self.place.rstrip("/")) + b"/" + way + name
        rule = rules.decide(place, name, directory=directory)
        if rule is None:
            return None if self.hidden or not name.startswith(b".") else Reason()
        return None if rule.line.negated else Reason(rule.source, rule.line.number, rule.line.text)


def unsearched(
    tree: Tree, place: str, rules: Rules, request: Glob | Grep, visible: Callable[[str], bool], until: float
) -> Iterator[Skipped]:
    """The files that a search would have looked at if no rule had hidden them, by rule."""
    if request.hidden and request.ignored:
        return
    overrides = overrides_of(request)
    judge = Judge(tree, place, rules, overrides, request.hidden, request.ignored)
    walk = Walk(tree, place, Rules(), Overrides((*overrides.globs, "!.git")), hidden=True, ignored=True)
    walk.deadline = Deadline(until)
    prefix = place.rstrip("/") + "/"

    def files() -> Iterator[tuple[bytes, bytes]]:
        for way, names in walk.runs():
            yield from ((way, name) for name in names if visible(prefix + os.fsdecode(way + name)))

    yield from grouped(files(), judge, Deadline(until))


class Looked(NamedTuple):
    """How many files there were to be matched, and how many more of them the policy hides."""

    seen: int
    denied: int


def looked_at(
    tree: Tree, place: str, rules: Rules, request: Glob | Grep, visible: Callable[[str], bool], until: float
) -> Looked | None:
    """Whatever their names: else a pattern would tell which names are hidden. None if there is no time to count."""
    overrides = Overrides(() if request.ignored else ("!.git",))
    walk = Walk(tree, place, rules, overrides, request.hidden, request.ignored, Deadline(until))
    prefix = place.rstrip("/") + "/"
    seen = total = 0
    try:
        for way, names in walk.runs():
            total += len(names)
            seen += sum(visible(prefix + os.fsdecode(way + name)) for name in names)
    except Late:
        return None
    return Looked(seen, total - seen)


def skipped_by_rule(
    workspace: Workspace, place: str, paths: Iterable[str], *, hidden: bool, ignored: bool, until: float
) -> list[Skipped]:
    """Why a search of a folder leaves out these places below it, by rule."""
    prefix = place.rstrip("/") + "/"
    with opened(workspace, place, lambda _: True) as (folder, _), folder.tree() as tree:
        rules = Rules() if ignored else rules_above(workspace, place, folder.shows_place)
        judge = Judge(tree, place, rules, Overrides(), hidden, ignored)
        ways = (os.fsencode(path.removeprefix(prefix)).rpartition(b"/") for path in paths)
        return list(grouped(((way + slash, name) for way, slash, name in ways), judge, Deadline(until)))


def grouped(files: Iterator[tuple[bytes, bytes]], judge: Judge, deadline: Deadline) -> Iterator[Skipped]:
    found: Counter[Reason] = Counter()
    at_least = False
    try:
        for count, (way, name) in enumerate(files):
            if count % 256 == 0:
                deadline.left()
            if reason := judge.reason(way, name):
                found[reason] += 1
    except Late:
        at_least = True
    for reason, files_hidden in found.most_common():
        rule = "ignore file" if reason.source else "hidden"
        yield Skipped(rule, files_hidden, *reason, at_least=at_least)
