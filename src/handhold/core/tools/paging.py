"""Shared by list, glob and grep: where a search starts, and the result when only one page is shown."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from handhold.core.errors import BadGlob
from handhold.core.facts import SearchHit, SearchOutcome, SkippedFiles, SkipReason
from handhold.core.plans import Search
from handhold.core.policy.guarded_view import GuardedView
from handhold.core.requests import Glob, Grep, ListFiles
from handhold.core.results import SearchHint, SearchSummary, Status
from handhold.core.text.cursor import Cursor, checksum_hit
from handhold.core.text.globs import validate_glob
from handhold.core.text.path_escaping import escape_path, unescape_ambiguous

MAX_PATTERN_CHARS = 10_000  # well below the length that systems accept for one program argument

PAGING_FIELDS = {"path", "limit", "chars", "cursor", "width", "before", "after"}
"""Fields that may differ between pages: they change how much is shown, not what is found."""

INCOMPLETE_SKIP_REASONS: frozenset[SkipReason] = frozenset({"too large", "unreadable", "too deep"})
"""Reasons that leave a search incomplete although nobody asked to skip the files."""


def require_glob(pattern: str) -> None:
    """Raise BadGlob for an invalid glob."""
    if not pattern.strip():
        raise BadGlob(pattern, "it is empty; use ** for all files")
    if because := explain_unusable(pattern):
        raise BadGlob(pattern, because)
    validate_glob(pattern)


def explain_unusable(pattern: str) -> str:
    """Why no engine can take this pattern; empty if it is usable."""
    if "\0" in pattern:
        return "it contains a NUL"
    if len(pattern) > MAX_PATTERN_CHARS:
        return f"it has {len(pattern):,} characters; the limit is {MAX_PATTERN_CHARS:,}"
    if any("\ud800" <= char <= "\udfff" for char in pattern):
        return "it contains half of a surrogate pair"
    return ""


def plan_search(request: ListFiles | Glob | Grep, place: str, files: GuardedView) -> Search:
    """Plan a search from its first item or from its cursor; raise BadCursor for an invalid one."""
    entries = files.options.max_visited_entries if isinstance(request, Glob) else None
    search = Search(request, place, files.options.search_seconds, max_entries=entries)
    if not request.cursor:
        return search
    cursor = Cursor.decode(request.cursor, *build_query_key(request, place))
    return replace(search, start=cursor.start, after=cursor.last, checksum=cursor.state)


def build_query_key(request: ListFiles | Glob | Grep, place: str) -> tuple[str, ...]:
    """The query and its place: the same for all pages of one search."""
    arguments = (
        f"{each.name}={getattr(request, each.name)!r}" for each in fields(request) if each.name not in PAGING_FIELDS
    )
    return (type(request).__name__, place, *arguments)


@dataclass(frozen=True)
class CharBudget:
    """The characters available on a page. The first item is always shown: an empty page would never advance."""

    chars: int

    def count_fitting(self, costs: Sequence[int]) -> int:
        """How many of these items fit."""
        room = self.chars
        for n, cost in enumerate(costs):
            room -= cost
            if room < 0 and n:
                return n
        return len(costs)


def summarize(
    search: Search, outcome: SearchOutcome, hits: Sequence[SearchHit], files: GuardedView, *, hint: SearchHint = ""
) -> SearchSummary:
    """Summarize the search for the hits that are shown."""
    shown, found = count_items(hits), count_items(outcome.hits)
    more = outcome.has_more or shown < found
    return SearchSummary(
        path=files.format_path(unescape_ambiguous(search.place)),
        outcome=replace(outcome, skipped=tuple(format_skipped(each, files) for each in outcome.skipped)),
        start=search.start,
        shown_count=shown,
        has_more=more,
        cursor=build_next_cursor(search, outcome, hits) if more and shown else "",
        status=get_status(outcome, hits, more=more),
        hint=hint if not found else "",
        timeout_seconds=search.timeout_seconds,
    )


def count_items(hits: Sequence[SearchHit]) -> int:
    """The number of items as a limit or a cursor counts them: matching lines if lines are shown, otherwise files."""
    return sum(sum(row.is_match for row in hit.rows) or 1 for hit in hits)


def build_next_cursor(search: Search, outcome: SearchOutcome, hits: Sequence[SearchHit]) -> str:
    """The cursor after these hits.

    Empty if time ran out in a newest-first search: the next search might rank the files differently.
    """
    if outcome.abort_reason == "deadline" and outcome.order == "modified":
        return ""
    state = outcome.checksum
    if not outcome.is_checksum_of_all:
        for hit in hits:
            state = checksum_hit(state, hit)
    last = hits[-1].place.removeprefix(search.place.rstrip("/") + "/") if isinstance(search.request, ListFiles) else ""
    return Cursor(search.start + count_items(hits), state, last).encode(*build_query_key(search.request, search.place))


def get_status(outcome: SearchOutcome, hits: Sequence[SearchHit], *, more: bool) -> Status:
    has_cut_rows = any(any(row.omitted_chars) for hit in hits for row in hit.rows)
    is_incomplete = any(each.rule in INCOMPLETE_SKIP_REASONS for each in outcome.skipped)
    return (
        "partial"
        if more
        or outcome.abort_reason
        or outcome.fallback_reason
        or outcome.unstable_count
        or has_cut_rows
        or is_incomplete
        else "success"
    )


def format_skipped(skipped: SkippedFiles, files: GuardedView) -> SkippedFiles:
    """The same with its ignore file as a display path; an ignore file that is not visible is not quoted."""
    if not skipped.source:
        return skipped
    if not files.is_visible(skipped.source):
        return replace(skipped, source="", line=0, pattern="")
    return replace(skipped, source=files.format_path(skipped.source), pattern=escape_path(skipped.pattern))
