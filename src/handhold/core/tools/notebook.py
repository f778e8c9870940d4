"""Notebooks: Read shows them by cells, NotebookEdit changes one cell.

Cells are addressed by id. Cells without ids are numbered; after inserting or deleting one, the model must read the
notebook again, because the numbers of later cells have changed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from handhold.core.errors import CellAmbiguous, NoChange, NoSuchCell, NotNotebook, PastEnd, TooLarge
from handhold.core.facts import FileHead, ShownParts
from handhold.core.plans import Answer, Changes, FileChange, InlineContent
from handhold.core.policy.guarded_view import GuardedView
from handhold.core.requests import NotebookEdit, Read
from handhold.core.results import CellOutput, CellView, NotebookEditResult, NotebookResult, TextResult
from handhold.core.text.cell_outputs import ReplyImages, render_outputs
from handhold.core.text.diff import unified_diff
from handhold.core.text.encoding import Text, check_encodable
from handhold.core.text.lines import normalize_newlines
from handhold.core.text.notebook import Cell, InvalidNotebook, Notebook, parse_notebook
from handhold.core.text.notebook_splice import delete_cell, insert_cell, replace_cell
from handhold.core.tools import text_page

HEADING_CHARS = 300  # the most that a cell or an output costs in a reply, in addition to its text
LINE_OVERHEAD_CHARS = 9  # per line of source or output
PIXELS_PER_CHAR = 750 / 4  # pixels that cost a model as much as one character
MAX_CELL_OUTPUTS = 20  # per cell

# --- reading


def plan_read(request: Read, head: FileHead, files: GuardedView) -> Answer:
    """Show the cells; if the file is no valid notebook, show its text and say why."""
    try:
        return plan_cells(request, files)
    except InvalidNotebook as error:
        because = str(error)
    except TooLarge:
        because = "it is too large"
    answer = text_page.plan_text(request, head, files)
    if isinstance(answer.result, TextResult):
        return replace(answer, result=replace(answer.result, notebook_error=because))
    return answer


def plan_cells(request: Read, files: GuardedView) -> Answer:
    """The cells from `offset` on, as many as fit; InvalidNotebook if the file is none."""
    snapshot = files.read(request.path)
    # The format requires UTF-8, whatever is declared for the folder.
    book = parse_notebook(Text.decode(snapshot.data, request.path), first_number=files.options.first_cell)
    first, total = request.offset or 1, len(book.cells)
    if first > max(total, 1):
        raise PastEnd(request.path, first, total, "cell")
    wanted = book.cells[first - 1 :][: request.limit]
    pictures = ReplyImages()
    cells = tuple(fit_cells(wanted, request.limits.chars, pictures))
    stale, diff = files.compare_snapshot(snapshot)
    result = NotebookResult(
        path=request.path,
        first=first,
        cells=cells,
        total=total,
        language=book.language,
        version=book.version,
        is_editable=book.is_editable,
        has_numbered_cells=has_numbered_cells(book.cells),
        requested_count=len(wanted),
        is_stale=stale,
        diff_since_read=diff,
        images=tuple(pictures.blocks),
        mtime_ns=snapshot.identity.mtime_ns,
    )
    seen = tuple(cell.number for cell in cells if cell.is_complete)
    return Answer(result, parts=ShownParts(snapshot, seen, total, is_text=True))


def has_numbered_cells(cells: Sequence[Cell]) -> bool:
    return any(cell.name != cell.id for cell in cells)


def fit_cells(cells: Sequence[Cell], room: int, pictures: ReplyImages) -> Iterator[CellView]:
    """Cells until the room is used up. The first is always shown, cut to fit: otherwise paging would never advance."""
    for n, cell in enumerate(cells):
        before = len(pictures.blocks)
        each, cost = fit_cell(cell, room if not n else None, pictures)
        room -= cost
        if n and room < 0:
            del pictures.blocks[before:]
            return
        yield each


def fit_cell(cell: Cell, room: int | None, pictures: ReplyImages) -> tuple[CellView, int]:
    """A cell with as much of its source and outputs as fits (None: all), and its cost."""
    source, cost = clip_source(normalize_newlines(cell.source), room)
    outputs: list[CellOutput] = []
    left = 0
    for output in render_outputs(cell.raw, pictures):
        price = count_output_chars(output)
        if left or len(outputs) == MAX_CELL_OUTPUTS or (room is not None and cost + price > room):
            left += 1
            if output.picture_number:
                pictures.blocks.pop()
            continue
        outputs.append(output)
        cost += price
    run = cell.raw.get("execution_count", cell.raw.get("prompt_number"))
    cut = len(normalize_newlines(cell.source)) - len(source)
    counted = run if isinstance(run, int) and not isinstance(run, bool) else None
    return CellView(cell.number, cell.name, cell.kind, counted, source, cut, tuple(outputs), left), cost


def clip_source(source: str, room: int | None) -> tuple[str, int]:
    """The beginning of a source that fits, and its cost."""
    cost = HEADING_CHARS + count_text_chars(source)
    if room is None or cost <= room:
        return source, cost
    left, end = room - HEADING_CHARS, 0
    for line in source.split("\n"):
        left -= LINE_OVERHEAD_CHARS
        if left <= len(line):
            end += max(0, left)
            break
        left -= len(line) + 1
        end += len(line) + 1
    return source[:end], room


def count_text_chars(text: str) -> int:
    return len(text) + LINE_OVERHEAD_CHARS * (text.count("\n") + 1)


def count_output_chars(output: CellOutput) -> int:
    width, height = output.size
    texts = count_text_chars(output.text) + count_text_chars(output.tail)
    return HEADING_CHARS + texts + sum(map(len, output.other_formats)) + int(width * height / PIXELS_PER_CHAR)


# --- editing


def plan(request: NotebookEdit, files: GuardedView) -> Changes:
    snapshot = files.read_editable(request.path)
    text = Text.decode(snapshot.data, request.path)
    book = parse_editable(text, request.path, files)
    check_encodable(request.source or "", text.encoding, request.path)
    after, edited = edit_cell(request, book, files)
    if after == book.text:
        raise NoChange(request.path)
    changed = text.with_body(after)
    change = FileChange(snapshot.path, InlineContent(snapshot.data, snapshot.hash), InlineContent(changed.encode()))
    diff = unified_diff(request.path, text.body, after)
    result = replace(edited, encoding=text.encoding.name, diff=diff)
    return Changes((change,), result, is_full_write=False, invalidates_reads=result.cells_renumbered)


def parse_editable(text: Text, path: str, files: GuardedView) -> Notebook:
    try:
        book = parse_notebook(text, first_number=files.options.first_cell)
    except InvalidNotebook as error:
        raise NotNotebook(path, str(error)) from None
    if not book.is_editable:
        raise NotNotebook(path, f"it has nbformat {book.version[0]}, and only nbformat 4 is supported")
    return book


def edit_cell(request: NotebookEdit, book: Notebook, files: GuardedView) -> tuple[str, NotebookEditResult]:
    """The notebook's text with the cell changed, and the result."""
    source, kind = request.source, request.kind
    total = len(book.cells)
    if request.action == "append":
        at, cell = total + 1, None
    else:
        cell = find_cell(request, book)
        at = cell.number + (request.action == "insert_after")
    if cell and request.action == "replace":
        after = replace_cell(book, cell, source, kind)
        edited = build_result(request, cell.number, cell.name, kind or cell.kind, total)
        return after, replace(edited, outputs_cleared=cell.kind == "code" and bool(cell.raw.get("outputs")))
    behind = has_numbered_cells(book.cells[at - 1 :])
    if cell and request.action == "delete":
        edited = build_result(request, cell.number, cell.name, cell.kind, total - 1)
        return delete_cell(book, cell), replace(edited, cells_renumbered=has_numbered_cells(book.cells[cell.number :]))
    after, name = insert_cell(book, at, source or "", kind or "code")
    called = name or f"cell-{at - 1 + files.options.first_cell}"
    return after, replace(build_result(request, at, called, kind or "code", total + 1), cells_renumbered=behind)


def build_result(request: NotebookEdit, number: int, name: str, kind: str, total: int) -> NotebookEditResult:
    return NotebookEditResult(
        path=request.path,
        action=request.action,
        number=number,
        name=name,
        kind=kind,
        total=total,
        outputs_cleared=False,
        cells_renumbered=False,
        encoding="",
        diff="",
    )


def find_cell(request: NotebookEdit, book: Notebook) -> Cell:
    """The one cell that the request names."""
    for cell in book.cells:
        if cell.name and cell.name == request.cell:
            return cell
    if several := [cell.name for cell in book.cells if cell.id == request.cell]:
        raise CellAmbiguous(request.path, request.cell, tuple(several))
    raise NoSuchCell(request.path, request.cell, tuple(cell.name for cell in book.cells if cell.name))
