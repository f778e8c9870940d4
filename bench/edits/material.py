"""What cases are made of: real edits, cut out of their files the way an agent would quote them.

    Edit     one real hunk in one real file; any amount of context can be cut from it
    Cut      the old and the new lines of an Edit with some lines of context
    Before   the file that a case is run on: a stored file with small, reproducible changes
    Case     what a tool sees (before, old, new), and the truth: a span with accepted texts, or a refusal

Lines that are in both old and new keep the bytes of the file. Either is accepted: trailing blanks of
untouched lines kept or dropped; a blank line that the model did not see, kept, or dropped when the new text
lacks it too; plain or typographic characters in *changed* lines; a final newline or none.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cached_property
from random import Random
from typing import Any

WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{2,}")


# --- lines


def indent_of(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def blank(line: str) -> bool:
    return not line.strip()


def verbatim(line: str) -> str:
    return line


def squeeze(line: str) -> str:
    return " ".join(line.split())


def common_indent(lines: Sequence[str]) -> str:
    """The longest common run of leading blanks of all lines that are not blank."""
    found = [indent_of(line) for line in lines if not blank(line)]
    prefix = found[0] if found else ""
    for each in found:
        while not each.startswith(prefix):
            prefix = prefix[:-1]
    return prefix


def indent_unit(lines: Sequence[str]) -> str:
    """One level of indentation in a file: a tab, or the most common step to a deeper line."""
    if sum(line.startswith("\t") for line in lines) > sum(line.startswith("  ") for line in lines):
        return "\t"
    steps: Counter[int] = Counter()
    last = 0
    for depth in (len(indent_of(line)) for line in lines if not blank(line)):
        if depth > last:
            steps[depth - last] += 1
        last = depth
    return next((" " * width for width, _ in steps.most_common() if width in (2, 4, 8)), "    ")


class Index:
    """The lines of a file under a key, with their positions."""

    def __init__(self, lines: Sequence[str], key: Callable[[str], str]) -> None:
        self.lines = lines
        self.keyed = [key(line) for line in lines]
        self.where: dict[str, list[int]] = defaultdict(list)
        for at, line in enumerate(self.keyed):
            self.where[line].append(at)


_indices: dict[tuple[int, Callable[[str], str]], Index] = {}


def index(lines: Sequence[str], key: Callable[[str], str]) -> Index:
    """Cached, because the same few files are used repeatedly."""
    known = _indices.get((id(lines), key))
    if known is None or known.lines is not lines:
        if len(_indices) > 12:
            _indices.clear()
        known = _indices[id(lines), key] = Index(lines, key)
    return known


def windows_equal(lines: Sequence[str], block: Sequence[str], key: Callable[[str], str]) -> int:
    """How many windows of `lines`, overlapping or not, equal `block` under `key`."""
    want, known = [key(line) for line in block], index(lines, key)
    return sum(known.keyed[at : at + len(want)] == want for at in known.where.get(want[0], ()))


def count_overlapping(text: str, needle: str) -> int:
    count, at = 0, text.find(needle)
    while at != -1:
        count, at = count + 1, text.find(needle, at + 1)
    return count


# --- edits


@dataclass
class Edit:
    id: str
    repo: str
    path: str
    lang: str
    file: str
    start: int
    removed: int
    added: list[str]
    lines: list[str] = field(repr=False)
    pool: Sequence["Edit"] = field(default=(), repr=False)  # all edits of the corpus, including this one

    @cached_property
    def text(self) -> str:
        return "\n".join(self.lines)

    def elsewhere(self, start: int, removed: int, added: list[str]) -> "Edit":
        """An edit made up elsewhere in the same file."""
        return Edit(self.id, self.repo, self.path, self.lang, self.file, start, removed, added, self.lines, self.pool)

    def cut(self, above: int, below: int) -> "Cut | None":
        last = len(self.lines) - (self.lines[-1] == "")  # a final newline does not start a line
        lo, hi = max(0, self.start - above), min(last, self.start + self.removed + below)
        if hi < self.start + self.removed:
            return None
        end = self.start + self.removed
        cut = Cut(
            self, lo, hi, self.lines[lo : self.start], self.lines[self.start : end], [*self.added], self.lines[end:hi]
        )
        return cut if cut.old.strip() and cut.new.strip() and cut.old != cut.new else None

    def unique_cut(self, rng: Random, low: int = 0, high: int = 3) -> "Cut | None":
        """A cut as an agent makes it: a few lines of context, and more until the text is unique apart from blanks."""
        above, below = rng.randint(low, high), rng.randint(low, high)
        if above + below == 0 and not (self.removed and self.added):
            above = 1
        for _ in range(6):
            cut = self.cut(above, below)
            if (
                cut
                and count_overlapping(self.text, cut.old) == 1
                and windows_equal(self.lines, cut.old_lines, squeeze) == 1
            ):
                return cut
            if rng.random() < 0.5:
                above += 1
            else:
                below += 1
        return None


@dataclass
class Cut:
    edit: Edit
    lo: int  # lines of the block in the file
    hi: int
    top: list[str]
    gone: list[str]
    added: list[str]
    bottom: list[str]

    @property
    def old_lines(self) -> list[str]:
        return self.top + self.gone + self.bottom

    @property
    def new_lines(self) -> list[str]:
        return self.top + self.added + self.bottom

    @property
    def old(self) -> str:
        return "\n".join(self.old_lines)

    @property
    def new(self) -> str:
        return "\n".join(self.new_lines)

    def untouched(self) -> list[tuple[int, int]]:
        """The positions of each context line in the old lines and in the new ones."""
        above = [(at, at) for at in range(len(self.top))]
        old, new = len(self.top) + len(self.gone), len(self.top) + len(self.added)
        return above + [(old + at, new + at) for at in range(len(self.bottom))]

    def standing(self) -> list[tuple[int, int]]:
        """The positions of each line that is in both. In a made-up hunk, these include some removed lines."""
        matcher = SequenceMatcher(None, self.old_lines, self.new_lines, autojunk=False)
        opcodes = [each for each in matcher.get_opcodes() if each[0] == "equal"]
        return [(a + n, c + n) for _, a, b, c, _ in opcodes for n in range(b - a)]


@dataclass
class Before:
    file: str
    lines: list[str] = field(repr=False)  # the stored lines, before the changes below
    line_edits: Mapping[int, str | None] = field(default_factory=dict)  # line → new text; None deletes it
    eol: str = "\n"
    lf_lines: list[int] = field(default_factory=list)  # lines that keep LF in a CRLF file
    bom: bool = False
    insert: tuple[int, list[str]] | None = None  # (line, lines), inserted last

    def text(self) -> str:
        lf = set(self.lf_lines)
        ended = (line + ("\n" if at in lf else self.eol) for at, line in enumerate(self.lines[:-1]))
        return ("\ufeff" if self.bom else "") + "".join(ended) + self.lines[-1]

    def span(self, lo: int, hi: int) -> tuple[int, int]:
        """The characters of lines `lo` to `hi`, without the last line's ending."""
        lf = set(self.lf_lines)
        at = start = end = int(self.bom)
        for number, line in enumerate(self.lines[:hi]):
            if number == lo:
                start = at
            end = at + len(line)
            at = end + (1 if number in lf else len(self.eol))
        return start, end

    def described(self) -> dict[str, Any]:
        """The data needed to rebuild it from the stored file."""
        described: dict[str, Any] = {"file": self.file}
        if self.line_edits:
            described["line_edits"] = {str(at): line for at, line in self.line_edits.items()}
        if self.insert:
            described["insert"] = self.insert
        if self.eol != "\n":
            described["eol"] = "crlf"
        if self.lf_lines:
            described["lf_lines"] = self.lf_lines
        if self.bom:
            described["bom"] = True
        return described

    @classmethod
    def made(cls, described: dict[str, Any], stored: list[str]) -> "Before":
        """Rebuild it from what `described` returned."""
        edits = {int(at): line for at, line in described.get("line_edits", {}).items()}
        return changed(
            described["file"],
            stored,
            edits,
            eol="\r\n" if described.get("eol") == "crlf" else "\n",
            lf_lines=described.get("lf_lines", []),
            bom=described.get("bom", False),
            insert=described.get("insert"),
        )


