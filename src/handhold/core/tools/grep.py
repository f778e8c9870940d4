"""Grep: files by what is in them, newest first; literal unless a regular expression is asked for."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from handhold.core.errors import BadPattern, NotRegularFile
from handhold.core.facts import Hit, Row, Scan
from handhold.core.plans import Search
from handhold.core.policy.guard import GuardedView
from handhold.core.requests import Grep
from handhold.core.results import Grepped, Hint
from handhold.core.tools.paging import Budget, begin, covered, must_be_glob, unfit

CUT_MARKS = 70  # characters that tell how much of a line was left out before and after
COUNT = 14  # a colon and a number

REGEX = re.compile(r"\.[*+]|\\[bBdDsSwW.()\[\]{}|?+*^$]|\[\^|\[[^\]]*\w-\w|\(\?|[\w)]\|[\w(]|^\^|\w\$$|[)\]][*+?{]")
"""What hardly anybody writes who means it literally."""

LITERAL = re.compile(r"\(\)|\w\([^?|)]*\)(?![*+?{])|\[\d*\]|\$[\w{(]|\{\w*\}|\?\.\w|\+\+|^[*+?]")
"""What hardly anybody writes who means a regular expression."""


def plan(request: Grep, files: GuardedView) -> Search:
    look = files.there(request.path)
    if look.kind == "other":
        raise NotRegularFile(request.path, look.kind)
    must_be_findable(request.pattern)
    if request.glob:
        must_be_glob(request.glob)
    return begin(replace(request, glob=below(request.glob, look.path)), look.path, files)


def below(glob: str, place: str) -> str:
    """The filter as it stands from the folder on, where a model spelled it from the root of all."""
    negated = glob[:1] if glob.startswith("!") else ""
    prefix = place.rstrip("/")
    return negated + glob.removeprefix(negated + prefix) if glob.startswith(f"{negated}{prefix}/") else glob


def must_be_findable(pattern: str) -> None:
    """BadPattern for what no line can hold."""
    if not pattern:
        raise BadPattern(pattern, "it is empty, and that is everywhere")
    if "\n" in pattern:
        raise BadPattern(pattern, "it has a line break, and lines are searched one by one; look for one of them")
    if because := unfit(pattern):
        raise BadPattern(pattern, because)


def conclude(search: Search, scan: Scan, files: GuardedView) -> Grepped:
    request = search.request
    assert isinstance(request, Grep)
    paths = {hit.place: files.spelled(hit.place) for hit in scan.hits}
    hits = fitting(scan.hits, request, paths) if request.mode == "content" else whole(scan.hits, request, paths)
    how = covered(search, scan, hits, files, hint=meant(request))
    return Grepped(how, request.pattern, request.mode, tuple((paths[hit.place], hit) for hit in hits), request.glob)


def redact_hits(grepped: Grepped, redact: Callable[[str], str]) -> Grepped:
    """The same, with what `redact` replaces. Where a line was changed, nobody knows where in it the match is."""

    def redacted(row: Row) -> Row:
        text = redact(row.text)
        if text == row.text:
            return row
        return row._replace(text=text, start=min(row.start, 0), end=len(text) if row.is_match else row.end)

    hits = ((path, replace(hit, rows=tuple(map(redacted, hit.rows)))) for path, hit in grepped.files)
    return replace(grepped, files=tuple((redact(path), hit) for path, hit in hits))


def whole(hits: Sequence[Hit], request: Grep, paths: dict[str, str]) -> Sequence[Hit]:
    """The files that a page has room for."""
    return hits[: Budget(request.chars).holds([len(paths[hit.place]) + COUNT for hit in hits])]


def fitting(hits: Sequence[Hit], request: Grep, paths: dict[str, str]) -> Sequence[Hit]:
    """The same for lines: the last file may be shown in part, up to a match and what stands behind it."""
    pieces = [(hit, piece) for hit in hits for piece in by_match(hit.rows, request.after)]
    costs: list[int] = []
    before = None
    for hit, piece in pieces:
        costs.append(sum(map(cost, piece)) + (0 if hit is before else len(paths[hit.place]) + 2))
        before = hit
    rows: dict[str, list[Row]] = {}
    for hit, piece in pieces[: Budget(request.chars).holds(costs)]:
        rows.setdefault(hit.place, []).extend(piece)
    return [replace(hit, rows=tuple(rows[hit.place])) for hit in hits if hit.place in rows]


def by_match(rows: Sequence[Row], after: int) -> Iterator[Sequence[Row]]:
    """Rows in pieces of one match each, with the lines before it and at most `after` behind it."""
    piece: list[Row] = []
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


def cost(row: Row) -> int:
    """Of a numbered line, the mark of a gap above it, and what tells of a cut."""
    return max(len(str(row.number)), 6) + 1 + len(row.text) + 1 + len("   ...\n") + (CUT_MARKS if any(row.cut) else 0)


def meant(request: Grep) -> Hint:
    """What a pattern that found nothing may have been instead."""
    if REGEX.search(request.pattern):
        return "" if request.regex else "regex"
    return "literal" if request.regex and LITERAL.search(request.pattern) else ""
