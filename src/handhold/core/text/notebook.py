"""Notebooks: their cells, each with a name that no other has."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from handhold.core.text.encoding import Text
from handhold.core.text.json_spans import BadJson, Node, read

WITH_IDS = (4, 5)  # the version since which each cell has an id
OLD = (2, 3)  # versions that keep their cells on a worksheet, and the source of code under another name
KINDS = ("code", "markdown", "raw", "heading", "html")  # the last two are old
DEPTH, OLD_DEPTH = 3, 5  # levels down to what a cell has

_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class NoNotebook(ValueError):
    """Why a file cannot be taken as a notebook."""


@dataclass(frozen=True)
class Cell:
    """A cell. Its name is its id, or `cell-3` if it has none of its own; empty if that is another's."""

    number: int  # from 1
    name: str
    id: str
    kind: str
    source: str
    facts: dict[str, Any] = field(repr=False)  # all that the file says of it
    node: Node = field(repr=False)


@dataclass(frozen=True)
class Notebook:
    text: str = field(repr=False)
    version: tuple[int, int]
    language: str
    cells: tuple[Cell, ...]
    top: Node = field(repr=False)
    array: Node = field(repr=False)  # of the cells

    @property
    def has_ids(self) -> bool:
        return self.version >= WITH_IDS

    @property
    def editable(self) -> bool:
        """Older ones have their cells elsewhere and otherwise; of newer ones nobody knows."""
        return self.version[0] == 4


def parse(text: Text, *, first: int = 1) -> Notebook:
    """The cells of a file; NoNotebook. Without ids they are called by number, the first one `cell-{first}`."""
    if text.coding.name != "utf-8":
        raise NoNotebook(f"it is stored as {text.coding.label}, and a notebook as utf-8")
    try:
        top = read(text.body, depth=DEPTH)
    except BadJson as error:
        raise NoNotebook(f"line {error.line} is no JSON: {error.because}") from None
    facts = _object(top, "it")
    version = _whole(facts, "nbformat"), _whole(facts, "nbformat_minor")
    if version[0] in OLD:
        top = read(text.body, depth=OLD_DEPTH)
    array = _array_of_cells(top, version[0])
    cells = [_cell(number, part.node, version[0]) for number, part in enumerate(array.parts, 1)]
    return Notebook(text.body, version, _language(facts), _named(cells, first), top, array)


def _array_of_cells(top: Node, major: int) -> Node:
    if major < min(OLD):
        raise NoNotebook(f"it is of version {major}, which is not read as cells")
    holder = top
    if major in OLD:
        sheets = top.part("worksheets")
        if sheets is None or not isinstance(sheets.node.value, list) or len(sheets.node.parts) != 1:
            raise NoNotebook(f"it is of version {major}, and has not one worksheet")
        holder = sheets.node.parts[0].node
        _object(holder, "its worksheet")
    cells = holder.part("cells")
    if cells is None or not isinstance(cells.node.value, list):
        raise NoNotebook("it has no list of cells")
    return cells.node


def _cell(number: int, node: Node, major: int) -> Cell:
    what = f"cell {number}"
    facts = _object(node, what)
    kind = facts.get("cell_type")
    if kind not in KINDS:
        raise NoNotebook(f"{what} is of no kind that is known")
    source = joined(facts.get("input" if major in OLD and kind == "code" else "source"))
    if source is None:
        raise NoNotebook(f"{what} has no source")
    own = facts.get("id")
    return Cell(number, "", own if isinstance(own, str) else "", kind, source, facts, node)


def _named(cells: Sequence[Cell], first: int) -> tuple[Cell, ...]:
    ids = Counter(cell.id for cell in cells)

    def name(cell: Cell) -> str:
        if ids[cell.id] == 1 and _ID.fullmatch(cell.id):
            return cell.id
        by_number = f"cell-{cell.number - 1 + first}"
        return "" if by_number in ids else by_number

    return tuple(replace(cell, name=name(cell)) for cell in cells)


def joined(value: object) -> str | None:
    """Text that is kept in one piece or in many; None if it is none."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(each, str) for each in cast("list[Any]", value)):
        return "".join(cast("list[str]", value))
    return None


def _below(value: Any, *names: str) -> Any:
    """What stands in an object, and in the object there, by these names; None if nothing does."""
    for name in names:
        if not isinstance(value, dict):
            return None
        value = cast("dict[str, Any]", value).get(name)
    return value


def _language(facts: dict[str, Any]) -> str:
    ways = (("language_info", "name"), ("kernelspec", "language"), ("kernelspec", "name"))
    found = (_below(facts, "metadata", *way) for way in ways)
    return next((each for each in found if isinstance(each, str) and each), "")


def _object(node: Node, what: str) -> dict[str, Any]:
    value: object = node.value
    if not isinstance(value, dict):
        raise NoNotebook(f"{what} is not an object")
    if node.doubled is not None:
        raise NoNotebook(f'{what} has "{node.doubled[:60]}" twice')
    return cast("dict[str, Any]", value)


def _whole(facts: dict[str, Any], name: str) -> int:
    value = facts.get(name, 0)
    if not isinstance(value, int) or isinstance(value, bool):
        raise NoNotebook(f"its {name} is no number")
    return value
