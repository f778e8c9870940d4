"""One cell of a notebook changed, in the text of the file.

A notebook is never written anew. The text of one cell is made and put into the text of the file, with the blanks, the
order of names and the spelling that the cells around it have; inside the cell, what does not change stays as it is.
"""

import json
import re
from bisect import bisect
from collections.abc import Collection, Sequence
from functools import cached_property
from hashlib import sha256
from typing import Any

from handhold.core.requests import CellKind
from handhold.core.text.json_spans import Node, walked
from handhold.core.text.lines import prevailing_ending, unified
from handhold.core.text.notebook import Cell, Notebook

ONLY_CODE: dict[str, Any] = {"execution_count": None, "outputs": []}  # of every code cell, before it has run
NOT_CODE = ("attachments",)
LOOKED_AT = 100  # cells, at most, to see how sources are written

_ESCAPED = re.compile(r"\\u(?!00[0-7])[0-9a-fA-F]{4}")  # of a character that is not ASCII


def replaced(book: Notebook, cell: Cell, source: str | None, kind: CellKind | None) -> str:
    """With another source, another kind, or both. What the code had put out goes: it is not what this code puts out."""
    manner = Manner(book, cell.number - 1)
    held: dict[str, str] = {}
    if kind and kind != cell.kind:
        held["cell_type"] = json.dumps(kind)
    if source is not None and unified(source) != unified(cell.source):
        ending = prevailing_ending(cell.source)
        held["source"] = manner.source(unified(source).replace("\n", ending))
    if not held:
        return book.text
    now = kind or cell.kind
    if now == "code":
        held |= {name: json.dumps(none) for name, none in ONLY_CODE.items() if cell.facts.get(name, "") != none}
    gone = () if now == cell.kind else NOT_CODE if now == "code" else ONLY_CODE
    return book.text[: cell.node.start] + manner.changed(cell.node, held, gone) + book.text[cell.node.end :]


def inserted(book: Notebook, number: int, source: str, kind: CellKind) -> tuple[str, str]:
    """With a new cell, which then has this number; and its id, if it has one."""
    manner = Manner(book, max(0, number - 2))
    held = {"cell_type": json.dumps(kind), "metadata": "{}", "source": manner.source(unified(source))}
    if kind == "code":
        held |= {name: json.dumps(none) for name, none in ONLY_CODE.items()}
    name = _new_id(book, number, source) if book.has_ids else ""
    if name:
        held["id"] = json.dumps(name)
    cell = manner.made(held, kind)
    parts = book.array.parts
    if not parts:
        start, end = book.array.start + 1, book.array.end - 1
        cell = f"{manner.indented(2)}{cell}{manner.indented(1)}"
    elif number > len(parts):
        start = end = parts[-1].node.end
        cell = manner.between_cells(number) + cell
    else:
        start = end = parts[number - 1].start
        cell += manner.between_cells(number)
    return book.text[:start] + cell + book.text[end:], name


def deleted(book: Notebook, cell: Cell) -> str:
    """Without the cell, and without a comma beside it."""
    parts, at = book.array.parts, cell.number - 1
    if len(parts) == 1:
        start, end = book.array.start + 1, book.array.end - 1
    elif at + 1 < len(parts):
        start, end = parts[at].start, parts[at + 1].start
    else:
        start, end = parts[at - 1].node.end, parts[at].node.end
    return book.text[:start] + book.text[end:]


def _new_id(book: Notebook, number: int, source: str) -> str:
    """Eight letters that no cell has: the same for the same edit of the same file, so that it can be repeated."""
    taken = {cell.id for cell in book.cells}
    seed = sha256(f"{number}\n{source}\n{book.text}".encode("utf-8", "surrogatepass"))
    while (name := seed.hexdigest()[:8]) in taken:
        seed.update(b"again")
    return name


