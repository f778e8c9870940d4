"""Cases with two or three faults at once: each class is a list of faults, applied in order.

A fault changes the draft of a case, or returns None if it does not apply.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from bench.edits.faults import (
    NUMBERINGS,
    fenced,
    html_escaped,
    json_escaped,
    numbered,
    reindented,
    rescaled,
    retabbed,
    smartened,
    with_typo,
)
from bench.edits.material import (
    Case,
    Cut,
    Edit,
    Maker,
    blank,
    common_indent,
    indent_of,
    indent_unit,
    make_before,
    positive,
    windows_equal,
)


@dataclass(frozen=True)
class Draft:
    cut: Cut
    old: list[str]
    new: list[str]
    truths: list[list[str]]
    line_edits: dict[int, str | None]  # changes to the file that are made first
    eol: str = "\n"


Fault = Callable[[Draft, Random], Draft | None]


def dedented(draft: Draft, _: Random) -> Draft | None:
    shared = common_indent(draft.old + draft.new)
    if not shared:
        return None
    return replace(draft, old=reindented(draft.old, shared), new=reindented(draft.new, shared))


def deeper(draft: Draft, _: Random) -> Draft | None:
    unit = indent_unit(draft.cut.edit.lines)
    return replace(draft, old=reindented(draft.old, "", unit), new=reindented(draft.new, "", unit))


def spaces_for_tabs(draft: Draft, rng: Random) -> Draft | None:
    if not any(line.startswith("\t") for line in draft.old if not blank(line)):
        return None
    width = rng.choice([4, 4, 2, 8])
    return replace(draft, old=retabbed(draft.old, width), new=retabbed(draft.new, width))


def another_width(draft: Draft, _: Random) -> Draft | None:
    unit = indent_unit(draft.cut.edit.lines)
    lines = [line for line in draft.old + draft.new if not blank(line)]
    if unit not in ("  ", "    ") or any("\t" in indent_of(each) or len(indent_of(each)) % len(unit) for each in lines):
        return None
    if len({indent_of(line) for line in draft.old if not blank(line)}) < 2:
        return None
    width = 2 if len(unit) == 4 else 4
    return replace(draft, old=rescaled(draft.old, len(unit), width), new=rescaled(draft.new, len(unit), width))


def crlf_file(draft: Draft, _: Random) -> Draft | None:
    return replace(draft, eol="\r\n") if len(draft.old) > 1 else None


def smart_file(draft: Draft, rng: Random) -> Draft | None:
    """Typographic characters in untouched lines of the file."""
    spots = [(i, j) for i, j in draft.cut.untouched() if any(quote in draft.old[i] for quote in "'\"")]
    if not spots:
        return None
    edits, truth = dict(draft.line_edits), list(draft.truths[0])
    for i, j in spots:
        edits[draft.cut.lo + i] = truth[j] = smartened(draft.old[i], rng)
    return replace(draft, line_edits=edits, truths=[truth])


def trailing_blanks(draft: Draft, rng: Random) -> Draft | None:
    """Trailing blanks after a few lines of the old text."""
    spots = [at for at, line in enumerate(draft.old) if not blank(line)]
    old = list(draft.old)
    for at in rng.sample(spots, min(len(spots), rng.randint(1, 3))):
        old[at] = old[at].rstrip() + rng.choice([" ", "  ", "\t"])
    return replace(draft, old=old)


def missing_blank(draft: Draft, rng: Random) -> Draft | None:
    """An inner blank line is missing in both texts."""
    last, end = len(draft.old) - 1, len(draft.new) - 1
    spots = [(i, j) for i, j in draft.cut.untouched() if blank(draft.old[i]) and 0 < i < last and 0 < j < end]
    if not spots:
        return None
    i, j = rng.choice(spots)
    old = draft.old[:i] + draft.old[i + 1 :]
    if windows_equal(draft.cut.edit.lines, old, str.strip):  # without the blank line it matches another place
        return None
    return replace(
        draft,
        old=old,
        new=draft.new[:j] + draft.new[j + 1 :],
        truths=[*draft.truths, *(truth[:j] + truth[j + 1 :] for truth in draft.truths)],
    )


def blank_edges(draft: Draft, rng: Random) -> Draft | None:
    if any(blank(line) for line in (draft.old[0], draft.old[-1], draft.new[0], draft.new[-1])):
        return None
    top, bottom = rng.choice([(1, 0), (0, 1), (1, 1), (2, 0)])
    return replace(draft, old=[""] * top + draft.old + [""] * bottom, new=[""] * top + draft.new + [""] * bottom)


def typo(draft: Draft, rng: Random) -> Draft | None:
    """The same typo in both texts, in a line that is not changed."""
    if len(draft.old) < 3:
        return None
    spots = [(i, j) for i, j in draft.cut.untouched() if not blank(draft.old[i])]
    rng.shuffle(spots)
    for i, j in spots:
        line = with_typo(draft.old[i], rng)
        if line and line not in draft.cut.edit.lines:
            old, new = list(draft.old), list(draft.new)
            old[i] = new[j] = line
            return replace(draft, old=old, new=new)
    return None


def line_numbers(draft: Draft, rng: Random) -> Draft | None:
    style, above = rng.choice(NUMBERINGS), draft.cut.lo
    new = numbered(draft.new, style, above) if rng.random() < 0.6 else draft.new
    return replace(draft, old=numbered(draft.old, style, above), new=new)


def code_fence(draft: Draft, rng: Random) -> Draft | None:
    if any("```" in line for line in draft.old + draft.new):
        return None
    tag = rng.choice(["", draft.cut.edit.lang])
    return _rewritten(draft, lambda text: fenced(text, tag))


def json_escapes(draft: Draft, _: Random) -> Draft | None:
    return _rewritten(draft, json_escaped) if len(draft.old) > 1 else None


def entities(draft: Draft, _: Random) -> Draft | None:
    text = "\n".join(draft.old + draft.new)
    if not any(char in "\n".join(draft.old) for char in "<>&") or "&lt;" in text or "&amp;" in text or "&gt;" in text:
        return None
    return _rewritten(draft, lambda text: html_escaped(text, quote=False))


def crlf_texts(draft: Draft, _: Random) -> Draft | None:
    return _rewritten(draft, lambda text: text.replace("\n", "\r\n")) if len(draft.old) > 1 else None


def _rewritten(draft: Draft, rewrite: Callable[[str], str]) -> Draft:
    return replace(draft, old=[rewrite("\n".join(draft.old))], new=[rewrite("\n".join(draft.new))])


def together(*faults: Fault) -> Maker:
    def make(edit: Edit, rng: Random) -> Case | None:
        cut = edit.unique_cut(rng, 1, 4)
        draft = cut and Draft(cut, cut.old_lines, cut.new_lines, [cut.new_lines], {})
        for fault in faults:
            draft = draft and fault(draft, rng)
        if not draft:
            return None
        before = make_before(edit, draft.line_edits, eol=draft.eol)
        return positive(draft.cut, draft.old, draft.new, before=before, truth=draft.truths)

    return make


DOUBLE: dict[str, Maker] = {
    "two_dedented_smart_crlf": together(smart_file, dedented, crlf_file),
    "two_spaces_trailing": together(spaces_for_tabs, trailing_blanks),
    "two_spaces_dedented": together(dedented, spaces_for_tabs),
    "two_spaces_smart_crlf": together(smart_file, spaces_for_tabs, crlf_file),
    "two_rescaled_trailing": together(another_width, trailing_blanks),
    "two_numbers_crlf": together(crlf_file, line_numbers),
    "two_numbers_fence": together(line_numbers, code_fence),
    "two_fence_dedented": together(dedented, code_fence),
    "two_escaped_crlf": together(crlf_file, json_escapes),
    "two_entities_dedented": together(dedented, entities),
    "two_blank_dedented": together(missing_blank, dedented),
    "two_edges_deeper": together(deeper, blank_edges),
    "two_typo_dedented": together(typo, dedented),
    "two_crlf_texts_trailing": together(trailing_blanks, crlf_texts),
}
