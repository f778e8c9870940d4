"""What a terminal would show of what a command printed.

Colours and cursor moves are left out, a line that was written over by carriage returns or backspaces is its last state.
"""

import re

_CONTROLS = re.compile("[\x00-\x08\r\x0e-\x1f\x7f-\x9f]")
_INVISIBLE_CONTROLS = re.compile("[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f-\x9f]")  # what a terminal shows nothing of
_CURSOR_TO_START = re.compile("\x1b\\[[01]?G")
_ERASE_LINE = re.compile("\x1b\\[2K")
_ERASE_REST = re.compile("\x1b\\[0?K")
_SEQUENCE = re.compile(
    "\x1b\\[[0-?]*[ -/]*(?:[@-~]|\\Z)"  # colours, moves; the last one may have been cut off
    "|\x1b[\\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\\\|\\Z)"  # titles and links
    "|\x1b[ -/]*[0-~]?"
)
_ERASED_LINE, _ERASED_REST = "\x01", "\x02"  # stand for themselves nowhere else: what is silent went before


def render_terminal_text(text: str) -> str:
    """The lines as they stood in the end."""
    if not _CONTROLS.search(text):
        return text
    return "\n".join(_render_line(line) if _CONTROLS.search(line) else line for line in text.split("\n"))


def _render_line(line: str) -> str:
    line = _INVISIBLE_CONTROLS.sub("", line)
    if "\x1b" in line:
        line = _CURSOR_TO_START.sub("\r", line)
        line = _ERASE_LINE.sub(_ERASED_LINE, line)
        line = _ERASE_REST.sub(_ERASED_REST, line)
        line = _SEQUENCE.sub("", line)
    line = line.replace("\a", "")  # not before: it ends a title
    # From the last writing to the first: each one shows only what no later one covers, and nothing from before
    # an erasure shows. (Forwards, a long line written over a million times would be copied a million times.)
    shown: list[str] = []
    covered = 0
    for writing in reversed(line.split("\r")):
        writing, erased = _apply_erasures(writing)
        if "\b" in writing:
            writing = _apply_backspaces(writing)
        if len(writing) > covered:
            shown.append(writing[covered:])
            covered = len(writing)
        if erased:
            break
    return "".join(shown)


def _apply_erasures(writing: str) -> tuple[str, bool]:
    """What is left of it, and whether what had been there before it is gone."""
    kept = writing.rpartition(_ERASED_LINE)[2]
    plain = kept.replace(_ERASED_REST, "")
    return plain, plain != writing


def _apply_backspaces(writing: str) -> str:
    """Backspaces move; what comes next writes over."""
    cells: list[str] = []
    at = 0
    for letter in writing:
        if letter == "\b":
            at = max(0, at - 1)
        elif at == len(cells):
            cells.append(letter)
            at += 1
        else:
            cells[at] = letter
            at += 1
    return "".join(cells)
