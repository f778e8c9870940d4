"""Cases of the shapes that recorded edits have: wraps, half indentations, a lost newline, a column too many.

The docstring of a function is the definition of its class.
"""

from random import Random

from bench.edits.faults import reindented
from bench.edits.material import (
    Case,
    Cut,
    Edit,
    Maker,
    blank,
    common_indent,
    count_overlapping,
    indent_of,
    indent_unit,
    make_before,
    positive,
    reject,
    squeeze,
    windows_equal,
)

RECORDED_SHAPES: dict[str, Maker] = {}


def shape(make: Maker) -> Maker:
    RECORDED_SHAPES[make.__name__] = make
    return make


@shape
def wrapped_shallow(e: Edit, rng: Random) -> Case | None:
    """Both texts are a level too shallow, and the new one puts a block around the old one."""
    c = e.unique_cut(rng)
    unit = indent_unit(e.lines)
    if not c or not common_indent(c.old_lines).startswith(unit) or "\n".join(reindented(c.old_lines, unit)) in e.text:
        return None
    truth = _wrap(c, unit, e.lang)
    return positive(c, reindented(c.old_lines, unit), reindented(truth, unit), truth=[truth])


@shape
def half_indent(e: Edit, _: Random) -> Case | None:
    """A line is quoted with a part of its indentation, where it is found literally; the new one has all of it."""
    c = e.cut(0, 0)
    if not c or len(c.gone) != 1 or len(c.added) != 1 or blank(c.added[0]):
        return None
    ind = indent_of(c.gone[0])
    if len(ind) < 2 or indent_of(c.added[0]) != ind or windows_equal(e.lines, c.gone, squeeze) != 1:
        return None
    old = c.gone[0][len(ind) - len(ind) // 2 :]
    return positive(c, old, c.added[0]) if count_overlapping(e.text, old) == 1 else None


@shape
def newline_lost(e: Edit, rng: Random) -> Case | None:
    """Both texts lost their indentation, and only the old one ends with a newline."""
    c = e.unique_cut(rng)
    ind = common_indent(c.old_lines + c.new_lines) if c else ""
    if not c or not ind or blank(c.old_lines[-1]) or blank(c.new_lines[-1]):
        return None
    if c.hi >= len(e.lines) - 1 or blank(e.lines[c.hi]):
        return None
    old, new = ("\n".join(reindented(lines, ind)) for lines in (c.old_lines, c.new_lines))
    return positive(c, old + "\n", new)


@shape
def one_column_more(e: Edit, rng: Random) -> Case | None:
    """All lines of both texts are a column too far to the right, also empty ones."""
    c = e.unique_cut(rng)
    if not c or len(c.old_lines) < 2:
        return None
    old, new = ([" " + line for line in lines] for lines in (c.old_lines, c.new_lines))
    return positive(c, old, new)


def _wrap(c: Cut, unit: str, lang: str) -> list[str]:
    ind = common_indent(c.old_lines)
    opener, *closer = ("if is_wrapped:",) if lang == "python" else ("if (is_wrapped) {", "}")
    inside = [line if blank(line) else unit + line for line in c.old_lines]
    return [ind + opener, *inside, *(ind + each for each in closer)]


# --- to be refused


def neg_wrap_applied(e: Edit, rng: Random) -> Case | None:
    """The file has the new block around the old text already."""
    c = e.unique_cut(rng)
    unit = indent_unit(e.lines)
    if not c or blank(c.old_lines[0]) or blank(c.old_lines[-1]):
        return None
    truth = _wrap(c, unit, e.lang)
    before = make_before(e, dict.fromkeys(range(c.lo, c.hi)), insert=(c.lo, truth))
    return None if c.old in before.text() else reject(e, before, c.old, "\n".join(truth))


RECORDED_REFUSALS: dict[str, Maker] = {"neg_wrap_applied": neg_wrap_applied}
