"""What a search with ripgrep did not look at: after a miss, that is half the answer.

Ripgrep itself says which files it looks at, which there are, and which hold a NUL; our own rules say why the others are
left out. All of it may take half a second, or twice what the search itself took.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from time import monotonic

from handhold.core.facts import Skipped
from handhold.core.requests import Glob, Grep
from handhold.core.text.ignore import Rules
from handhold.world.files.tree import rules_above
from handhold.world.search.folders import overrides_of
from handhold.world.search.ripgrep import HERE, Run, which
from handhold.world.search.running import Broken, Deadline, Late, between_nuls
from handhold.world.search.unsearched import ACCOUNT, Judge, grouped

MOST_NAMES = 200_000  # of files; where there are more, nobody wants them held


class Miss:
    """How many files were searched, and what was left out; None and too little where time ran out."""

    def __init__(self, run: Run) -> None:
        self.searched: int | None = None
        self.skipped: list[Skipped] = []
        self._run = run
        now = monotonic()
        self._deadline = Deadline(min(run.until, now + max(ACCOUNT, 2 * (now - run.began))))
        if run.name:
            self.searched = 1
            return
        try:
            self._account(run.request)
        except (Late, Broken):
            pass

    def _account(self, request: Glob | Grep) -> None:
        glob = request.glob if isinstance(request, Grep) else ""
        closed: Counter[int] = Counter()  # no file is opened here, so these are folders
        names = set(islice(self._named("--files", *which(request, glob=glob), known=closed), MOST_NAMES))
        if len(names) == MOST_NAMES:
            return
        seen = sum(map(self._visible, names))
        if denied := self._denied(request) if glob else len(names) - seen:
            self.skipped.append(Skipped("denied", denied))
        if not (request.hidden and request.ignored):
            self._by_rule(request, names)
        self.searched = seen
        if isinstance(request, Grep) and seen:
            self.searched -= self._binary(request) + max(0, self._run.trouble.total() - closed.total())

    def _denied(self, request: Glob | Grep) -> int:
        """Whatever their names: else a glob would tell which names the policy hides."""
        return sum(not self._visible(name) for name in self._named("--files", *which(request, glob="")))

    def _by_rule(self, request: Glob | Grep, names: set[bytes]) -> None:
        """Why the others are not among `names`; of a glob, only those count that it would have matched."""
        everything = ["--files", "--hidden", "--no-ignore"]
        wanted = request.glob if isinstance(request, Grep) else f"/{request.pattern}"
        if wanted:
            everything.append(f"--glob={wanted}")
        others = [
            name for name in self._named(*everything, "--glob=!.git") if name not in names and self._visible(name)
        ]
        folder = self._run.folder
        place = folder.place(b"").rstrip("/") or "/"
        with folder.tree() as tree:
            rules = Rules() if request.ignored else rules_above(folder.workspace, place, folder.shows_place)
            judge = Judge(tree, place, rules, overrides_of(request), request.hidden, request.ignored)
            ways = (name.rpartition(b"/") for name in others)
            self.skipped += grouped(((way + slash, name) for way, slash, name in ways), judge, self._deadline)

    def _binary(self, request: Grep) -> int:
        """Those that hold a NUL."""
        found, late = 0, False
        try:
            for name in self._named(
                "--files-with-matches", "--text", r"--regexp=\x00", *which(request, glob=request.glob)
            ):
                found += self._visible(name)
        except Late:
            late = True
        if found or late:
            self.skipped.append(Skipped("binary", found, at_least=late))
        return found

    def _visible(self, name: bytes) -> bool:
        return self._run.folder.visible(self._run.folder.place(name))

    def _named(self, *how: str, known: Counter[int] | None = None) -> Iterator[bytes]:
        known = Counter() if known is None else known
        with closing(self._run.heard(self._deadline, ["--null", *how], [b""], known)) as said:
            for names in between_nuls(said):
                yield from (name.removeprefix(HERE) for name in names)
