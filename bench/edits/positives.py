"""Cases that should land: what language models get wrong when they quote, one function per class.

The docstring of a function is the definition of its class.
"""

import re
from random import Random

from bench.edits.faults import (
    NUMBERINGS,
    fenced,
    hardened,
    html_escaped,
    json_escaped,
    numbered,
    outdated,
    reindented,
    rescaled,
    retabbed,
    smartened,
    with_typo,
)
from bench.edits.material import (
    WORD,
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
    squeeze,
    windows_equal,
)

POSITIVE: dict[str, Maker] = {}


def pos(make: Maker) -> Maker:
    POSITIVE[make.__name__] = make
    return make


@pos
def exact(e: Edit, rng: Random) -> Case | None:
    """Quoted correctly."""
    c = e.unique_cut(rng)
    return c and positive(c, c.old_lines, c.new_lines)


@pos
def exact_norm_dup(e: Edit, rng: Random) -> Case | None:
    """Exact match is unique, but whitespace-insensitive matching sees several places."""
    spots = [i for i, line in enumerate(e.lines) if indent_of(line) and not blank(line)]
    rng.shuffle(spots)
    for i in spots[:150]:
        for k in (1, 2, 3):
            block = e.lines[i : i + k]
            if len(block) < k or blank(block[-1]) or len("".join(block).strip()) < 8:
                continue
            if windows_equal(e.lines, block, squeeze) > 1 and e.text.count("\n".join(block)) == 1:
                fake = e.elsewhere(i, 1, [block[0], indent_of(block[0]) + "added_line"])
                c = fake.cut(0, k - 1)
                return c and positive(c, c.old_lines, c.new_lines)
    return None


@pos
def dedent_all(e: Edit, rng: Random) -> Case | None:
    """Both texts lost the indentation that all their lines share."""
    c = e.unique_cut(rng)
    if not c:
        return None
    ind = common_indent(c.old_lines + c.new_lines)
    if not ind:
        return None
    return positive(c, reindented(c.old_lines, ind), reindented(c.new_lines, ind))


@pos
def dedent_old_only(e: Edit, rng: Random) -> Case | None:
    """The old text lost its indentation, the new text is right: it must not be shifted twice."""
    c = e.unique_cut(rng, 1, 3)
    if not c or not any(not blank(c.old_lines[i]) for i, _ in c.untouched()):
        return None
    ind = common_indent(c.old_lines + c.new_lines)
    if not ind:
        return None
    return positive(c, reindented(c.old_lines, ind), c.new_lines)


@pos
def first_line_lstrip(e: Edit, rng: Random) -> Case | None:
    """Strings start at the first visible character; following lines keep their indentation."""
    c = e.unique_cut(rng)
    if not c or len(c.old_lines) < 2 or not indent_of(c.old_lines[0]) or blank(c.old_lines[0]):
        return None
    if indent_of(c.old_lines[0]) != indent_of(c.new_lines[0]) or blank(c.new_lines[0]):
        return None
    old, new = ([lines[0].lstrip(), *lines[1:]] for lines in (c.old_lines, c.new_lines))
    return positive(c, old, new) if e.text.count("\n".join(old)) == 1 else None


@pos
def indent_shift_more(e: Edit, rng: Random) -> Case | None:
    """Both texts are a level too deep."""
    c = e.unique_cut(rng)
    if not c:
        return None
    unit = indent_unit(e.lines)
    old = reindented(c.old_lines, "", unit)
    if "\n".join(old) in e.text:
        return None
    return positive(c, old, reindented(c.new_lines, "", unit))


@pos
def indent_shift_less(e: Edit, rng: Random) -> Case | None:
    """Both texts are a level too shallow."""
    c = e.unique_cut(rng)
    if not c:
        return None
    unit = indent_unit(e.lines)
    ind = common_indent(c.old_lines + c.new_lines)
    if len(ind) <= len(unit) or not ind.startswith(unit):
        return None
    return positive(c, reindented(c.old_lines, unit), reindented(c.new_lines, unit))


