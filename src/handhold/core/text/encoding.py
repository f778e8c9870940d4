"""Bytes to text and back, without loss.

What a file was encoded in is kept beside its text, and a guess that does not give the same bytes back is
no guess. So an edit changes the bytes of its span and no others, even where the guess was wrong.
"""

from codecs import getincrementaldecoder
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from handhold.core.errors import BinaryFile, Unencodable
from handhold.core.facts import Declared

BOMS = (  # UTF-32 first: its little-endian mark starts like UTF-16's
    (b"\xff\xfe\x00\x00", "utf-32-le"),
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
BINARY_PROBE = 8 * 1024
DETECTION_SAMPLE = 64 * 1024
PIECE = 1024 * 1024
ESCAPED = "iso2022_jp"  # all of its bytes are ASCII; sequences that begin with ESC $ say how to read them
REPLACEMENT = "\ufffd"
MARK = "\ufeff"
_SHOWN = {code: REPLACEMENT for code in range(0xD800, 0xE000)}

Basis = Literal["", "mark", "likelihood", "settings", ".editorconfig"]  # nothing: the bytes themselves leave no choice


@dataclass(frozen=True)
class Coding:
    """How a file's text is stored: a codec and the mark in front of it. How that is known makes no difference to it."""

    name: str = "utf-8"
    bom: bytes = b""
    unsure: bool = False  # bytes that are no UTF-8 are carried through, and nobody knows what they mean
    by: Basis = field(default="", compare=False)
    unlike: str = field(default="", compare=False)  # what was declared, where the bytes say otherwise

    @property
    def errors(self) -> str:
        """Codecs of Unicode carry broken bytes through; the others are taken only where nothing is broken."""
        if self.name == "utf-8":
            return "surrogateescape"
        return "surrogatepass" if self.name.startswith("utf-") else "strict"

    @property
    def label(self) -> str:
        return f"{self.name} with a mark" if self.bom else self.name

    @property
    def how(self) -> str:
        """What this rests on, in a word."""
        return "unknown" if self.unsure else self.by or "content"

    @property
    def newline(self) -> bytes:
        return "\n".encode(self.name)


UTF8 = Coding()
UNKNOWN = Coding(unsure=True)


@dataclass(frozen=True)
class Text:
    """A file's text: every character, line ending and blank as it stands, and how to write it back."""

    body: str
    coding: Coding = UTF8

    @classmethod
    def decode(cls, data: bytes, path: str = "", declared: Declared | None = None) -> "Text":
        coding = coding_of(data, path, declared)
        return cls(data[len(coding.bom) :].decode(coding.name, coding.errors), coding)

    @classmethod
    def new(cls, body: str, declared: Declared | None) -> "Text":
        """The text of a file that is not there yet. A mark that the text brings along is the one that is asked for."""
        if declared is None:
            return cls(body)
        coding = Coding(declared.name, declared.bom, by=declared.by)
        return cls(body.removeprefix(MARK) if declared.bom else body, coding)

    def encode(self) -> bytes:
        return self.coding.bom + self.body.encode(self.coding.name, self.coding.errors)

    def with_body(self, body: str) -> "Text":
        return replace(self, body=body)


def shown(text: str) -> str:
    """Text as it can be sent: what could not be decoded becomes U+FFFD."""
    try:
        text.encode("utf-8")  # a hundred times faster than to look at every character
    except UnicodeEncodeError:
        return text.translate(_SHOWN)
    return text


def must_fit(text: str, coding: Coding, path: str) -> None:
    """Unencodable if the file cannot hold some of these characters: no bytes for them, or nobody knows which."""
    name = "ascii" if coding.unsure else coding.name
    if "\0" not in text and _fits(text, name):  # a NUL would make a binary file of a text
        return
    bad = "".join(char for char in sorted(set(text)) if char == "\0" or not _fits(char, name))
    raise Unencodable(path, "unknown" if coding.unsure else name, bad)


def _fits(text: str, name: str) -> bool:
    """Whether it comes back as it was: some codecs have the same bytes for the yen sign and for the backslash."""
    try:
        return text.encode(name).decode(name) == text
    except UnicodeError:
        return False


def coding_of(data: bytes, path: str = "", declared: Declared | None = None) -> Coding:
    """How these bytes are encoded: by mark, as declared, as UTF-8, by likelihood, else as broken UTF-8."""
    if marked := _marked(data, data):
        return _told(marked, declared)
    if declared and (coding := _as_declared(data, declared)):
        return coding
    return _told(_by_content(data, path), declared)


def _by_content(data: bytes, path: str) -> Coding:
    if b"\0" in data[:BINARY_PROBE]:
        raise BinaryFile(path, len(data))
    if _is_escaped(data):
        return Coding(ESCAPED, by="likelihood")
    if is_utf8(data):
        return UTF8
    guess = likely(data)
    return guess if guess and _survives(data, guess) else UNKNOWN


def coding_of_sample(sample: bytes, path: str, size: int, declared: Declared | None = None) -> Coding:
    """How a file is encoded that is too large to be looked at whole, by its first DETECTION_SAMPLE bytes.

    The sample may end inside a character, and what comes after it may break the rules.
    """
    even = sample[: len(sample) - len(sample) % 4]
    if marked := _marked(sample, even):
        return _told(marked, declared)
    lines = even[: even.rfind(b"\n") + 1] or even  # in a line's end no character of one or several bytes is cut
    if declared and (coding := _as_declared(even if declared.name.startswith("utf-") else lines, declared)):
        return coding
    if b"\0" in sample[:BINARY_PROBE]:
        raise BinaryFile(path, size)
    if _is_escaped(lines):
        return _told(Coding(ESCAPED, by="likelihood"), declared)
    if any(is_utf8(sample[: len(sample) - cut]) for cut in range(4)):
        return _told(UTF8, declared)
    return _told(likely(sample, whole=False) or UNKNOWN, declared)


def _marked(data: bytes, tried: bytes) -> Coding | None:
    for bom, name in BOMS:
        if data.startswith(bom) and _survives(tried[len(bom) :], Coding(name, bom)):
            return Coding(name, bom, by="mark")
    return None


def _told(coding: Coding, declared: Declared | None) -> Coding:
    """With what was declared, if that is something else."""
    if declared is None or (declared.name == coding.name and not coding.unsure):
        return coding
    return replace(coding, unlike=declared.name)


def _as_declared(data: bytes, declared: Declared) -> Coding | None:
    """As somebody says, unless the bytes say otherwise."""
    coding = Coding(declared.name, by=declared.by)
    if declared.name == "utf-8":
        return None  # which is looked for anyway
    if declared.name.startswith("utf-"):  # a text of any length has line ends, and those have a zero byte
        return coding if (b"\0" in data or not data) and _strictly(data, coding) else None
    if b"\0" in data[:BINARY_PROBE]:
        return None
    if declared.by == ".editorconfig" and not data.isascii() and is_utf8(data):
        return None  # it speaks of a whole folder, and hardly any other text is UTF-8 by chance
    if declared.name.startswith("iso8859") and any(byte in data for byte in CONTROLS):
        return None
    return coding if _survives(data, coding) else None


def _strictly(data: bytes, coding: Coding) -> bool:
    """Whether nothing in these bytes is broken."""
    try:
        return data.decode(coding.name).encode(coding.name) == data
    except UnicodeError:
        return False


def is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _is_escaped(data: bytes) -> bool:
    """Whether this is Japanese mail. What must come back is every byte, so a line begins as it would by itself."""
    return b"\x1b" in data and b"\x1b$" in data and data.isascii() and _strictly(data, Coding(ESCAPED))


def _survives(data: bytes, coding: Coding) -> bool:
    """Whether these bytes come back the same from this codec."""
    decoder = getincrementaldecoder(coding.name)(coding.errors)
    held = b""
    try:
        for piece in _pieces(data):
            back = decoder.decode(piece).encode(coding.name, coding.errors)
            held += piece
            if not held.startswith(back):
                return False
            held = held[len(back) :]
        return decoder.decode(b"", final=True).encode(coding.name, coding.errors) == held
    except UnicodeError:
        return False


def _pieces(data: bytes) -> Iterator[bytes]:
    """Some lines at a time: a large file is not held three times over."""
    start = 0
    while len(data) - start > PIECE:
        end = data.rfind(b"\n", start, start + PIECE) + 1 or start + PIECE
        yield data[start:end]
        start = end
    yield data[start:] if start else data


def likely(data: bytes, *, whole: bool = True) -> Coding | None:
    """By what a language is like, if one can be told."""
    from handhold.core.text.likelihood import likely as guessed  # most sessions never meet such a file

    name = guessed(data, whole=whole)
    return Coding(name, by="likelihood") if name else None


CONTROLS = bytes(range(0x80, 0xA0))  # ISO 8859 has no characters there, whatever the codecs say
