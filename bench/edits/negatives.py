"""Cases that must be refused: the text is in two places, in none, or only nearly matches somewhere."""

import re
from collections import defaultdict
from collections.abc import Iterator
from random import Random

from bench.edits.faults import reindented
from bench.edits.material import (
    WORD,
    Case,
    Edit,
    Maker,
    blank,
    common_indent,
    count_overlapping,
    indent_of,
    indent_unit,
    make_before,
    reject,
    squeeze,
    verbatim,
    windows_equal,
)

NEGATIVE: dict[str, Maker] = {}


def neg(make: Maker) -> Maker:
    NEGATIVE[make.__name__] = make
    return make


@neg
def neg_ambiguous_exact(e: Edit, rng: Random) -> Case | None:
    """The old text without enough context: it occurs two or more times."""
    spots = [i for i in range(len(e.lines)) if not blank(e.lines[i])]
    rng.shuffle(spots)
    for i in spots[:80]:
        for k in (3, 2, 1):
            block = e.lines[i : i + k]
            if len(block) < k or blank(block[0]) or blank(block[-1]) or len("".join(block).strip()) < 4:
                continue
            old = "\n".join(block)
            if windows_equal(e.lines, block, verbatim) >= 2 and e.text.count(old) >= 2:
                return reject(e, make_before(e), old, old + "\n" + indent_of(block[-1]) + "added_line")
    return None


@neg
def neg_ambiguous_norm(e: Edit, rng: Random) -> Case | None:
    """The indentation was lost, and the block then fits two or more places; no exact occurrence decides."""
    spots = [i for i in range(len(e.lines)) if indent_of(e.lines[i]) and not blank(e.lines[i])]
    rng.shuffle(spots)
    for i in spots[:120]:
        for k in (4, 3, 2):
            block = e.lines[i : i + k]
            if len(block) < k or blank(block[-1]) or len("".join(block).strip()) < 8:
                continue
            if windows_equal(e.lines, block, str.strip) < 2:
                continue
            shifted = (
                [indent_unit(e.lines) * 3 + line.strip() for line in block]
                if rng.random() < 0.3
                else reindented(block, common_indent(block))
            )
            old = "\n".join(shifted)
            if e.text.count(old) == 0:
                return reject(e, make_before(e), old, old + "\n" + indent_of(shifted[-1]) + "added_line")
    return None


@neg
def neg_absent_other_file(e: Edit, rng: Random) -> Case | None:
    """The old text comes from another file of the same language."""
    for _ in range(20):
        other = rng.choice(e.pool)
        if other.lang != e.lang or other.file == e.file or other.repo == e.repo:
            continue
        c = other.unique_cut(rng)
        if not c or len(c.old.strip()) < 25:
            continue
        have = {squeeze(line) for line in e.lines}
        own = [squeeze(line) for line in c.old_lines if not blank(line)]
        if sum(line in have for line in own) * 3 <= len(own):
            return reject(e, make_before(e), c.old, c.new)
    return None


@neg
def neg_already_applied(e: Edit, rng: Random) -> Case | None:
    """The file has moved on: the removed lines are gone, and only the context is left."""
    c = e.unique_cut(rng, 1, 3)
    if not c or not c.gone or not c.added or blank("".join(c.gone)):
        return None
    have = {squeeze(line) for line in c.added}
    if all(squeeze(line) in have or blank(line) for line in c.gone):
        return None
    edits = {e.start + k: None for k in range(e.removed)}
    later = list(c.added)
    before = make_before(e, edits, insert=(e.start, later))
    old_lines = c.old_lines
    if c.old in before.text() or windows_equal(before.lines, old_lines, squeeze):
        return None
    m = [k for k, line in enumerate(c.new_lines) if WORD.search(line)]
    if not m:
        return None
    new = list(c.new_lines)
    new.insert(len(c.top), indent_of(c.gone[0]) + "second_change")
    return reject(e, before, c.old, "\n".join(new))


