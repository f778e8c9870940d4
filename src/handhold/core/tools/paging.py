"""What list, glob and grep share: where a search begins, and what it comes to when only a page of it is shown."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from handhold.core.errors import BadGlob
from handhold.core.facts import Hit, Rule, Scan, Skipped
from handhold.core.plans import Search
from handhold.core.policy.guard import GuardedView
from handhold.core.requests import Glob, Grep, ListFiles
from handhold.core.results import Hint, Searched, Status
from handhold.core.text.cursor import Cursor, passed
from handhold.core.text.globs import checked
from handhold.core.text.names import escaped, real

MOST_PATTERN = 10_000  # characters; no system hands a hundred thousand to a program as one argument

NOT_ASKED = {"path", "limit", "chars", "cursor", "width", "before", "after"}
"""What may differ from one page to the next: it changes how much is shown, and not what is found."""

LOST: frozenset[Rule] = frozenset({"too large", "unreadable", "too deep"})
"""Rules by which something is left out that nobody wanted left out."""


def must_be_glob(pattern: str) -> None:
    """BadGlob if it is none."""
    if not pattern.strip():
        raise BadGlob(pattern, "it is empty")
    if because := unfit(pattern):
        raise BadGlob(pattern, because)
    checked(pattern)


def unfit(pattern: str) -> str:
    """Why no engine can be handed this pattern; empty if one can."""
    if "\0" in pattern:
        return "it holds a NUL, which is in no text and in no name"
    if len(pattern) > MOST_PATTERN:
        return f"it has {len(pattern):,} characters, and at most {MOST_PATTERN:,} are taken"
    if any("\ud800" <= char <= "\udfff" for char in pattern):
        return "it holds half of a character"
    return ""


def begin(request: ListFiles | Glob | Grep, place: str, files: GuardedView) -> Search:
    """The search from its first item on, or from where its cursor stands; BadCursor."""
    entries = files.traits.visited_entries if isinstance(request, Glob) else None
    search = Search(request, place, files.traits.search_seconds, entries=entries)
    if not request.cursor:
        return search
    cursor = Cursor.decode(request.cursor, *query(request, place))
    return replace(search, start=cursor.start, after=cursor.last, state=cursor.state)


def query(request: ListFiles | Glob | Grep, place: str) -> tuple[str, ...]:
    """What is looked for, and where: the same for every page of it."""
    asked = (f"{each.name}={getattr(request, each.name)!r}" for each in fields(request) if each.name not in NOT_ASKED)
    return (type(request).__name__, place, *asked)


@dataclass(frozen=True)
class Budget:
    """How many characters a page has. Its first item is shown whatever it costs: an empty page would never end."""

    chars: int

    def holds(self, costs: Sequence[int]) -> int:
        """How many of these items it has room for."""
        room = self.chars
        for n, cost in enumerate(costs):
            room -= cost
            if room < 0 and n:
                return n
        return len(costs)


def covered(search: Search, scan: Scan, hits: Sequence[Hit], files: GuardedView, *, hint: Hint = "") -> Searched:
    """How the search went, if these hits of it are shown."""
    shown, found = items(hits), items(scan.hits)
    more = scan.more or shown < found
    return Searched(
        path=files.spelled(real(search.place)),
        scan=replace(scan, skipped=tuple(told(each, files) for each in scan.skipped)),
        start=search.start,
        shown=shown,
        more=more,
        cursor=rest(search, scan, hits) if more and shown else "",
        status=status(scan, hits, more=more),
        hint=hint if not found else "",
        seconds=search.seconds,
    )


def items(hits: Sequence[Hit]) -> int:
    """What a limit and a cursor count: matching lines where lines are shown, else files."""
    return sum(sum(row.is_match for row in hit.rows) or 1 for hit in hits)


def rest(search: Search, scan: Scan, hits: Sequence[Hit]) -> str:
    """The cursor behind these hits.

    None where time ran out on the newest: which ones those are, the next search would see otherwise.
    """
    if scan.aborted == "deadline" and scan.order == "modified":
        return ""
    state = scan.state
    if not scan.whole:
        for hit in hits:
            state = passed(state, hit)
    last = hits[-1].place.removeprefix(search.place.rstrip("/") + "/") if isinstance(search.request, ListFiles) else ""
    return Cursor(search.start + items(hits), state, last).encode(*query(search.request, search.place))


def status(scan: Scan, hits: Sequence[Hit], *, more: bool) -> Status:
    cut = any(any(row.cut) for hit in hits for row in hit.rows)
    lost = any(each.rule in LOST for each in scan.skipped)
    return "partial" if more or scan.aborted or scan.weaker or scan.unsteady or cut or lost else "success"


def told(skipped: Skipped, files: GuardedView) -> Skipped:
    """The same, its ignore file spelled as other paths are; one that may not be seen is not quoted either."""
    if not skipped.source:
        return skipped
    if not files.visible(skipped.source):
        return replace(skipped, source="", line=0, pattern="")
    return replace(skipped, source=files.spelled(skipped.source), pattern=escaped(skipped.pattern))
