"""Notebooks: their cells, each with a unique name."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from handhold.core.text.encoding import Text
from handhold.core.text.json_spans import BadJson, JsonNode, parse_json

FIRST_VERSION_WITH_IDS = (4, 5)  # the version that introduced cell ids
LEGACY_VERSIONS = (2, 3)  # versions that keep cells in a worksheet and code under another name
CELL_KINDS = ("code", "markdown", "raw", "heading", "html")  # the last two are obsolete
CELL_DEPTH, LEGACY_CELL_DEPTH = 3, 5  # JSON levels down to the members of a cell

_CELL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class InvalidNotebook(ValueError):
    """Why a file is not a valid notebook."""


@dataclass(frozen=True)
class Cell:
    """A cell. Its name is its id, or `cell-3` if it has none; empty if another cell has that name."""

    number: int  # 1-based
    name: str
    id: str
    kind: str
    source: str
    raw: dict[str, Any] = field(repr=False)  # the cell as parsed
    node: JsonNode = field(repr=False)


@dataclass(frozen=True)
class Notebook:
    text: str = field(repr=False)
    version: tuple[int, int]
    language: str
    cells: tuple[Cell, ...]
    root: JsonNode = field(repr=False)
    cells_node: JsonNode = field(repr=False)  # of the array of cells

    @property
    def has_ids(self) -> bool:
        return self.version >= FIRST_VERSION_WITH_IDS

    @property
    def is_editable(self) -> bool:
        """Only version 4: older ones store cells differently, and newer ones are unknown."""
        return self.version[0] == 4


def parse_notebook(text: Text, *, first_number: int = 1) -> Notebook:
    """Parse the cells; raise InvalidNotebook. Cells without ids are named `cell-{first_number}` and so on."""
    if text.encoding.name != "utf-8":
        raise InvalidNotebook(f"it is stored as {text.encoding.label}, but a notebook must be utf-8")
    try:
        root = parse_json(text.body, depth=CELL_DEPTH)
    except BadJson as error:
        raise InvalidNotebook(f"line {error.line} is not valid JSON: {error.because}") from None
    raw = _require_object(root, "it")
    version = _read_int(raw, "nbformat"), _read_int(raw, "nbformat_minor")
    if version[0] in LEGACY_VERSIONS:
        root = parse_json(text.body, depth=LEGACY_CELL_DEPTH)
    cells_node = _find_cells_node(root, version[0])
    cells = [_parse_cell(number, part.node, version[0]) for number, part in enumerate(cells_node.children, 1)]
    return Notebook(text.body, version, _find_language(raw), _name_cells(cells, first_number), root, cells_node)


def _find_cells_node(root: JsonNode, major: int) -> JsonNode:
    if major < min(LEGACY_VERSIONS):
        raise InvalidNotebook(f"it has nbformat {major}, which is not supported")
    holder = root
    if major in LEGACY_VERSIONS:
        worksheets = root.find_child("worksheets")
        if worksheets is None or not isinstance(worksheets.node.value, list) or len(worksheets.node.children) != 1:
            raise InvalidNotebook(f"it has nbformat {major}, but not exactly one worksheet")
        holder = worksheets.node.children[0].node
        _require_object(holder, "its worksheet")
    cells = holder.find_child("cells")
    if cells is None or not isinstance(cells.node.value, list):
        raise InvalidNotebook("it has no list of cells")
    return cells.node


def _parse_cell(number: int, node: JsonNode, major: int) -> Cell:
    what = f"cell {number}"
    raw = _require_object(node, what)
    kind = raw.get("cell_type")
    if kind not in CELL_KINDS:
        raise InvalidNotebook(f"{what} is of an unknown kind")
    source = join_multiline_string(raw.get("input" if major in LEGACY_VERSIONS and kind == "code" else "source"))
    if source is None:
        raise InvalidNotebook(f"{what} has no source")
    own = raw.get("id")
    return Cell(number, "", own if isinstance(own, str) else "", kind, source, raw, node)


def _name_cells(cells: Sequence[Cell], first_number: int) -> tuple[Cell, ...]:
    ids = Counter(cell.id for cell in cells)

    def choose_name(cell: Cell) -> str:
        if ids[cell.id] == 1 and _CELL_ID.fullmatch(cell.id):
            return cell.id
        by_number = f"cell-{cell.number - 1 + first_number}"
        return "" if by_number in ids else by_number

    return tuple(replace(cell, name=choose_name(cell)) for cell in cells)


def join_multiline_string(value: object) -> str | None:
    """Text stored as one string or as a list of strings; None if it is neither."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(each, str) for each in cast("list[Any]", value)):
        return "".join(cast("list[str]", value))
    return None


def _get_nested(value: Any, *names: str) -> Any:
    """The value at these nested names; None if there is none."""
    for name in names:
        if not isinstance(value, dict):
            return None
        value = cast("dict[str, Any]", value).get(name)
    return value


def _find_language(raw: dict[str, Any]) -> str:
    key_paths = (("language_info", "name"), ("kernelspec", "language"), ("kernelspec", "name"))
    found = (_get_nested(raw, "metadata", *way) for way in key_paths)
    return next((each for each in found if isinstance(each, str) and each), "")


def _require_object(node: JsonNode, what: str) -> dict[str, Any]:
    value: object = node.value
    if not isinstance(value, dict):
        raise InvalidNotebook(f"{what} is not an object")
    if node.duplicate_name is not None:
        raise InvalidNotebook(f'{what} has "{node.duplicate_name[:60]}" twice')
    return cast("dict[str, Any]", value)


def _read_int(raw: dict[str, Any], name: str) -> int:
    value = raw.get(name, 0)
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidNotebook(f"its {name} is not a number")
    return value
