"""What a search left out, and by which rule: when nothing is found, that is half the answer."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from math import inf
from time import monotonic
from typing import NamedTuple

from handhold.backends.files.directory_tree import DirectoryTree, parent_of
from handhold.backends.files.workspace import Workspace
from handhold.backends.search.ignore_rules import load_folder_rules, load_parent_rules
from handhold.backends.search.search_folder import open_search_folder
from handhold.backends.search.search_process import Deadline, DeadlineExceeded
from handhold.backends.search.tree_walk import TreeWalk, build_overrides
from handhold.core.facts import SkippedFiles, SkipReason
from handhold.core.requests import Glob, Grep
from handhold.core.text.default_ignores import find_default_skip_reason
from handhold.core.text.globs import Overrides
from handhold.core.text.ignore import IgnoreRules
from handhold.logs import log_swallowed

COVERAGE_TIMEOUT_SECONDS = 0.5  # for finding out what was not searched


def limit_coverage(until: float = inf, *, search_seconds: float = 0.0) -> float:
    """When to stop finding out what was not searched: at the latest `until`, and sooner after a short search."""
    return min(until, monotonic() + max(COVERAGE_TIMEOUT_SECONDS, 2 * search_seconds))


class ExclusionRule(NamedTuple):
    """Why a file is left out: by a line of an ignore file, or by the name of the file or of a folder above it."""

    reason: SkipReason = "hidden"
    source: str = ""
    line: int = 0
    pattern: str = ""


@dataclass
class ExclusionClassifier:
    """Tells why a search leaves out a file below a folder. The topmost excluded folder decides."""

    tree: DirectoryTree
    place: str
    rules: IgnoreRules
    overrides: Overrides
    hidden: bool
    ignored: bool
    flags_decide: bool = False
    _by_folder: dict[bytes, tuple[ExclusionRule | None, IgnoreRules]] = field(
        default_factory=dict[bytes, tuple[ExclusionRule | None, IgnoreRules]]
    )

    def find_rule(self, rel_path: bytes, name: bytes) -> ExclusionRule | None:
        """None if it is searched."""
        reason, rules = self._classify_folder(rel_path)
        return reason or self._find_entry_rule(rel_path, name, rules, is_directory=False)

    def _classify_folder(self, rel_path: bytes) -> tuple[ExclusionRule | None, IgnoreRules]:
        stack = [rel_path]
        while stack[-1] and stack[-1] not in self._by_folder:
            stack.append(parent_of(stack[-1]))
        while stack:
            rel_path = stack.pop()
            if rel_path not in self._by_folder:
                self._by_folder[rel_path] = self._compute_folder(rel_path)
        return self._by_folder[rel_path]

    def _compute_folder(self, rel_path: bytes) -> tuple[ExclusionRule | None, IgnoreRules]:
        rules = self.rules
        if rel_path:
            reason, rules = self._by_folder[parent_of(rel_path)]
            reason = reason or self._find_entry_rule(
                parent_of(rel_path), rel_path[:-1].rpartition(b"/")[2], rules, is_directory=True
            )
            if reason:
                return reason, rules
        try:
            marks = () if self.ignored else self.tree.list_markers(rel_path)
        except OSError:
            log_swallowed()
            marks = ()
        folder = self.place.rstrip("/") + "/" + os.fsdecode(rel_path)
        return None, load_folder_rules(self.tree, folder.rstrip("/") or "/", rel_path, marks, rules)

    def _find_entry_rule(
        self, rel_path: bytes, name: bytes, rules: IgnoreRules, *, is_directory: bool
    ) -> ExclusionRule | None:
        if self.flags_decide:
            reason = find_default_skip_reason(
                os.fsdecode(name), is_directory=is_directory, hidden=self.hidden, ignored=self.ignored
            )
            if reason:
                return ExclusionRule(reason)
        elif self.overrides.decide(rel_path + name, name, directory=is_directory):
            return None
        place = os.fsencode(self.place.rstrip("/")) + b"/" + rel_path + name
        rule = rules.decide(place, name, directory=is_directory)
        if rule is None:
            return None if self.hidden or not name.startswith(b".") else ExclusionRule()
        line = rule.line
        return None if line.is_negated else ExclusionRule("ignore file", rule.source, line.number, line.text)


def build_classifier(tree: DirectoryTree, place: str, rules: IgnoreRules, request: Glob | Grep) -> ExclusionClassifier:
    overrides = build_overrides(request)
    return ExclusionClassifier(tree, place, rules, overrides, request.hidden, request.ignored, request.flags_decide)


def iter_skipped(
    tree: DirectoryTree,
    place: str,
    rules: IgnoreRules,
    request: Glob | Grep,
    visible: Callable[[str], bool],
    until: float,
) -> Iterator[SkippedFiles]:
    """The files that a search would have covered if no rule had excluded them, by rule."""
    if request.hidden and request.ignored:
        return
    classifier = build_classifier(tree, place, rules, request)
    everything = Overrides((*classifier.overrides.globs, "!.git"))
    walk = TreeWalk(tree, place, IgnoreRules(), everything, hidden=True, ignored=True)
    walk.deadline = Deadline(until)
    prefix = place.rstrip("/") + "/"

    def iter_files() -> Iterator[tuple[bytes, bytes]]:
        for way, names in walk.iter_files():
            yield from ((way, name) for name in names if visible(prefix + os.fsdecode(way + name)))

    yield from count_by_rule(iter_files(), classifier, Deadline(until))


class FileCounts(NamedTuple):
    """The number of candidate files, and how many more the policy hides."""

    visible: int
    denied: int


def count_files(
    tree: DirectoryTree,
    place: str,
    rules: IgnoreRules,
    request: Glob | Grep,
    visible: Callable[[str], bool],
    until: float,
) -> FileCounts | None:
    """Counts all names: otherwise a pattern would reveal which names are hidden. None if there is no time to count."""
    overrides = Overrides(() if request.ignored else ("!.git",))
    walk = TreeWalk(
        tree, place, rules, overrides, request.hidden, request.ignored, request.flags_decide, Deadline(until)
    )
    prefix = place.rstrip("/") + "/"
    seen = total = 0
    try:
        for rel_path, names in walk.iter_files():
            total += len(names)
            seen += sum(visible(prefix + os.fsdecode(rel_path + name)) for name in names)
    except DeadlineExceeded:
        return None
    return FileCounts(seen, total - seen)


def explain_skipped_paths(
    workspace: Workspace, place: str, paths: Iterable[str], *, hidden: bool, ignored: bool, until: float
) -> list[SkippedFiles]:
    """Why a search of a folder leaves out these places below it, by rule."""
    prefix = place.rstrip("/") + "/"
    with open_search_folder(workspace, place, lambda _: True) as (folder, _), folder.open_tree() as tree:
        rules = IgnoreRules() if ignored else load_parent_rules(workspace, place, folder.can_show_place)
        classifier = ExclusionClassifier(tree, place, rules, Overrides(), hidden, ignored)
        ways = (os.fsencode(path.removeprefix(prefix)).rpartition(b"/") for path in paths)
        return list(count_by_rule(((way + slash, name) for way, slash, name in ways), classifier, Deadline(until)))


def count_by_rule(
    files: Iterator[tuple[bytes, bytes]], classifier: ExclusionClassifier, deadline: Deadline
) -> Iterator[SkippedFiles]:
    found: Counter[ExclusionRule] = Counter()
    at_least = False
    try:
        for count, (rel_path, name) in enumerate(files):
            if count % 256 == 0:
                deadline.check_remaining()
            if reason := classifier.find_rule(rel_path, name):
                found[reason] += 1
    except DeadlineExceeded:
        at_least = True
    for reason, files_hidden in found.most_common():
        yield SkippedFiles(reason.reason, files_hidden, *reason[1:], at_least=at_least)
