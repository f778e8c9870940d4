"""Change one cell of a notebook in the text of the file.

The notebook is never rewritten as a whole. The text of one cell is generated with the blanks, the order of names and
the escaping of the cells around it, and put into the file's text; unchanged parts of the cell stay as they are.
"""

import json
import re
from bisect import bisect
from collections.abc import Collection, Sequence
from functools import cached_property
from hashlib import sha256
from typing import Any

from handhold.core.requests import CellKind
from handhold.core.text.json_spans import JsonNode, parse_value
from handhold.core.text.lines import detect_line_ending, normalize_newlines
from handhold.core.text.notebook import Cell, Notebook

CODE_ONLY_FIELDS: dict[str, Any] = {"execution_count": None, "outputs": []}  # of a code cell that has not run
NON_CODE_FIELDS = ("attachments",)
MAX_INSPECTED_CELLS = 100  # cells inspected to see how sources are written

_UNICODE_ESCAPE = re.compile(r"\\u(?!00[0-7])[0-9a-fA-F]{4}")  # of a non-ASCII character


def replace_cell(notebook: Notebook, cell: Cell, source: str | None, kind: CellKind | None) -> str:
    """Change the source, the kind, or both. The outputs are removed: they do not belong to the new code."""
    style = NotebookStyle(notebook, cell.number - 1)
    members: dict[str, str] = {}
    if kind and kind != cell.kind:
        members["cell_type"] = json.dumps(kind)
    if source is not None and normalize_newlines(source) != normalize_newlines(cell.source):
        ending = detect_line_ending(cell.source)
        members["source"] = style.format_source(normalize_newlines(source).replace("\n", ending))
    if not members:
        return notebook.text
    now = kind or cell.kind
    if now == "code":
        members |= {name: json.dumps(none) for name, none in CODE_ONLY_FIELDS.items() if cell.raw.get(name, "") != none}
    removed = () if now == cell.kind else NON_CODE_FIELDS if now == "code" else CODE_ONLY_FIELDS
    return (
        notebook.text[: cell.node.start]
        + style.format_changed_cell(cell.node, members, removed)
        + notebook.text[cell.node.end :]
    )


def insert_cell(notebook: Notebook, number: int, source: str, kind: CellKind) -> tuple[str, str]:
    """Insert a cell at this number; return the text, and the new cell's id if it has one."""
    style = NotebookStyle(notebook, max(0, number - 2))
    members = {
        "cell_type": json.dumps(kind),
        "metadata": "{}",
        "source": style.format_source(normalize_newlines(source)),
    }
    if kind == "code":
        members |= {name: json.dumps(none) for name, none in CODE_ONLY_FIELDS.items()}
    name = _generate_id(notebook, number, source) if notebook.has_ids else ""
    if name:
        members["id"] = json.dumps(name)
    cell = style.format_new_cell(members, kind)
    parts = notebook.cells_node.children
    if not parts:
        start, end = notebook.cells_node.start + 1, notebook.cells_node.end - 1
        cell = f"{style.build_indent(2)}{cell}{style.build_indent(1)}"
    elif number > len(parts):
        start = end = parts[-1].node.end
        cell = style.get_cell_separator(number) + cell
    else:
        start = end = parts[number - 1].start
        cell += style.get_cell_separator(number)
    return notebook.text[:start] + cell + notebook.text[end:], name


def delete_cell(notebook: Notebook, cell: Cell) -> str:
    """Remove the cell and the comma next to it."""
    parts, at = notebook.cells_node.children, cell.number - 1
    if len(parts) == 1:
        start, end = notebook.cells_node.start + 1, notebook.cells_node.end - 1
    elif at + 1 < len(parts):
        start, end = parts[at].start, parts[at + 1].start
    else:
        start, end = parts[at - 1].node.end, parts[at].node.end
    return notebook.text[:start] + notebook.text[end:]


def _generate_id(notebook: Notebook, number: int, source: str) -> str:
    """An unused id of eight characters: the same for the same edit of the same file, so that a retry is idempotent."""
    taken = {cell.id for cell in notebook.cells}
    seed = sha256(f"{number}\n{source}\n{notebook.text}".encode("utf-8", "surrogatepass"))
    while (name := seed.hexdigest()[:8]) in taken:
        seed.update(b"again")
    return name