def _siblings(e: Edit, rng: Random, k: int) -> Iterator[tuple[int, int, int, str, str]]:
    """Pairs of windows of k lines that differ in exactly one line (index j) and by exactly one word there."""
    seen: dict[tuple, list[int]] = defaultdict(list)
    stripped = [line.strip() for line in e.lines]
    for i in range(len(stripped) - k + 1):
        win = stripped[i : i + k]
        if not win[0] or not win[-1] or sum(map(len, win)) < 20:
            continue
        for j in range(k):
            if WORD.search(win[j]):
                seen[(j, *win[:j], *win[j + 1 :])].append(i)
    groups = [(key[0], v) for key, v in seen.items() if len(v) >= 2]
    rng.shuffle(groups)
    for j, starts in groups[:40]:
        a, b = starts[0], starts[1]
        if b - a < k:
            continue
        ta, tb = re.findall(r"\w+|\W", stripped[a + j]), re.findall(r"\w+|\W", stripped[b + j])
        diff = [p for p in range(len(ta)) if p < len(tb) and ta[p] != tb[p]]
        if (
            len(ta) == len(tb)
            and len(diff) == 1
            and ta[diff[0]]
            and WORD.fullmatch(ta[diff[0]])
            and WORD.fullmatch(tb[diff[0]])
        ):
            yield a, b, j, ta[diff[0]], tb[diff[0]]


def _distance(a: str, b: str) -> int:
    row = list(range(len(b) + 1))
    for i, ca in enumerate(a, 1):
        prev, row[0] = row[0], i
        for j, cb in enumerate(b, 1):
            prev, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, prev + (ca != cb))
    return row[-1]


@neg
def neg_decoy_equidistant(e: Edit, rng: Random) -> Case | None:
    """The old text is equally close to two sibling blocks."""
    for k in (5, 4, 3):
        for a, _b, j, wa, wb in _siblings(e, rng, k):
            cands = [
                "zqx",
                "thing",
                wa[: len(wa) // 2] + wb[len(wb) // 2 :],
                wa[0] + "qzx",
                "x" * len(wa),
                "x" * len(wb),
                wa + wb,
                wa[:2] + wb[:2],
                "item",
                "value_other",
            ]
            for mid in cands:
                if mid not in (wa, wb) and _distance(mid, wa) == _distance(mid, wb):
                    block = list(e.lines[a : a + k])
                    block[j] = re.sub(rf"\b{re.escape(wa)}\b", mid, block[j], count=1)
                    old = "\n".join(block)
                    if block[j] == e.lines[a + j] or old in e.text or windows_equal(e.lines, block, squeeze):
                        continue
                    at = (j + 1) % k
                    new = [*block[:at], indent_of(block[at]) + "added_line", *block[at:]]
                    return reject(e, make_before(e), old, "\n".join(new))
    return None


@neg
def neg_absent_sibling(e: Edit, rng: Random) -> Case | None:
    """The intended block is gone; a sibling that differs by one whole word remains and must not be edited."""
    for k in (5, 4, 3):
        for a, _b, j, wa, wb in _siblings(e, rng, k):
            if _distance(wa, wb) < 3:
                continue
            block = e.lines[a : a + k]
            before = make_before(e, {a + i: None for i in range(k)})
            old = "\n".join(block)
            if old in before.text() or windows_equal(before.lines, block, squeeze):
                continue
            at = (j + 1) % k
            new = [*block[:at], indent_of(block[at]) + "added_line", *block[at:]]
            return reject(e, before, old, "\n".join(new))
    return None


@neg
def neg_overlapping(e: Edit, rng: Random) -> Case | None:
    """The old text = two equal lines where the file has three in a row: non-overlapping counts see one match."""
    i = rng.randrange(2, max(3, len(e.lines) - 2))
    unit = indent_unit(e.lines)
    line = rng.choice([unit + "pad();", unit + "},", "---", unit + "- item", "0,"])
    if any(each.strip() == line.strip() for each in e.lines):
        return None
    before = make_before(e, insert=(i, [line] * 3))
    old = "\n".join([line] * 2)
    if count_overlapping(before.text(), old) != 2:
        return None
    return reject(e, before, old, "\n".join([line, unit + "added_line", line]))


@neg
def neg_blank_old(e: Edit, rng: Random) -> Case | None:
    """The old text is empty or blank."""
    old = rng.choice(["", "\n", "  ", "\t", "\n\n", "    \n    ", "\n \n"])
    return reject(e, make_before(e), old, rng.choice(["added_line", "\nadded_line\n"]))
