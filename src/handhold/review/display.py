"""Text from a workspace as HTML. Nothing in it is markup, and nothing is displayed as something else.

Control, bidirectional and invisible characters become visible tokens such as `U+202E`. Letters of right-to-left scripts
stay, isolated. Colours of a terminal become classes; every other terminal sequence is shown and not run.
"""

import re
import unicodedata
from collections.abc import Iterator

from markupsafe import Markup, escape

from handhold.core.text.path_escaping import is_visible

LINE_CHARS = "\n\t"
CONTROL_NAMES = {
    0x00: "null",
    0x07: "bell",
    0x08: "backspace",
    0x09: "tab",
    0x0A: "line feed",
    0x0B: "line tabulation",
    0x0C: "form feed",
    0x0D: "carriage return",
    0x1B: "escape",
    0x7F: "delete",
}
MAX_LINE_CHARS = 2_000  # of a line of output or of a diff; the rest is counted

SGR = re.compile("\x1b\\[([0-9;]*)m")
SEQUENCE = re.compile(
    "\x1b(?:\\[[0-?]*[ -/]*[@-~]|[\\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\\\)?|[ -/]*[0-~])"
)  # cursor movements, titles, links, clipboard
SEQUENCE_NOTES = (
    ("\x1b]52", "writes to the clipboard"),
    ("\x1b]8", "makes a link"),
    ("\x1b]", "sets a title or a setting"),
    ("\x1b[", "moves the cursor or changes a mode"),
    ("\x1b", "controls the terminal"),
)
# SGR parameters by the class that shows them; brightness is not distinguished.
SGR_CLASSES = {
    **{code: "b" for code in (1,)},
    **{code: "d" for code in (2, 30, 90, 37, 97)},
    **{code: "e" for code in (31, 91)},
    **{code: "g" for code in (32, 92)},
    **{code: "y" for code in (33, 93)},
    **{code: "c" for code in (34, 35, 36, 94, 95, 96)},
}


def show(text: str, *, lines: bool = True) -> Markup:
    """Any text as HTML. Without `lines`, line breaks and tabs become tokens too."""
    allowed = LINE_CHARS if lines else ""
    if text.isascii() and text.translate({10: None, 9: None} if lines else {}).isprintable():
        return escape(text)
    return Markup("").join(escape(char) if char in allowed or is_visible(char) else token(char) for char in text)


def token(char: str) -> Markup:
    """A character that cannot be shown as itself."""
    code = ord(char)
    name = CONTROL_NAMES.get(code) or unicodedata.name(char, "character without a name").lower()
    title = "a byte that is not text" if 0xDC80 <= code <= 0xDCFF else name
    return Markup('<span class="esc" title="{}">{}</span>').format(title, _name_code(char))


def spell_out(text: str) -> str:
    """The same as plain text, for a title or a label."""
    return "".join(char if is_visible(char) else _name_code(char) for char in text)


def _name_code(char: str) -> str:
    code = ord(char)
    return f"0x{code - 0xDC00:02X}" if 0xDC80 <= code <= 0xDCFF else f"U+{code:04X}"


def has_hidden(text: str) -> int:
    """How many characters of a text are shown as tokens."""
    return sum(char not in LINE_CHARS and not is_visible(char) for char in text)


def show_name(text: str) -> Markup:
    """A name on one line, isolated from the text around it."""
    return Markup("<bdi>{}</bdi>").format(show(text, lines=False))


def show_path(path: str) -> Markup:
    """A path with its last part in bold. Each part is isolated, so that right-to-left names do not change places."""
    folder, slash, name = path.rstrip("/").rpartition("/")
    tail = "/" if path.endswith("/") and path != "/" else ""
    parts = Markup("/").join(_isolate(part) for part in folder.split("/")) + slash if slash else ""
    return Markup('<bdi class="path">{}<b>{}</b></bdi>').format(parts, _isolate(name + tail))


def _isolate(part: str) -> Markup:
    shown = show(part, lines=False)
    return shown if part.isascii() else Markup("<bdi>{}</bdi>").format(shown)


def show_output(text: str) -> Markup:
    """Output of a command, with its colours."""
    return Markup("\n").join(_iter_output_lines(text))


def _iter_output_lines(text: str) -> Iterator[Markup]:
    active: frozenset[str] = frozenset()
    for line in text.replace("\r\n", "\n").split("\n"):
        over = len(line) - MAX_LINE_CHARS
        pieces: list[Markup] = []
        at = 0
        shown = line[:MAX_LINE_CHARS]
        for match in SEQUENCE.finditer(shown):
            pieces.append(_colour(shown[at : match.start()], active))
            at = match.end()
            if colours := SGR.fullmatch(match.group()):
                active = _apply_sgr(active, colours[1])
                continue
            note = next(note for start, note in SEQUENCE_NOTES if match.group().startswith(start))
            pieces.append(show(match.group(), lines=False))
            pieces.append(Markup(' <span class="y">terminal sequence not run: {}</span> ').format(note))
        pieces.append(_colour(shown[at:], active))
        if over > 0:
            pieces.append(Markup('<span class="d"> … {:,} more characters</span>').format(over))
        yield Markup("").join(pieces)


def _colour(text: str, active: frozenset[str]) -> Markup:
    if not text or not active:
        return show(text)
    return Markup('<span class="{}">{}</span>').format(" ".join(sorted(active)), show(text))


def _apply_sgr(active: frozenset[str], parameters: str) -> frozenset[str]:
    codes = [int(each) if each.isdecimal() and len(each) < 4 else 0 for each in parameters.split(";")]
    codes = iter(codes)
    for code in codes:
        if code in (38, 48):  # a colour by number or by value: not shown
            skip = {5: 1, 2: 3}.get(next(codes, 0), 0)
            for _ in range(skip):
                next(codes, None)
        elif code == 0:
            active = frozenset()
        elif code == 22:
            active -= {"b", "d"}
        elif code == 39:
            active -= {"d", "e", "g", "y", "c"}
        elif css := SGR_CLASSES.get(code):
            kept = active if css == "b" else active & {"b"}
            active = kept | {css}
    return active


def format_size(size: int) -> str:
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size} B"


def format_duration(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 172_800 else f"{seconds / 86_400:.0f} days"


def plural(count: int, noun: str) -> str:
    ending = "" if count == 1 else "es" if noun.endswith(("ch", "sh", "s", "x")) else "s"
    return f"{count:,} {noun}{ending}"
