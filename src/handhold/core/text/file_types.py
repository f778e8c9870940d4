"""Detect files that are not text, by their first bytes, and by name if those are ambiguous.

Some formats begin with plain letters. A text that begins with the same letters stays text unless its name says
otherwise. A name alone does not make a text an image either: the file may be a pointer to the real one.
"""

import re

from handhold.core.errors import BrokenFile
from handhold.core.facts import Medium
from handhold.core.text.encoding import BINARY_PROBE_BYTES, BOMS

PROBE_BYTES = BINARY_PROBE_BYTES
MAX_PDF_OFFSET_BYTES = 1024  # how far into the file a PDF may start

MEDIUM_BY_EXTENSION: dict[str, Medium] = {
    "png": "png",
    "jpg": "jpeg",
    "jpeg": "jpeg",
    "jpe": "jpeg",
    "jfif": "jpeg",
    "gif": "gif",
    "webp": "webp",
    "pdf": "pdf",
}
MAGIC_NUMBERS: tuple[tuple[re.Pattern[bytes], Medium], ...] = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "png"),
    (re.compile(rb"\xff\xd8\xff"), "jpeg"),
    (re.compile(rb"GIF8[79]a"), "gif"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "webp"),
    (re.compile(rb"%PDF-"), "pdf"),
)
_CONTROL_BYTE = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")  # ESC is allowed: it colors logs


def detect_medium(head: bytes, path: str) -> Medium | None:
    """The medium that these first bytes belong to; None if the file is to be read as text.

    Raise BrokenFile if its name promises a medium, but it is neither that nor text.
    """
    named = medium_from_name(path)
    text = is_text(head)
    for magic, medium in MAGIC_NUMBERS:
        if magic.match(head) and (medium == named or not text):
            return medium
    if named == "pdf" and b"%PDF-" in head[:MAX_PDF_OFFSET_BYTES]:
        return "pdf"
    if named and head and b"\0" in head and not any(head.startswith(bom) for bom, _ in BOMS):
        raise BrokenFile(path, named, f"it does not start like a {named.upper()} file")
    return None


def medium_from_name(path: str) -> Medium | None:
    """The medium that the file extension names."""
    return MEDIUM_BY_EXTENSION.get(path.rpartition(".")[2].lower()) if "." in path.rpartition("/")[2] else None


def is_text(head: bytes) -> bool:
    """Whether the beginning of a file could be UTF-8 text; it may end inside a character."""
    if _CONTROL_BYTE.search(head):
        return False
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data" and error.start >= len(head) - 3
    return True
