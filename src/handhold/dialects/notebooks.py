"""Notebooks in words: cells with their outputs, and the result of changing one.

Source lines have numbers and output lines a bar, so that the content of one cell cannot pass for two cells.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from handhold.core.errors import BadArguments
from handhold.core.requests import CellAction, NotebookEdit
from handhold.core.results import CellOutput, CellView, NotebookEditResult, NotebookResult, TextResult
from handhold.dialects.arguments import MISSING, describe_value
from handhold.dialects.formatting import format_row, format_span, pluralize, truncate

ACTION_VERBS = {
    "replace": "Replaced",
    "insert_before": "Inserted",
    "insert_after": "Inserted",
    "append": "Appended",
    "delete": "Deleted",
}
RENUMBERED_NOTE = "The cells after it have new names now. Read the notebook again before you change another cell."
EDIT_AS_TEXT_NOTE = "[These are its cells. The file itself is JSON; quote the JSON text in an edit.]"


@dataclass(frozen=True)
class NotebookPhrases:
    """How a family's tools handle notebooks, as parts of a note; empty where they have nothing for it."""

    continuation: str = (
        "Continue with offset={next}."  # {next} counts cells from 1, {skip} is the number of cells before
    )
    search_in_cell: str = "; use grep to search it"  # where a cell is truncated
    can_edit_cells: bool = True  # whether a tool changes cells


DEFAULT_PHRASES = NotebookPhrases()


# --- calls


def build_notebook_edit(tool: str, a: Mapping[str, Any]) -> NotebookEdit:
    """The request of a call with an `action`; BadArguments if an argument is missing or does not fit the action."""
    action: CellAction = a["action"]
    cell, source, kind = a.get("cell", ""), a.get("source"), a.get("kind")
    if action == "append" and cell:
        raise BadArguments(
            tool, "cell", describe_value(cell), f"left out with action={action}: the new cell goes to the end"
        )
    if action != "append" and not cell:
        raise BadArguments(tool, "cell", MISSING, f"the name of a cell as read_file shows it, with action={action}")
    if action == "delete" and (source or kind):
        argument = "source" if source else "kind"
        raise BadArguments(tool, argument, describe_value(source or kind), f"left out with action={action}")
    if action == "replace" and source is None and kind is None:
        raise BadArguments(tool, "source", MISSING, f"a string, with action={action}")
    if action in ("insert_before", "insert_after", "append") and source is None:
        raise BadArguments(tool, "source", MISSING, f"a string, with action={action}")
    return NotebookEdit(a["path"], action, cell, source, kind)


# --- cells


def format_notebook(notebook: NotebookResult, phrases: NotebookPhrases = DEFAULT_PHRASES) -> Iterator[str]:
    about = ", ".join(
        [
            *([truncate(notebook.language, 40)] if notebook.language else []),
            f"nbformat {notebook.version[0]}.{notebook.version[1]}",
        ]
    )
    yield f"[{truncate(notebook.path)}: notebook with {pluralize(notebook.total, 'cell')} ({about}).]"
    for cell in notebook.cells:
        yield from _format_cell(cell, notebook, phrases)
    yield from format_notes(notebook, phrases)


def format_notes(notebook: NotebookResult, phrases: NotebookPhrases = DEFAULT_PHRASES) -> Iterator[str]:
    if notebook.has_more:
        last = notebook.first + len(notebook.cells) - 1
        yield f"[{format_span('Cell', notebook.first, last)} of {notebook.total}. {phrases.continuation.format(next=last + 1, skip=last)}]"
    if not phrases.can_edit_cells:
        yield EDIT_AS_TEXT_NOTE
    elif not notebook.is_editable:
        yield "[Edit it as text: only nbformat 4 can be edited by cell.]"
    elif notebook.has_numbered_cells:
        yield "[Cells without an id are named by their number, which changes when a cell before them is added or deleted.]"


def _format_cell(cell: CellView, notebook: NotebookResult, phrases: NotebookPhrases) -> Iterator[str]:
    name = f'cell="{cell.name}"' if cell.name else "a cell with the id of another cell"
    run = "" if cell.execution_count is None else f", run {cell.execution_count}"
    yield f"=== {name} ({cell.number} of {notebook.total}, {cell.kind}{run})"
    if cell.source:
        yield from (format_row(number, text) for number, text in enumerate(cell.source.split("\n"), 1))
    if cell.omitted_chars:
        yield f"[{pluralize(cell.omitted_chars, 'more character')} of this cell not shown{phrases.search_in_cell}.]"
    for output in cell.outputs:
        yield from _format_output(output)
    if cell.omitted_outputs:
        yield f"[{pluralize(cell.omitted_outputs, 'more output')} not shown.]"


def _format_output(output: CellOutput) -> Iterator[str]:
    yield f"   --- {format_output_header(output)}"
    if output.text:
        yield from (f"      | {line}" for line in output.text.split("\n"))
    if output.omitted_chars:
        yield f"   --- {pluralize(output.omitted_chars, 'character')} left out"
        yield from (f"      | {line}" for line in output.tail.split("\n"))


def format_output_header(output: CellOutput) -> str:
    """The kind and format of an output, in a few words."""
    words = [output.kind]
    if output.picture_number:
        words.append(f"image {output.picture_number} below ({output.mime}, {output.size[0]}x{output.size[1]})")
    if output.omitted_reason:
        words.append(f"{output.mime} left out: {output.omitted_reason}")
    if output.other_formats:
        words.append(f"also as {', '.join(output.other_formats)}")
    return "; ".join(words)


def explain_text_fallback(page: TextResult) -> Iterator[str]:
    """Why a file with the name of a notebook is shown as text."""
    if page.notebook_error:
        yield f"[Shown as text, because it is not a valid notebook: {page.notebook_error}.]"


# --- edits


def format_notebook_edit(result: NotebookEditResult) -> str:
    position = "" if result.action == "delete" else f"{result.number} of {result.total}, "
    text = f'{ACTION_VERBS[result.action]} cell "{result.name}" in {truncate(result.path)} ({position}{result.kind}).'
    if result.action == "delete":
        text += f" {pluralize(result.total, 'cell')} left."
    if result.outputs_cleared:
        text += " Its outputs were cleared."
    return f"{text} {RENUMBERED_NOTE}" if result.cells_renumbered else text
