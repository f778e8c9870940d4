"""Render command output as a terminal would show it.

Colors and cursor movements are dropped; a line overwritten by carriage returns or backspaces shows its last state.
"""

import re

_CONTROLS = re.compile("[\x00-\x08\r\x0e-\x1f\x7f-\x9f]")
_INVISIBLE_CONTROLS = re.compile("[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f-\x9f]")  # characters that a terminal does not show
_CURSOR_TO_START = re.compile("\x1b\\[[01]?G")
_ERASE_LINE = re.compile("\x1b\\[2K")
_ERASE_REST = re.compile("\x1b\\[0?K")
_SEQUENCE = re.compile(
    "\x1b\\[[0-?]*[ -/]*(?:[@-~]|\\Z)"  # colors, movements; the last one may be truncated
    "|\x1b[\\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\\\|\\Z)"  # titles and links
    "|\x1b[ -/]*[0-~]?"
)
_ERASED_LINE, _ERASED_REST = "\x01", "\x02"  # unambiguous: such control characters were removed before


def render_terminal_text(text: str) -> str:
    """The lines in their final state."""
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
    line = line.replace("\a", "")  # only now: it ends a title
    # From last to first: each piece shows only what no later one covers, and an erasure hides everything before it.
    # (Going forwards, a long line overwritten a million times would be copied a million times.)
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
    """What is left of it, and whether it erased what was there before."""
    kept = writing.rpartition(_ERASED_LINE)[2]
    plain = kept.replace(_ERASED_REST, "")
    return plain, plain != writing


def _apply_backspaces(writing: str) -> str:
    """Backspaces move the cursor; the next characters overwrite."""
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