@pos
def indent_one_line_off(e: Edit, rng: Random) -> Case | None:
    """One untouched line carries a wrong indentation in both strings."""
    c = e.unique_cut(rng, 1, 3)
    if not c:
        return None
    pairs = [(i, j) for i, j in c.untouched() if not blank(c.old_lines[i]) and i > 0]
    if not pairs:
        return None
    i, j = rng.choice(pairs)
    line = c.old_lines[i]
    off = line[1:] if indent_of(line) and rng.random() < 0.5 else " " + line
    old, new = list(c.old_lines), list(c.new_lines)
    old[i] = new[j] = off
    return positive(c, old, new)


@pos
def tabs_to_spaces(e: Edit, rng: Random) -> Case | None:
    """The file is indented with tabs, the texts with spaces."""
    c = e.unique_cut(rng)
    if not c or not any(line.startswith("\t") for line in c.old_lines if not blank(line)):
        return None
    width = rng.choice([4, 4, 2, 8])
    return positive(c, retabbed(c.old_lines, width), retabbed(c.new_lines, width))


@pos
def spaces_to_tabs(e: Edit, rng: Random) -> Case | None:
    """The file is indented with spaces, the texts with tabs."""
    unit = indent_unit(e.lines)
    c = e.unique_cut(rng)
    if unit == "\t" or not c or not any(line.startswith(unit) for line in c.old_lines if not blank(line)):
        return None
    if any("\t" in indent_of(line) for line in c.old_lines + c.new_lines):
        return None

    def conv(lines):
        out = []
        for line in lines:
            n = len(indent_of(line))
            out.append(line if blank(line) else "\t" * (n // len(unit)) + " " * (n % len(unit)) + line[n:])
        return out

    return positive(c, conv(c.old_lines), conv(c.new_lines))


@pos
def indent_rescaled(e: Edit, rng: Random) -> Case | None:
    """Right nesting, wrong indent width (4 written as 2, or 2 as 4)."""
    unit = indent_unit(e.lines)
    c = e.unique_cut(rng)
    if unit not in ("  ", "    ") or not c:
        return None
    every = [line for line in c.old_lines + c.new_lines if not blank(line)]
    if any("\t" in indent_of(line) or len(indent_of(line)) % len(unit) for line in every):
        return None
    if len({indent_of(line) for line in c.old_lines if not blank(line)}) < 2:
        return None
    width = 2 if len(unit) == 4 else 4
    return positive(c, rescaled(c.old_lines, len(unit), width), rescaled(c.new_lines, len(unit), width))


@pos
def trailing_ws_in_file(e: Edit, rng: Random) -> Case | None:
    """The file has trailing blanks that the strings lack. Untouched lines: kept or dropped, both accepted."""
    c = e.unique_cut(rng, 1, 3)
    if not c:
        return None
    idx = [i for i in range(len(c.old_lines) - 1) if not blank(c.old_lines[i])]
    if not idx:
        return None
    chosen = set(rng.sample(idx, min(len(idx), rng.randint(1, 2))))
    tail = rng.choice(["  ", " ", "\t"])
    before = make_before(e, {c.lo + i: c.old_lines[i] + tail for i in chosen})
    keep, every = list(c.new_lines), list(c.new_lines)
    for i, j in c.untouched():
        if i in chosen:
            keep[j] = c.new_lines[j] + tail
    for i, j in c.standing():
        if i in chosen:
            every[j] = c.new_lines[j] + tail
    return positive(c, c.old_lines, c.new_lines, before=before, truth=[keep, every, c.new_lines])


@pos
def trailing_ws_in_old(e: Edit, rng: Random) -> Case | None:
    """The old text has trailing blanks that the file lacks."""
    c = e.unique_cut(rng)
    if not c:
        return None
    idx = [i for i in range(len(c.old_lines)) if not blank(c.old_lines[i])]
    old = list(c.old_lines)
    for i in rng.sample(idx, min(len(idx), rng.randint(1, 3))):
        old[i] = old[i].rstrip() + rng.choice([" ", "  ", "\t"])
    if "\n".join(old) in e.text:
        return None
    return positive(c, old, c.new_lines)


@pos
def blank_edges_added(e: Edit, rng: Random) -> Case | None:
    """Both texts have blank lines around them that the file lacks."""
    c = e.unique_cut(rng)
    if not c or blank(c.old_lines[0]) or blank(c.old_lines[-1]) or blank(c.new_lines[0]) or blank(c.new_lines[-1]):
        return None
    top, bottom = rng.choice([(1, 0), (0, 1), (1, 1), (2, 0), (1, 2)])
    old, new = ([""] * top + lines + [""] * bottom for lines in (c.old_lines, c.new_lines))
    return positive(c, old, new) if "\n".join(old) not in e.text else None


def _inner_blank(e: Edit, rng: Random) -> tuple[Cut | None, list[tuple[int, int]]]:
    c = e.unique_cut(rng, 2, 5)
    if not c:
        return None, []
    u = [
        (i, j)
        for i, j in c.untouched()
        if blank(c.old_lines[i]) and 0 < i < len(c.old_lines) - 1 and 0 < j < len(c.new_lines) - 1
    ]
    return c, u


@pos
def inner_blank_missing(e: Edit, rng: Random) -> Case | None:
    """One blank line inside is missing in both strings. Blank kept or dropped: both accepted."""
    c, u = _inner_blank(e, rng)
    if not c or not u:
        return None
    i, j = rng.choice(u)
    old, new = list(c.old_lines), list(c.new_lines)
    del old[i], new[j]
    if "\n".join(old) in e.text or not "".join(old).strip():
        return None
    return positive(c, old, new, truth=[c.new_lines, new])


@pos
def inner_blank_missing_old(e: Edit, rng: Random) -> Case | None:
    """The blank line is missing in the old text only."""
    c, u = _inner_blank(e, rng)
    if not c or not u:
        return None
    i, _ = rng.choice(u)
    old = list(c.old_lines)
    del old[i]
    if "\n".join(old) in e.text:
        return None
    return positive(c, old, c.new_lines)


@pos
def inner_blank_extra(e: Edit, rng: Random) -> Case | None:
    """The old text has a blank line that the file lacks; so does the new one in half the cases (either accepted)."""
    c = e.unique_cut(rng, 2, 3)
    if not c or len(c.top) < 2 or blank(c.top[0]) or blank(c.top[1]):
        return None
    old = [*c.old_lines[:1], "", *c.old_lines[1:]]
    both = [*c.new_lines[:1], "", *c.new_lines[1:]]
    if rng.random() < 0.5:
        return positive(c, old, c.new_lines)
    return positive(c, old, both, truth=[c.new_lines, both])


@pos
def inner_ws_collapsed(e: Edit, rng: Random) -> Case | None:
    """Alignment blanks inside an untouched line are collapsed in both strings."""
    c = e.unique_cut(rng, 1, 4)
    if not c:
        return None
    hit = [(i, j) for i, j in c.untouched() if re.search(r"\S(  +|\t+)\S", c.old_lines[i])]
    if not hit:
        return None
    old, new = list(c.old_lines), list(c.new_lines)
    for i, j in hit:
        ind = indent_of(old[i])
        old[i] = new[j] = ind + squeeze(old[i])
    return positive(c, old, new)


@pos
def rewrapped(e: Edit, rng: Random) -> Case | None:
    """Two untouched lines are joined into one in both strings (re-wrapped call or paragraph)."""
    c = e.unique_cut(rng, 2, 4)
    if not c or len(c.top) < 2:
        return None
    k = rng.randrange(len(c.top) - 1)
    a, b = c.top[k], c.top[k + 1]
    if blank(a) or blank(b) or not (a.rstrip().endswith(("(", "[", "{", ",")) or e.lang == "markdown"):
        return None
    joined = a.rstrip() + ("" if a.rstrip()[-1] in "([" else " ") + b.lstrip()
    old, new = ([*lines[:k], joined, *lines[k + 2 :]] for lines in (c.old_lines, c.new_lines))
    return positive(c, old, new)


@pos
def crlf_file(e: Edit, rng: Random) -> Case | None:
    """A CRLF file, texts with LF."""
    c = e.unique_cut(rng)
    if not c or len(c.old_lines) < 2:
        return None
    return positive(c, c.old_lines, c.new_lines, before=make_before(e, eol="\r\n"))


@pos
def crlf_file_dedent(e: Edit, rng: Random) -> Case | None:
    """As dedent_all, in a CRLF file."""
    c = e.unique_cut(rng)
    if not c or len(c.old_lines) < 2 or not (shared := common_indent(c.old_lines + c.new_lines)):
        return None
    before = make_before(e, eol="\r\n")
    return positive(c, reindented(c.old_lines, shared), reindented(c.new_lines, shared), before=before)


@pos
def crlf_strings(e: Edit, rng: Random) -> Case | None:
    """An LF file, texts with CRLF."""
    c = e.unique_cut(rng)
    if not c or len(c.old_lines) < 2:
        return None
    return positive(c, "\r\n".join(c.old_lines), "\r\n".join(c.new_lines))


@pos
def mixed_eol_file(e: Edit, rng: Random) -> Case | None:
    """CRLF file with a few LF lines elsewhere: lines outside the block must stay byte-identical."""
    c = e.unique_cut(rng)
    if not c or len(c.old_lines) < 2:
        return None
    far = [i for i in range(len(e.lines) - 1) if i < c.lo - 2 or i > c.hi + 2]
    if len(far) < 6:
        return None
    lf = sorted(rng.sample(far, min(5, len(far))))
    return positive(c, c.old_lines, c.new_lines, before=make_before(e, eol="\r\n", lf_lines=lf))


@pos
def smart_quotes_context(e: Edit, rng: Random) -> Case | None:
    """Typographic characters in untouched file lines, ASCII in the strings: the file's must survive."""
    c = e.unique_cut(rng, 1, 3)
    if not c:
        return None
    hit = [(i, j) for i, j in c.untouched() if any(q in c.old_lines[i] for q in "'\"")]
    if not hit:
        return None
    edits, truth = {}, list(c.new_lines)
    for i, j in hit:
        s = smartened(c.old_lines[i], rng)
        edits[c.lo + i] = truth[j] = s
    return positive(c, c.old_lines, c.new_lines, before=make_before(e, edits), truth=[truth])


@pos
def smart_quotes_changed(e: Edit, rng: Random) -> Case | None:
    """Typographic characters in the removed lines: ASCII or typographic in the new ones, both accepted."""
    c = e.unique_cut(rng, 0, 2)
    if not c or not c.gone or not any(q in line for line in c.gone for q in "'\""):
        return None
    base = len(c.top)
    edits = {
        c.lo + base + k: smartened(line, Random(1)) for k, line in enumerate(c.gone) if any(q in line for q in "'\"")
    }
    smart_new = c.top + [smartened(line, Random(1)) for line in c.added] + c.bottom
    kept = list(c.new_lines)
    for i, j in c.standing():
        kept[j] = edits.get(c.lo + i, kept[j])
    truth = [c.new_lines, kept, smart_new]
    return positive(c, c.old_lines, c.new_lines, before=make_before(e, edits), truth=truth)


@pos
def smart_quotes_in_strings(e: Edit, rng: Random) -> Case | None:
    """The model used typographic quotes in untouched lines of both strings; the file is ASCII and must stay so."""
    c = e.unique_cut(rng, 1, 3)
    if not c:
        return None
    hit = [(i, j) for i, j in c.untouched() if any(q in c.old_lines[i] for q in "'\"")]
    if not hit:
        return None
    old, new = list(c.old_lines), list(c.new_lines)
    for i, j in hit:
        old[i] = new[j] = smartened(c.old_lines[i], rng)
    return positive(c, old, new)


@pos
def nbsp_file(e: Edit, rng: Random) -> Case | None:
    """The file has a no-break space in an untouched line, the texts a space."""
    c = e.unique_cut(rng, 1, 3)
    if not c:
        return None
    hit = [(i, j) for i, j in c.untouched() if hardened(c.old_lines[i], Random(0)) != c.old_lines[i]]
    if not hit:
        return None
    i, j = rng.choice(hit)
    s = hardened(c.old_lines[i], rng)
    truth = list(c.new_lines)
    truth[j] = s
    return positive(c, c.old_lines, c.new_lines, before=make_before(e, {c.lo + i: s}), truth=[truth])


@pos
def nbsp_strings(e: Edit, rng: Random) -> Case | None:
    """The texts have a no-break space in an untouched line, the file a space."""
    c = e.unique_cut(rng, 1, 3)
    if not c:
        return None
    hit = [(i, j) for i, j in c.untouched() if hardened(c.old_lines[i], Random(0)) != c.old_lines[i]]
    if not hit:
        return None
    old, new = list(c.old_lines), list(c.new_lines)
    i, j = rng.choice(hit)
    old[i] = new[j] = hardened(old[i], rng)
    return positive(c, old, new)


@pos
def line_numbers(e: Edit, rng: Random) -> Case | None:
    """The old text has the line numbers of the listing; in most cases the new one does too."""
    c = e.unique_cut(rng)
    if not c:
        return None
    style = rng.choice(NUMBERINGS)
    new = numbered(c.new_lines, style, c.lo) if rng.random() < 0.6 else c.new_lines
    return positive(c, numbered(c.old_lines, style, c.lo), new)


@pos
def escaped_full(e: Edit, rng: Random) -> Case | None:
    """Both strings were JSON-escaped once too often."""
    c = e.unique_cut(rng)
    if not c or len(c.old_lines) < 2:
        return None
    return positive(c, json_escaped(c.old), json_escaped(c.new))


@pos
def escaped_quotes(e: Edit, rng: Random) -> Case | None:
    """The double quotes of both texts are escaped."""
    c = e.unique_cut(rng)
    if not c or '"' not in c.old or "\\" in c.old + c.new:
        return None
    return positive(c, c.old.replace('"', '\\"'), c.new.replace('"', '\\"'))


@pos
def html_entities(e: Edit, rng: Random) -> Case | None:
    """Both texts were escaped for HTML."""
    c = e.unique_cut(rng)
    if not c or not re.search(r"[<>&]", c.old) or re.search(r"&(lt|gt|amp|quot|#\d+);", c.old + c.new):
        return None
    quote = rng.random() < 0.4
    return positive(c, html_escaped(c.old, quote=quote), html_escaped(c.new, quote=quote))


@pos
def markdown_fence(e: Edit, rng: Random) -> Case | None:
    """Both texts are in a code fence."""
    c = e.unique_cut(rng)
    if not c or "```" in c.old + c.new:
        return None
    tag = rng.choice(["", e.lang])
    return positive(c, fenced(c.old, tag), fenced(c.new, tag))


def _context_typo(e: Edit, rng: Random, *, both: bool) -> Case | None:
    c = e.unique_cut(rng, 1, 3)
    if not c or len(c.old_lines) < 3:
        return None
    u = [(i, j) for i, j in c.untouched() if not blank(c.old_lines[i])]
    rng.shuffle(u)
    for i, j in u:
        t = with_typo(c.old_lines[i], rng)
        if t and t not in e.lines:
            old, new = list(c.old_lines), list(c.new_lines)
            old[i] = t
            if both:
                new[j] = t
            return positive(c, old, new)
    return None


@pos
def typo_context_old(e: Edit, rng: Random) -> Case | None:
    """One-character typo in an untouched line of the old text; the new text has the line right."""
    return _context_typo(e, rng, both=False)


@pos
def typo_context_both(e: Edit, rng: Random) -> Case | None:
    """The same typo in both strings: the file's own line must survive."""
    return _context_typo(e, rng, both=True)


@pos
def stale_context(e: Edit, rng: Random) -> Case | None:
    """One untouched line is stale in both strings (differs by several words): the file's line must survive."""
    c = e.unique_cut(rng, 2, 4)
    if not c or len(c.old_lines) < 5 or not c.gone or blank("".join(c.gone)):
        return None
    u = [(i, j) for i, j in c.untouched() if len(WORD.findall(c.old_lines[i])) >= 2]
    rng.shuffle(u)
    for i, j in u:
        stale = outdated(c.old_lines[i], rng)
        if stale not in e.lines:
            old, new = list(c.old_lines), list(c.new_lines)
            old[i] = new[j] = stale
            return positive(c, old, new)
    return None


COMMENT = {
    "python": "#",
    "yaml": "#",
    "toml": "#",
    "shell": "#",
    "typescript": "//",
    "javascript": "//",
    "go": "//",
    "rust": "//",
    "c": "//",
    "css": "//",
    "json": "//",
    "markdown": "",
    "html": "",
}


@pos
def elided_middle(e: Edit, rng: Random) -> Case | None:
    """A run of untouched lines is replaced by `...` or a `... existing code ...` comment in both strings."""
    far = rng.randint(6, 14)
    c = e.cut(far, rng.randint(0, 2))
    if not c or len(c.top) < 6 or windows_equal(e.lines, c.old_lines, squeeze) != 1 or e.text.count(c.old) != 1:
        return None
    head, tail = rng.randint(1, 2), rng.randint(1, 2)
    if all(blank(line) for line in c.top[:head]) or windows_equal(e.lines, c.top[:head], str.strip) != 1:
        return None  # the head must anchor on its own
    lower = c.top[-tail:] + c.gone + c.bottom
    if blank("".join(lower)) or windows_equal(e.lines, lower, str.strip) != 1:
        return None  # so must the part after the ellipsis
    mark = rng.choice(["...", "...", f"{COMMENT[e.lang]} ... existing code ...".strip(), "..."])
    dots = indent_of(c.top[head]) + mark
    short = [*c.top[:head], dots, *c.top[-tail:]]
    return positive(c, short + c.gone + c.bottom, short + c.added + c.bottom)


@pos
def bom_file(e: Edit, rng: Random) -> Case | None:
    """File with a byte-order mark, edit at the very first line."""
    last = min(len(e.lines) - 1, rng.randint(2, 4))
    block = e.lines[:last]
    if blank("".join(block)) or blank(block[0]) or e.text.count("\n".join(block)) != 1:
        return None
    m = WORD.search(block[-1])
    if not m:
        return None
    new = [*block[:-1], block[-1][: m.start()] + m[0] + "_v2" + block[-1][m.end() :]]
    fake = e.elsewhere(last - 1, 1, [new[-1]])
    c = fake.cut(last - 1, 0)
    return c and positive(c, c.old_lines, c.new_lines, before=make_before(e, bom=True))


@pos
def eof_newline(e: Edit, rng: Random) -> Case | None:
    """File without a final newline, strings end with one. Final newline or not: both accepted."""
    if e.lines[-1] != "" or len(e.lines) < 8:
        return None
    last = len(e.lines) - 1
    k = rng.randint(2, 4)
    block = e.lines[last - k : last]
    m = WORD.search(block[0])
    if not m or blank(block[-1]) or windows_equal(e.lines, block, squeeze) != 1:
        return None
    new = [block[0][: m.start()] + m[0] + "_v2" + block[0][m.end() :], *block[1:]]
    before = make_before(e, {last: None})
    fake = e.elsewhere(last - k, 1, new[:1])
    c = fake.cut(0, k - 1)
    if not c:
        return None
    return positive(c, c.old + "\n", c.new + "\n", before=before, truth=[new, [*new, ""]])