class NotebookStyle:
    """How a notebook is written near one of its cells: blanks, commas, and the order of names."""

    def __init__(self, notebook: Notebook, near: int) -> None:
        self.notebook = notebook
        self.text = notebook.text
        self.cells = sorted(notebook.cells, key=lambda cell: abs(cell.number - 1 - near))  # nearest first
        self.nearest_cell = self.cells[0] if self.cells else None

    # --- blanks and commas

    def build_indent(self, depth: int) -> str:
        """The indentation at this depth, if the whole file is written like its first level."""
        before = self.notebook.root.read_gaps(self.text)[0]
        line = before.rfind("\n") + 1
        return before[:line] + before[line:] * depth if line else ""

    def get_cell_separator(self, number: int) -> str:
        """The separator before the cell with this number."""
        first, *between, _ = self.notebook.cells_node.read_gaps(self.text)
        return between[min(max(number - 2, 0), len(between) - 1)] if between else self._choose_separator(first)

    def _choose_separator(self, before: str) -> str:
        """A comma for items that have these blanks before them."""
        if "\n" in before:
            return f",{before}"
        return next((gap for gap in self.notebook.root.read_gaps(self.text)[1:-1] if "\n" not in gap), ", ")

    def _read_gaps(self, node: JsonNode) -> tuple[str, str, str]:
        """The text before, between and after the children of a node."""
        before, *between, after = node.read_gaps(self.text)
        return before, between[0] if between else self._choose_separator(before), after

    def _read_cell_gaps(self) -> tuple[str, str, str]:
        if self.nearest_cell:
            return self._read_gaps(self.nearest_cell.node)
        before = self.build_indent(3)
        return before, self._choose_separator(before), self.build_indent(2)

    def _read_source_gaps(self, lines: Sequence[str]) -> tuple[str, str, str]:
        """As in the nearest similar source: some writers put a single line after the bracket, but several below it."""
        sources = [node for cell in self.cells[:MAX_INSPECTED_CELLS] if (node := self._parse_source(cell)).children]
        alike = [node for node in sources if (len(node.children) > 1) == (len(lines) > 1)]
        if nearest := next(iter(alike or sources), None):
            return self._read_gaps(nearest)
        outer, _, _ = self._read_cell_gaps()
        before = outer + self.build_indent(1).rpartition("\n")[2] if "\n" in outer else ""
        return before, self._choose_separator(before), outer if before else ""

    def _read_colon(self) -> str:
        part = (self.nearest_cell.node if self.nearest_cell else self.notebook.root).children[0]
        return self.text[part.name_end : part.node.start]

    # --- values

    def format_source(self, source: str) -> str:
        """As in the nearest cell: one string, or a list of lines."""
        if self.nearest_cell and isinstance(self._parse_source(self.nearest_cell).value, str):
            return self._format_string(source)
        lines = [line + "\n" for line in source.split("\n")]
        lines[-1] = lines[-1][:-1]
        if not lines[-1]:
            lines.pop()
        if not lines:
            return "[]"
        before, between, after = self._read_source_gaps(lines)
        return f"[{before}{between.join(map(self._format_string, lines))}{after}]"

    def _format_string(self, value: str) -> str:
        return json.dumps(value, ensure_ascii=self._is_ascii_escaped)

    @cached_property
    def _is_ascii_escaped(self) -> bool:
        return self.text.isascii() and any(
            _is_escape(self.text, at.start()) for at in _UNICODE_ESCAPE.finditer(self.text)
        )

    def _parse_source(self, cell: Cell) -> JsonNode:
        part = cell.node.find_child("source")
        assert part  # otherwise the notebook would not be editable
        return parse_value(self.text, part.node.start, 1)

    # --- cells

    def format_new_cell(self, members: dict[str, str], kind: str) -> str:
        """A new cell with these members, ordered as in the nearest cell of its kind."""
        like = next((cell for cell in self.cells if cell.kind == kind), self.nearest_cell)
        order = [part.name for part in like.node.children] if like else []
        names = sorted(members)
        if not _is_sorted(order):
            names.sort(key=lambda name: order.index(name) if name in order else len(order))
        before, between, after = self._read_cell_gaps()
        return f"{{{before}{between.join(self._format_member(name, members[name]) for name in names)}{after}}}"

    def _format_member(self, name: str, value: str) -> str:
        return f'"{name}"{self._read_colon()}{value}'

    def format_changed_cell(self, node: JsonNode, new_values: dict[str, str], removed: Collection[str]) -> str:
        """A cell with new values, without the removed members, and otherwise unchanged."""
        before, between, after = self._read_gaps(node)
        commas = [between, *node.read_gaps(self.text)[1:-1]]  # before each member, as if it were not the first
        members: list[tuple[str, str, str]] = []
        for comma, part in zip(commas, node.children, strict=True):
            if part.name in new_values:
                members.append((part.name, comma, self.text[part.start : part.node.start] + new_values[part.name]))
            elif part.name not in removed:
                members.append((part.name, comma, self.text[part.start : part.node.end]))
        names = [name for name, _, _ in members]
        is_sorted = _is_sorted(names)
        for name in sorted(new_values.keys() - names):
            at = bisect(names, name) if is_sorted else len(names)
            names.insert(at, name)
            members.insert(at, (name, between, self._format_member(name, new_values[name])))
        first, *rest = members
        return f"{{{before}{first[2]}{''.join(comma + text for _, comma, text in rest)}{after}}}"


def _is_escape(text: str, at: int) -> bool:
    """Whether this backslash starts an escape, not being escaped itself."""
    start = at
    while start and text[start - 1] == "\\":
        start -= 1
    return (at - start) % 2 == 0


def _is_sorted(names: list[str]) -> bool:
    return names == sorted(names)
