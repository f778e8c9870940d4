"""The nearest region: what a refusal shows, why the text is not there, and what differs."""

from collections import Counter

from handhold.core.errors import Difference, NoMatch, Region
from handhold.core.text.lines import split
from handhold.core.text.sheet import Sheet, bare, positions
from handhold.core.text.splice import aligned

COMMON = 1000  # a line that stands more often than this says little about a place
SHOWN = 12  # lines of a region
DIFFERENCES = 4


def no_match(path: str, old: str, sheet: Sheet) -> NoMatch:
    """The refusal of a text, with what can be said about it."""
    region = _nearest(old, sheet, SHOWN)
    if bare(old) and sheet.holds(old):
        return NoMatch(path, old, region, "whitespace", differences(old, sheet, region, blanks=True))
    differs = differences(old, sheet, region)
    wanted = split(old)
    missing = sum(each.quoted is not None for each in differs)
    stale = region is not None and len(differs) < DIFFERENCES and missing * 2 <= len(wanted)
    return NoMatch(path, old, region, "stale" if stale else "absent", differs)


def nearest(old: str, text: str, *, most: int = SHOWN) -> Region | None:
    """The lines of `text` that share most lines with `old`, blanks aside; None if it shares none."""
    return _nearest(old, Sheet(text), most)


def _nearest(old: str, sheet: Sheet, most: int) -> Region | None:
    wanted = [line.strip() for line in split(old)]
    where = positions([line for line in wanted if line], list(map(str.strip, sheet.lines)))
    votes: Counter[int] = Counter()
    for at, line in enumerate(wanted):
        votes.update(place - at for place in where.get(line, ())[:COMMON])
    if not votes:
        return None
    start = max(0, votes.most_common(1)[0][0])
    return Region(start + 1, tuple(_lines(sheet, start, min(most, len(wanted) + 1))))


def _lines(sheet: Sheet, start: int, count: int) -> list[str]:
    """Some lines; a final newline starts none."""
    end = len(sheet.lines) - (not sheet.lines[-1])
    return sheet.lines[start : min(start + count, end)]


def differences(
    old: str, sheet: Sheet, region: Region | None, *, blanks: bool = False, most: int = DIFFERENCES
) -> tuple[Difference, ...]:
    """Where the lines from the region on part from the quoted ones; `blanks` count only if nothing else differs."""
    if region is None:
        return ()
    quoted = split(old)
    start = region.first - 1
    there = _lines(sheet, start, len(quoted))
    found: list[Difference] = []
    sides = (there, quoted) if blanks else ([repr(bare(line)) for line in lines] for lines in (there, quoted))
    for kind, a, b, c, d in aligned(*sides):
        if kind != "equal":
            for n in range(max(b - a, d - c)):
                own = there[a + n] if a + n < b else None
                said = quoted[c + n] if c + n < d else None
                found.append(Difference(start + min(a + n, b) + 1, own, said))
    return tuple(found[:most])
