"""Grep: find files by content, newest first; literal unless a regular expression is requested."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from handhold.core.errors import BadPattern, NotRegularFile
from handhold.core.facts import MatchRow, SearchHit, SearchOutcome
from handhold.core.plans import Search
from handhold.core.policy.guarded_view import GuardedView
from handhold.core.requests import Grep
from handhold.core.results import GrepResult, SearchHint
from handhold.core.text.clip import clip
from handhold.core.text.token_rules import MAX_KEY_CHARS
from handhold.core.tools.paging import CharBudget, explain_unusable, plan_search, require_glob, summarize

CUT_MARKERS_CHARS = 70  # for the notes on how much of a line was left out before and after
COUNT_CHARS = 14  # a colon and a number

LOOKS_LIKE_REGEX = re.compile(
    r"\.[*+]|\\[bBdDsSwW.()\[\]{}|?+*^$]|\[\^|\[[^\]]*\w-\w|\(\?|[\w)]\|[\w(]|^\^|\w\$$|[)\]][*+?{]"
)
"""Text that is hardly ever meant literally."""

LOOKS_LITERAL = re.compile(r"\(\)|\w\([^?|)]*\)(?![*+?{])|\[\d*\]|\$[\w{(]|\{\w*\}|\?\.\w|\+\+|^[*+?]")
"""Text that is hardly ever meant as a regular expression."""

PART_OF_TOKEN = re.compile(r"(?=[A-Za-z_+/=-]{0,40}\d)[\w+/=-]{20}")
"""What any larger part of a token has: the line around it is read only then."""


def plan(request: Grep, files: GuardedView) -> Search:
    stat = files.stat_existing(request.path)
    if stat.kind == "other":
        raise NotRegularFile(request.path, stat.kind)
    require_pattern(request.pattern)
    if request.glob:
        require_glob(request.glob)
    return plan_search(replace(request, glob=relativize_glob(request.glob, stat.path)), stat.path, files)


def relativize_glob(glob: str, place: str) -> str:
    """Make a filter that the model wrote as an absolute path relative to the search folder."""
    negated = glob[:1] if glob.startswith("!") else ""
    prefix = place.rstrip("/")
    return negated + glob.removeprefix(negated + prefix) if glob.startswith(f"{negated}{prefix}/") else glob


def require_pattern(pattern: str) -> None:
    """Raise BadPattern for a pattern that no line can match."""
    if not pattern:
        raise BadPattern(pattern, "it is empty; give the text to search for")
    if "\n" in pattern:
        raise BadPattern(pattern, "it has a line break, but each line is searched separately; search for one line")
    if because := explain_unusable(pattern):
        raise BadPattern(pattern, because)


def conclude(search: Search, outcome: SearchOutcome, files: GuardedView) -> GrepResult:
    request = search.request
    assert isinstance(request, Grep)
    paths = {hit.place: files.format_path(hit.place) for hit in outcome.hits}
    hits = (
        fit_matches(outcome.hits, request, paths)
        if request.mode == "content"
        else fit_files(outcome.hits, request, paths)
    )
    summary = summarize(search, outcome, hits, files, hint=suggest_hint(request))
    return GrepResult(
        summary, request.pattern, request.mode, tuple((paths[hit.place], hit) for hit in hits), request.glob
    )


def redact_hits(
    result: GrepResult, redact: Callable[[str], str], read_line: Callable[[str, int, int], str]
) -> GrepResult:
    """Apply `redact` to all lines. In a line that it changes, the position of the match is no longer known.

    `read_line` gives the beginning of a line by its file, number and width: a secret may be longer than what is shown.
    """

    def redact_row(place: str, row: MatchRow) -> MatchRow:
        is_part = any(row.omitted_chars) and PART_OF_TOKEN.search(row.text)
        text = redact_cut_row(row, redact, partial(read_line, place)) if is_part else redact(row.text)
        if text == row.text:
            return row
        return row._replace(text=text, start=min(row.start, 0), end=len(text) if row.is_match else row.end)

    def redact_hit(hit: SearchHit) -> SearchHit:
        return replace(hit, rows=tuple(redact_row(hit.place, row) for row in hit.rows))

    return replace(result, files=tuple((redact(path), redact_hit(hit)) for path, hit in result.files))


def redact_cut_row(row: MatchRow, redact: Callable[[str], str], read_line: Callable[[int, int], str]) -> str:
    """As many characters of the redacted line, around the same place."""
    start = row.omitted_chars[0]
    line = read_line(row.number, start + len(row.text) + MAX_KEY_CHARS)
    if not line.startswith(row.text, start):  # it changed meanwhile
        return redact(row.text)
    first = max(0, start - MAX_KEY_CHARS)
    redacted = redact(line[first:])
    if row.text in redacted:
        return row.text
    at = min(len(redact(line[first : start + max(row.start, 0)])), len(redacted))
    return clip(redacted, at, at, len(row.text))[0]


def fit_files(hits: Sequence[SearchHit], request: Grep, paths: dict[str, str]) -> Sequence[SearchHit]:
    """The files that fit on a page."""
    return hits[: CharBudget(request.chars).count_fitting([len(paths[hit.place]) + COUNT_CHARS for hit in hits])]


def fit_matches(hits: Sequence[SearchHit], request: Grep, paths: dict[str, str]) -> Sequence[SearchHit]:
    """The matches that fit on a page. The last file may be shown in part, up to a match and its context."""
    pieces = [(hit, piece) for hit in hits for piece in split_by_match(hit.rows, request.after)]
    costs: list[int] = []
    before = None
    for hit, piece in pieces:
        costs.append(sum(map(count_row_chars, piece)) + (0 if hit is before else len(paths[hit.place]) + 2))
        before = hit
    rows: dict[str, list[MatchRow]] = {}
    for hit, piece in pieces[: CharBudget(request.chars).count_fitting(costs)]:
        rows.setdefault(hit.place, []).extend(piece)
    return [replace(hit, rows=tuple(rows[hit.place])) for hit in hits if hit.place in rows]


def split_by_match(rows: Sequence[MatchRow], after: int) -> Iterator[Sequence[MatchRow]]:
    """Split rows into pieces of one match each, with the lines before it and at most `after` lines after it."""
    piece: list[MatchRow] = []
    last = None
    for row in rows:
        if last is not None and (row.is_match or row.number > last + after):
            yield piece
            piece, last = [], None
        piece.append(row)
        if row.is_match:
            last = row.number
    if last is not None:
        yield piece


def count_row_chars(row: MatchRow) -> int:
    """The characters of a numbered line, of a gap marker above it, and of the note about a cut."""
    return (
        max(len(str(row.number)), 6)
        + 1
        + len(row.text)
        + 1
        + len("   ...\n")
        + (CUT_MARKERS_CHARS if any(row.omitted_chars) else 0)
    )


def suggest_hint(request: Grep) -> SearchHint:
    """How a pattern that found nothing may have been meant."""
    if LOOKS_LIKE_REGEX.search(request.pattern):
        return "" if request.regex else "regex"
    return "literal" if request.regex and LOOKS_LITERAL.search(request.pattern) else ""