class Manner:
    """How a notebook is written, near one of its cells: what stands around and between things, and in what order."""

    def __init__(self, book: Notebook, near: int) -> None:
        self.book = book
        self.text = book.text
        self.cells = sorted(book.cells, key=lambda cell: abs(cell.number - 1 - near))  # the nearest first
        self.own = self.cells[0] if self.cells else None

    # --- blanks and commas

    def indented(self, depth: int) -> str:
        """What stands before something so deep in the file, if all of it is written as its first level is."""
        before = self.book.top.gaps(self.text)[0]
        line = before.rfind("\n") + 1
        return before[:line] + before[line:] * depth if line else ""

    def between_cells(self, number: int) -> str:
        """What parts a cell of this number from the one before it."""
        first, *between, _ = self.book.array.gaps(self.text)
        return between[min(max(number - 2, 0), len(between) - 1)] if between else self._comma(first)

    def _comma(self, before: str) -> str:
        """A comma between things that have these blanks before them."""
        if "\n" in before:
            return f",{before}"
        return next((gap for gap in self.book.top.gaps(self.text)[1:-1] if "\n" not in gap), ", ")

    def _gaps(self, node: Node) -> tuple[str, str, str]:
        """What stands before, between and after the parts of something."""
        before, *between, after = node.gaps(self.text)
        return before, between[0] if between else self._comma(before), after

    def _gaps_in_cell(self) -> tuple[str, str, str]:
        if self.own:
            return self._gaps(self.own.node)
        before = self.indented(3)
        return before, self._comma(before), self.indented(2)

    def _gaps_in_source(self, lines: Sequence[str]) -> tuple[str, str, str]:
        """As in the nearest source of so many lines: some write one line behind the bracket, and several below it."""
        sources = [node for cell in self.cells[:LOOKED_AT] if (node := self._source_of(cell)).parts]
        alike = [node for node in sources if (len(node.parts) > 1) == (len(lines) > 1)]
        if nearest := next(iter(alike or sources), None):
            return self._gaps(nearest)
        outer, _, _ = self._gaps_in_cell()
        before = outer + self.indented(1).rpartition("\n")[2] if "\n" in outer else ""
        return before, self._comma(before), outer if before else ""

    def _colon(self) -> str:
        part = (self.own.node if self.own else self.book.top).parts[0]
        return self.text[part.name_end : part.node.start]

    # --- values

    def source(self, source: str) -> str:
        """As the nearest cell has it: one string, or a list of lines."""
        if self.own and isinstance(self._source_of(self.own).value, str):
            return self._string(source)
        lines = [line + "\n" for line in source.split("\n")]
        lines[-1] = lines[-1][:-1]
        if not lines[-1]:
            lines.pop()
        if not lines:
            return "[]"
        before, between, after = self._gaps_in_source(lines)
        return f"[{before}{between.join(map(self._string, lines))}{after}]"

    def _string(self, value: str) -> str:
        return json.dumps(value, ensure_ascii=self._in_ascii)

    @cached_property
    def _in_ascii(self) -> bool:
        return self.text.isascii() and any(_is_escape(self.text, at.start()) for at in _ESCAPED.finditer(self.text))

    def _source_of(self, cell: Cell) -> Node:
        part = cell.node.part("source")
        assert part  # a notebook that can be edited was read by that name
        return walked(self.text, part.node.start, 1)

    # --- cells

    def made(self, held: dict[str, str], kind: str) -> str:
        """A new cell of this, in the order of names that the nearest cell of its kind has."""
        like = next((cell for cell in self.cells if cell.kind == kind), self.own)
        order = [part.name for part in like.node.parts] if like else []
        names = sorted(held)
        if not _is_sorted(order):
            names.sort(key=lambda name: order.index(name) if name in order else len(order))
        before, between, after = self._gaps_in_cell()
        return f"{{{before}{between.join(self._member(name, held[name]) for name in names)}{after}}}"

    def _member(self, name: str, value: str) -> str:
        return f'"{name}"{self._colon()}{value}'

    def changed(self, node: Node, held: dict[str, str], gone: Collection[str]) -> str:
        """A cell with other values by these names, without those others, and the rest of it as it stands."""
        before, between, after = self._gaps(node)
        commas = [between, *node.gaps(self.text)[1:-1]]  # before each member, as if another were before it
        members: list[tuple[str, str, str]] = []
        for comma, part in zip(commas, node.parts, strict=True):
            if part.name in held:
                members.append((part.name, comma, self.text[part.start : part.node.start] + held[part.name]))
            elif part.name not in gone:
                members.append((part.name, comma, self.text[part.start : part.node.end]))
        names = [name for name, _, _ in members]
        is_sorted = _is_sorted(names)
        for name in sorted(held.keys() - names):
            at = bisect(names, name) if is_sorted else len(names)
            names.insert(at, name)
            members.insert(at, (name, between, self._member(name, held[name])))
        first, *rest = members
        return f"{{{before}{first[2]}{''.join(comma + text for _, comma, text in rest)}{after}}}"


def _is_escape(text: str, at: int) -> bool:
    """Whether this backslash is not itself spelled by the one before it."""
    start = at
    while start and text[start - 1] == "\\":
        start -= 1
    return (at - start) % 2 == 0


def _is_sorted(names: list[str]) -> bool:
    return names == sorted(names)
