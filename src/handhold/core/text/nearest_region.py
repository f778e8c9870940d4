"""The region of a file that is most similar to a quote: what an error shows, and what differs."""

from collections import Counter
from difflib import SequenceMatcher

from handhold.core.errors import LineDifference, NoMatch, Region
from handhold.core.text.lines import split_lines
from handhold.core.text.splice import align_lines
from handhold.core.text.text_index import TextIndex, find_line_runs, find_positions, to_bare_bytes

MAX_LINE_OCCURRENCES = 1000  # a more frequent line says little about a place
MAX_REGION_LINES = 12
MAX_DIFFERENCES = 4
MAX_SIMILAR_LINES, MAX_SIMILAR_CHARS = 5000, 200  # of a file, that are compared by characters
MIN_SIMILARITY = 0.7


def build_no_match(path: str, old: str, index: TextIndex) -> NoMatch:
    """The error for a text that was not found, with the nearest region and the differences."""
    region = _find_nearest(old, index, MAX_REGION_LINES)
    if to_bare_bytes(old) and index.contains(old):
        return NoMatch(path, old, region, "whitespace", find_differences(old, index, region, whitespace=True))
    differing = find_differences(old, index, region)
    wanted = split_lines(old)
    missing = sum(each.quoted is not None for each in differing)
    is_stale = region is not None and len(differing) < MAX_DIFFERENCES and missing * 2 <= len(wanted)
    return NoMatch(path, old, region, "stale" if is_stale else "absent", differing)


def find_nearest_region(old: str, text: str, *, max_lines: int = MAX_REGION_LINES) -> Region | None:
    """The lines of `text` that share most lines with `old`, ignoring blanks; else the most similar line; else None."""
    return _find_nearest(old, TextIndex(text), max_lines)


def find_lines_of(old: str, text: str) -> list[int]:
    """The numbers of the lines where whole lines of `text` are those of `old`, apart from space around them."""
    lines = [line.strip() for line in split_lines(old.strip("\n"))]
    return [first + 1 for first in find_line_runs(lines, [line.strip() for line in split_lines(text)])]


def _find_nearest(old: str, index: TextIndex, max_lines: int) -> Region | None:
    wanted = [line.strip() for line in split_lines(old)]
    where = find_positions([line for line in wanted if line], list(map(str.strip, index.lines)))
    votes: Counter[int] = Counter()
    for at, line in enumerate(wanted):
        votes.update(place - at for place in where.get(line, ())[:MAX_LINE_OCCURRENCES])
    if not votes:
        return _find_similar_line(max(wanted, key=len, default=""), index)
    start = max(0, votes.most_common(1)[0][0])
    return Region(start + 1, tuple(_slice_lines(index, start, min(max_lines, len(wanted) + 1))))


def _find_similar_line(wanted: str, index: TextIndex) -> Region | None:
    """The line that is most like the longest quoted one; None if none is like it."""
    wanted = wanted[:MAX_SIMILAR_CHARS]
    if not wanted:
        return None
    lines = [line.strip()[:MAX_SIMILAR_CHARS] for line in index.lines[:MAX_SIMILAR_LINES]]
    matcher, best = SequenceMatcher(b=wanted), (MIN_SIMILARITY, "")
    for most, line in _rank_by_shared_chars(wanted, lines):
        if most < best[0]:
            break
        matcher.set_seq1(line)
        best = max(best, (matcher.ratio(), line))
    if not best[1]:
        return None
    at = lines.index(best[1])
    return Region(at + 1, (index.lines[at],))


def _rank_by_shared_chars(wanted: str, lines: list[str]) -> list[tuple[float, str]]:
    """The lines that may be similar, each with the most that its characters allow: comparing them is slow."""
    size, counts, known = len(wanted), Counter(wanted).items(), wanted.encode("ascii", "ignore")
    ranked: list[tuple[float, str]] = []
    for line in set(lines):
        enough = MIN_SIMILARITY * (size + len(line)) / 2
        if min(size, len(line)) < enough:
            continue
        if len(line) - len(line.encode("ascii", "ignore").translate(None, known)) < enough:
            continue
        count = line.count
        shared = sum([min(count(char), most) for char, most in counts])
        if shared >= enough:
            ranked.append((2 * shared / (size + len(line)), line))
    return sorted(ranked, reverse=True)


def _slice_lines(index: TextIndex, start: int, count: int) -> list[str]:
    """Some lines; a final newline does not start another."""
    end = len(index.lines) - (not index.lines[-1])
    return index.lines[start : min(start + count, end)]


def find_differences(
    old: str, index: TextIndex, region: Region | None, *, whitespace: bool = False, limit: int = MAX_DIFFERENCES
) -> tuple[LineDifference, ...]:
    """Where the lines from the region on differ from the quote, ignoring whitespace unless `whitespace`."""
    if region is None:
        return ()
    quoted = split_lines(old)
    start = region.first - 1
    file_lines = _slice_lines(index, start, len(quoted))
    found: list[LineDifference] = []
    sides = (
        (file_lines, quoted)
        if whitespace
        else ([repr(to_bare_bytes(line)) for line in lines] for lines in (file_lines, quoted))
    )
    for kind, a, b, c, d in align_lines(*sides):
        if kind != "equal":
            for n in range(max(b - a, d - c)):
                file_line = file_lines[a + n] if a + n < b else None
                quoted_line = quoted[c + n] if c + n < d else None
                found.append(LineDifference(start + min(a + n, b) + 1, file_line, quoted_line))
    return tuple(found[:limit])
