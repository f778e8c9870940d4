"""Notebooks in words: cells with what they put out, and what came of a change to one.

Lines of a source have numbers, and lines of an output a bar, so that no cell can pass for two.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from handhold.core.errors import BadArguments
from handhold.core.requests import CellAction, NotebookEdit
from handhold.core.results import CellOutput, NotebookEdited, NotebookShown, Shown, ShownCell
from handhold.dialects.arguments import told
from handhold.dialects.quoting import clipped, row, several

DONE = {
    "replace": "Replaced",
    "insert_before": "Inserted",
    "insert_after": "Inserted",
    "append": "Appended",
    "delete": "Deleted",
}
LOOK_AGAIN = "The cells behind it have other names now. Read the notebook again before you change another."
AS_TEXT = "[These are its cells. The file itself is JSON, and an edit quotes that text.]"


@dataclass(frozen=True)
class Ways:
    """What a family's tools have for a notebook, as pieces of a note; empty where there is nothing to take."""

    rest: str = "Go on with offset={next}."  # {next} is a cell counted from 1, {skip} how many stand before it
    inside: str = "; grep finds lines in it"  # where a cell is cut
    by_cells: bool = True  # whether one of them changes a cell


HERE = Ways()


# --- calls


def edit(tool: str, a: Mapping[str, Any]) -> NotebookEdit:
    """A call with an action for every place; BadArguments if something that it needs is missing, or makes no sense."""
    action: CellAction = a["action"]
    cell, source, kind = a.get("cell", ""), a.get("source"), a.get("kind")
    if action == "append" and cell:
        raise BadArguments(tool, "cell", told(cell), f"nothing with {action}: a new cell goes behind the last")
    if action != "append" and not cell:
        raise BadArguments(tool, "cell", "missing", f"the name of a cell with {action}, as read_file shows it")
    if action == "delete" and (source or kind):
        raise BadArguments(tool, "source" if source else "kind", "given", f"nothing with {action}")
    if action == "replace" and source is None and kind is None:
        raise BadArguments(tool, "source", "missing", f"a string with {action}")
    if action in ("insert_before", "insert_after", "append") and source is None:
        raise BadArguments(tool, "source", "missing", f"a string with {action}")
    return NotebookEdit(a["path"], action, cell, source, kind)


# --- what is shown


def page(shown: NotebookShown, ways: Ways = HERE) -> Iterator[str]:
    about = ", ".join(
        [*([clipped(shown.language, 40)] if shown.language else []), f"nbformat {shown.version[0]}.{shown.version[1]}"]
    )
    yield f"[{clipped(shown.path)}: a notebook of {several(shown.total, 'cell')} ({about}).]"
    for cell in shown.cells:
        yield from _cell(cell, shown, ways)
    yield from notes(shown, ways)


def notes(shown: NotebookShown, ways: Ways = HERE) -> Iterator[str]:
    if shown.more:
        last = shown.first + len(shown.cells) - 1
        yield f"[These are cells {shown.first}-{last} of {shown.total}. {ways.rest.format(next=last + 1, skip=last)}]"
    if not ways.by_cells:
        yield AS_TEXT
    elif not shown.editable:
        yield "[Its cells cannot be edited: only those of nbformat 4 can.]"
    elif shown.by_number:
        yield "[Cells without an id of their own are called by their number, which changes when a cell before them comes or goes.]"


def _cell(cell: ShownCell, shown: NotebookShown, ways: Ways) -> Iterator[str]:
    name = f'cell="{cell.name}"' if cell.name else "a cell that has the id of another"
    run = "" if cell.run is None else f", run {cell.run}"
    yield f"=== {name} ({cell.number} of {shown.total}, {cell.kind}{run})"
    if cell.source:
        yield from (row(number, text) for number, text in enumerate(cell.source.split("\n"), 1))
    if cell.cut:
        yield f"[{several(cell.cut, 'more character')} of this cell not shown{ways.inside}.]"
    for output in cell.outputs:
        yield from _output(output)
    if cell.outputs_left:
        yield f"[{several(cell.outputs_left, 'more output')} not shown.]"


def _output(output: CellOutput) -> Iterator[str]:
    yield f"   --- {headed(output)}"
    if output.text:
        yield from (f"      | {line}" for line in output.text.split("\n"))
    if output.cut:
        yield f"   --- {several(output.cut, 'character')} left out here"
        yield from (f"      | {line}" for line in output.tail.split("\n"))


def headed(output: CellOutput) -> str:
    """What an output is, in a few words."""
    words = [output.kind]
    if output.picture:
        words.append(f"picture {output.picture} below ({output.mime}, {output.size[0]}x{output.size[1]})")
    if output.left_out:
        words.append(f"{output.mime} left out: {output.left_out}")
    if output.other:
        words.append(f"also as {', '.join(output.other)}")
    return "; ".join(words)


def none(shown: Shown) -> Iterator[str]:
    """Why a file is shown as text whose name is that of a notebook."""
    if shown.no_notebook:
        yield f"[It is shown as text, since it cannot be read as a notebook: {shown.no_notebook}.]"


# --- what was done


def edited(result: NotebookEdited) -> str:
    place = "" if result.action == "delete" else f"{result.number} of {result.total}, "
    text = f'{DONE[result.action]} cell "{result.name}" in {clipped(result.path)} ({place}{result.kind}).'
    if result.action == "delete":
        text += f" {several(result.total, 'cell')} left."
    if result.cleared:
        text += " What it had put out was cleared."
    return f"{text} {LOOK_AGAIN}" if result.renumbered else text
