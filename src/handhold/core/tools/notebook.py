"""Notebooks: Read shows them by cells, NotebookEdit changes one.

A cell is meant by its id. Where cells have none they are counted, and whoever adds one or takes one away must look
again before it means another: those behind it have other numbers now.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from handhold.core.errors import CellAmbiguous, NoChange, NoSuchCell, NotNotebook, PastEnd, TooLarge
from handhold.core.facts import Beginning, Parts
from handhold.core.plans import Answer, Bytes, Changes, FileChange
from handhold.core.policy.guard import GuardedView
from handhold.core.requests import NotebookEdit, Read
from handhold.core.results import CellOutput, NotebookEdited, NotebookShown, Shown, ShownCell
from handhold.core.text.cell_outputs import Pictures, outputs_of
from handhold.core.text.diff import unified_diff
from handhold.core.text.encoding import Text, must_fit
from handhold.core.text.lines import unified
from handhold.core.text.notebook import Cell, NoNotebook, Notebook, parse
from handhold.core.text.notebook_splice import deleted, inserted, replaced
from handhold.core.tools import read

HEADING = 300  # characters of a reply that a cell or an output costs beside its text, at most
BESIDE_LINE = 9  # that a line of it does
PIXELS = 750 / 4  # that cost a model as much as a character
MOST_OUTPUTS = 20  # of one cell

# --- reading


def shown(request: Read, begun: Beginning, files: GuardedView) -> Answer:
    """By cells; as text, and why, where that cannot be."""
    try:
        return cells_of(request, files)
    except NoNotebook as error:
        because = str(error)
    except TooLarge:
        because = "it is too large"
    answer = read.text(request, begun, files)
    if isinstance(answer.result, Shown):
        return replace(answer, result=replace(answer.result, no_notebook=because))
    return answer


def cells_of(request: Read, files: GuardedView) -> Answer:
    """The cells of a file from `offset` on, as many as there is room for; NoNotebook if it has none."""
    whole = files.content(request.path)
    # By the rules of the format it is UTF-8, whatever is declared for its folder.
    book = parse(Text.decode(whole.data, request.path), first=files.traits.first_cell)
    first, total = request.offset or 1, len(book.cells)
    if first > max(total, 1):
        raise PastEnd(request.path, first, total, "cell")
    wanted = book.cells[first - 1 :][: request.limit]
    pictures = Pictures()
    cells = tuple(fitting(wanted, request.limits.chars, pictures))
    stale, diff = files.whole_changed_since(whole)
    result = NotebookShown(
        path=request.path,
        first=first,
        cells=cells,
        total=total,
        language=book.language,
        version=book.version,
        editable=book.editable,
        by_number=by_number(book.cells),
        wanted=len(wanted),
        stale=stale,
        changed=diff,
        images=tuple(pictures.blocks),
        mtime_ns=whole.identity.mtime_ns,
    )
    seen = tuple(cell.number for cell in cells if cell.is_whole)
    return Answer(result, parts=Parts(whole, seen, total, is_text=True))


def by_number(cells: Sequence[Cell]) -> bool:
    return any(cell.name != cell.id for cell in cells)


def fitting(cells: Sequence[Cell], room: int, pictures: Pictures) -> Iterator[ShownCell]:
    """Cells until the room is used up. The first is cut to fit and always shown: else a page would never end."""
    for n, cell in enumerate(cells):
        before = len(pictures.blocks)
        each, cost = cut_to(cell, room if not n else None, pictures)
        room -= cost
        if n and room < 0:
            del pictures.blocks[before:]
            return
        yield each


def cut_to(cell: Cell, room: int | None, pictures: Pictures) -> tuple[ShownCell, int]:
    """A cell, its source and its outputs as far as there is room (None: for all of it), and what it costs."""
    source, cost = clipped(unified(cell.source), room)
    outputs: list[CellOutput] = []
    left = 0
    for output in outputs_of(cell.facts, pictures):
        price = cost_of(output)
        if left or len(outputs) == MOST_OUTPUTS or (room is not None and cost + price > room):
            left += 1
            if output.picture:
                pictures.blocks.pop()
            continue
        outputs.append(output)
        cost += price
    run = cell.facts.get("execution_count", cell.facts.get("prompt_number"))
    cut = len(unified(cell.source)) - len(source)
    counted = run if isinstance(run, int) and not isinstance(run, bool) else None
    return ShownCell(cell.number, cell.name, cell.kind, counted, source, cut, tuple(outputs), left), cost


def clipped(source: str, room: int | None) -> tuple[str, int]:
    """As many characters of a source as there is room for, and what they cost."""
    cost = HEADING + cost_of_text(source)
    if room is None or cost <= room:
        return source, cost
    left, end = room - HEADING, 0
    for line in source.split("\n"):
        left -= BESIDE_LINE
        if left <= len(line):
            end += max(0, left)
            break
        left -= len(line) + 1
        end += len(line) + 1
    return source[:end], room


def cost_of_text(text: str) -> int:
    return len(text) + BESIDE_LINE * (text.count("\n") + 1)


def cost_of(output: CellOutput) -> int:
    width, height = output.size
    texts = cost_of_text(output.text) + cost_of_text(output.tail)
    return HEADING + texts + sum(map(len, output.other)) + int(width * height / PIXELS)


# --- editing


def plan(request: NotebookEdit, files: GuardedView) -> Changes:
    whole = files.whole(request.path)
    text = Text.decode(whole.data, request.path)
    book = editable(text, request.path, files)
    must_fit(request.source or "", text.coding, request.path)
    after, edited = spliced(request, book, files)
    if after == book.text:
        raise NoChange(request.path)
    changed = text.with_body(after)
    change = FileChange(whole.path, Bytes(whole.data), Bytes(changed.encode()))
    diff = unified_diff(request.path, text.body, after)
    result = replace(edited, encoding=text.coding.name, diff=diff)
    return Changes((change,), result, whole=False, forget=result.renumbered)


def editable(text: Text, path: str, files: GuardedView) -> Notebook:
    try:
        book = parse(text, first=files.traits.first_cell)
    except NoNotebook as error:
        raise NotNotebook(path, str(error)) from None
    if not book.editable:
        raise NotNotebook(path, f"it is of version {book.version[0]}, and only cells of version 4 are edited")
    return book


def spliced(request: NotebookEdit, book: Notebook, files: GuardedView) -> tuple[str, NotebookEdited]:
    """The text of the notebook with the cell changed, and what that came to."""
    source, kind = request.source, request.kind
    total = len(book.cells)
    if request.action == "append":
        at, cell = total + 1, None
    else:
        cell = found(request, book)
        at = cell.number + (request.action == "insert_after")
    if cell and request.action == "replace":
        after = replaced(book, cell, source, kind)
        edited = told(request, cell.number, cell.name, kind or cell.kind, total)
        return after, replace(edited, cleared=cell.kind == "code" and bool(cell.facts.get("outputs")))
    behind = by_number(book.cells[at - 1 :])
    if cell and request.action == "delete":
        edited = told(request, cell.number, cell.name, cell.kind, total - 1)
        return deleted(book, cell), replace(edited, renumbered=by_number(book.cells[cell.number :]))
    after, name = inserted(book, at, source or "", kind or "code")
    called = name or f"cell-{at - 1 + files.traits.first_cell}"
    return after, replace(told(request, at, called, kind or "code", total + 1), renumbered=behind)


def told(request: NotebookEdit, number: int, name: str, kind: str, total: int) -> NotebookEdited:
    return NotebookEdited(
        path=request.path,
        action=request.action,
        number=number,
        name=name,
        kind=kind,
        total=total,
        cleared=False,
        renumbered=False,
        encoding="",
        diff="",
    )


def found(request: NotebookEdit, book: Notebook) -> Cell:
    """The cell that is meant, and no other."""
    for cell in book.cells:
        if cell.name and cell.name == request.cell:
            return cell
    if several := [cell.name for cell in book.cells if cell.id == request.cell]:
        raise CellAmbiguous(request.path, request.cell, tuple(several))
    raise NoSuchCell(request.path, request.cell, tuple(cell.name for cell in book.cells if cell.name))
