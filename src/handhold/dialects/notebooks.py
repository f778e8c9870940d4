"""Notebooks in words: cells with what they put out, and what came of a change to one.

Lines of a source have numbers, and lines of an output a bar, so that no cell can pass for two.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from handhold.core.errors import BadArguments
from handhold.core.requests import CellAction, NotebookEdit
from handhold.core.results import CellOutput, CellView, NotebookEditResult, NotebookResult, TextResult
from handhold.dialects.arguments import describe_value
from handhold.dialects.formatting import format_row, pluralize, truncate

ACTION_VERBS = {
    "replace": "Replaced",
    "insert_before": "Inserted",
    "insert_after": "Inserted",
    "append": "Appended",
    "delete": "Deleted",
}
RENUMBERED_NOTE = "The cells behind it have other names now. Read the notebook again before you change another."
EDIT_AS_TEXT_NOTE = "[These are its cells. The file itself is JSON, and an edit quotes that text.]"


@dataclass(frozen=True)
class NotebookPhrases:
    """What a family's tools have for a notebook, as pieces of a note; empty where there is nothing to take."""

    continuation: str = "Go on with offset={next}."  # {next} is a cell counted from 1, {skip} how many stand before it
    search_in_cell: str = "; grep finds lines in it"  # where a cell is cut
    can_edit_cells: bool = True  # whether one of them changes a cell


DEFAULT_PHRASES = NotebookPhrases()


# --- calls


def build_notebook_edit(tool: str, a: Mapping[str, Any]) -> NotebookEdit:
    """A call with an action for every place; BadArguments if something that it needs is missing, or makes no sense."""
    action: CellAction = a["action"]
    cell, source, kind = a.get("cell", ""), a.get("source"), a.get("kind")
    if action == "append" and cell:
        raise BadArguments(
            tool, "cell", describe_value(cell), f"nothing with {action}: a new cell goes behind the last"
        )
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


def format_notebook(notebook: NotebookResult, phrases: NotebookPhrases = DEFAULT_PHRASES) -> Iterator[str]:
    about = ", ".join(
        [
            *([truncate(notebook.language, 40)] if notebook.language else []),
            f"nbformat {notebook.version[0]}.{notebook.version[1]}",
        ]
    )
    yield f"[{truncate(notebook.path)}: a notebook of {pluralize(notebook.total, 'cell')} ({about}).]"
    for cell in notebook.cells:
        yield from _format_cell(cell, notebook, phrases)
    yield from format_notes(notebook, phrases)


def format_notes(notebook: NotebookResult, phrases: NotebookPhrases = DEFAULT_PHRASES) -> Iterator[str]:
    if notebook.has_more:
        last = notebook.first + len(notebook.cells) - 1
        yield f"[These are cells {notebook.first}-{last} of {notebook.total}. {phrases.continuation.format(next=last + 1, skip=last)}]"
    if not phrases.can_edit_cells:
        yield EDIT_AS_TEXT_NOTE
    elif not notebook.is_editable:
        yield "[Its cells cannot be edited: only those of nbformat 4 can.]"
    elif notebook.has_numbered_cells:
        yield "[Cells without an id of their own are called by their number, which changes when a cell before them comes or goes.]"


def _format_cell(cell: CellView, notebook: NotebookResult, phrases: NotebookPhrases) -> Iterator[str]:
    name = f'cell="{cell.name}"' if cell.name else "a cell that has the id of another"
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
        yield f"   --- {pluralize(output.omitted_chars, 'character')} left out here"
        yield from (f"      | {line}" for line in output.tail.split("\n"))


def format_output_header(output: CellOutput) -> str:
    """What an output is, in a few words."""
    words = [output.kind]
    if output.picture_number:
        words.append(f"picture {output.picture_number} below ({output.mime}, {output.size[0]}x{output.size[1]})")
    if output.omitted_reason:
        words.append(f"{output.mime} left out: {output.omitted_reason}")
    if output.other_formats:
        words.append(f"also as {', '.join(output.other_formats)}")
    return "; ".join(words)


def explain_text_fallback(page: TextResult) -> Iterator[str]:
    """Why a file is shown as text whose name is that of a notebook."""
    if page.notebook_error:
        yield f"[It is shown as text, since it cannot be read as a notebook: {page.notebook_error}.]"


# --- what was done


def format_notebook_edit(result: NotebookEditResult) -> str:
    position = "" if result.action == "delete" else f"{result.number} of {result.total}, "
    text = f'{ACTION_VERBS[result.action]} cell "{result.name}" in {truncate(result.path)} ({position}{result.kind}).'
    if result.action == "delete":
        text += f" {pluralize(result.total, 'cell')} left."
    if result.outputs_cleared:
        text += " What it had put out was cleared."
    return f"{text} {RENUMBERED_NOTE}" if result.cells_renumbered else text