def changed(
    file: str,
    stored: list[str],
    line_edits: Mapping[int, str | None] | None = None,
    *,
    insert: tuple[int, list[str]] | None = None,
    **rest: Any,
) -> Before:
    edits = line_edits or {}
    lines = [kept for at, line in enumerate(stored) if (kept := edits.get(at, line)) is not None]
    if insert:
        lines[insert[0] : insert[0]] = insert[1]
    return Before(file, lines, edits, insert=insert, **rest)


def make_before(edit: Edit, line_edits: Mapping[int, str | None] | None = None, **rest: Any) -> Before:
    return changed(edit.file, edit.lines, line_edits, **rest)


# --- cases


@dataclass
class Case:
    edit: Edit
    before: Before
    old: str
    new: str
    span: tuple[int, int] | None  # the true block in `before`; None: must be refused
    accept: list[str]  # accepted contents of the block afterwards, best first


Maker = Callable[[Edit, Random], Case | None]


def positive(
    cut: Cut,
    old: list[str] | str,
    new: list[str] | str,
    *,
    before: Before | None = None,
    truth: list[list[str]] | None = None,
) -> Case | None:
    """A case that should land; None if its truth would be unclear."""
    before = before or make_before(cut.edit)
    old = old if isinstance(old, str) else "\n".join(old)
    new = new if isinstance(new, str) else "\n".join(new)
    span = before.span(cut.lo, cut.hi)
    if old == new or not _only_inside(before.text(), old, span):
        return None
    accept = [before.eol.join(lines) for lines in (truth or [cut.new_lines])]
    return Case(cut.edit, before, old, new, span, list(dict.fromkeys(accept)))


def _only_inside(text: str, needle: str, span: tuple[int, int]) -> bool:
    """Whether the text occurs at most once, and only in the span: anywhere else it would be an exact hit."""
    at = text.find(needle)
    if at == -1:
        return True
    return span[0] <= at and at + len(needle) <= span[1] + 2 and text.find(needle, at + 1) == -1


def reject(edit: Edit, before: Before, old: str, new: str) -> Case | None:
    return Case(edit, before, old, new, None, []) if old != new else None
